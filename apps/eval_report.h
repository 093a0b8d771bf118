// What an evaluation tells: tables, the JSON file, and comparisons with an earlier run or with a reference's answers.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval_run.h"

namespace boreas {

struct TableRow {
  std::string set, kind, part;  // part "all": of the whole kind; kind "total": of the whole set
  int64_t right = 0, count = 0, unscored = 0;
};
// Set by set: kinds in alphabetical order, each followed by its parts, and the total.
std::vector<TableRow> make_table(const std::vector<EvalOutcome>& outcomes);
void print_table(std::ostream& out, const std::vector<TableRow>& rows, bool with_parts);

// Refused and unanswered prompts, with the server's words; at most a few lines.
void print_errors(std::ostream& out, const std::vector<EvalOutcome>& outcomes);

// {"table": [...], "prompts": [{"id", "verdict", "answer", ...}]} and what `about` says of the run.
boost::json::object report_json(const std::vector<EvalOutcome>& outcomes, boost::json::object about);
// One line a prompt, id and verdict alone: for a baseline that is kept with the sources.
std::string verdict_lines(const std::vector<EvalOutcome>& outcomes);

// Verdicts by id, of a file that either of the two wrote. Error: names file and field.
Result<std::map<std::string, AnswerVerdict>> read_baseline(const std::string& file);

struct BaselineChange {
  std::vector<std::string> newly_wrong, newly_right, unknown;  // ids; unknown: not in the baseline
  size_t compared = 0;
};
// Unscored on either side is not compared.
BaselineChange compare_baseline(const std::vector<EvalOutcome>& outcomes,
                                const std::map<std::string, AnswerVerdict>& baseline);
void print_change(std::ostream& out, const BaselineChange& change);

Status write_file(const std::string& file, const std::string& text);

}  // namespace boreas
