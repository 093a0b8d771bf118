// A comparison of answers with those of a reference (models/demo/answers.jsonl: the trained network's own greedy
// outputs, markers kept): every prompt where they differ, and how close the two best tokens were at the first
// difference.
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval_run.h"

namespace boreas {

// Outputs by id, of lines {"id", "output"}. Error: names file, line and field.
Result<std::map<std::string, std::string>> read_reference(const std::string& file);

// Calls, or text without white space at its ends, are not the same.
bool answers_differ(const Answer& answer, const Answer& reference);

// Where the tokens of an answer leave a reference's output.
struct Divergence {
  int64_t token = 0;    // index among the generated ones
  std::string ours;     // our token there
  std::string other;    // the second likeliest
  float gap = 0;        // log-probability of the likeliest less that of the second
  bool second = false;  // the reference goes on with `other`
};
std::optional<Divergence> find_divergence(const std::vector<AnswerToken>& tokens, const std::string& output);

// Prints the table of points and every difference; asks the server again for the tokens of those prompts. Error: the
// server cannot be reached.
Status compare_reference(std::ostream& out, const std::vector<EvalOutcome>& outcomes,
                         const std::map<std::string, std::string>& reference, const RunOptions& options,
                         const PythonSandbox* sandbox);

}  // namespace boreas
