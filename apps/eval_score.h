// The exact checks of the held-out sets, as tools/train_demo/README.md lists them: what an answer must be, and whether
// it is. Equal verdicts to tools/train_demo/score.py, which tests/eval demands. Pure, except that Python checks run
// through a PythonSandbox.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval_python.h"

namespace boreas {

struct AnswerCall {
  std::string name;
  boost::json::value arguments;  // a string if they are no JSON
};

struct Answer {
  std::optional<std::string> content;  // null: the message had none
  std::string reasoning;
  std::vector<AnswerCall> calls;
};

struct Check {
  enum class Type : uint8_t { kToolCalls, kNumber, kEquals, kContains, kJson, kCommand, kPython };
  Type type = Type::kEquals;
  std::vector<AnswerCall> calls;           // kToolCalls
  boost::json::value value;                // kNumber (a number), kJson
  std::vector<std::string> accepted;       // kEquals, kCommand
  std::vector<std::string> all, none;      // kContains
  std::optional<std::string> function;     // kPython; null: the last one defined
  boost::json::array arguments, returned;  // kPython: [cases]
};

enum class AnswerVerdict : uint8_t { kRight, kWrong, kUnscored };
std::string_view verdict_name(AnswerVerdict verdict);  // "right", "wrong", "unscored"
std::optional<AnswerVerdict> verdict_of(std::string_view name);

// Reads a check object. Error: names the field (`param` as in "check.calls.0.name") and what was expected.
Result<Check> read_check(const boost::json::value& value);

// kUnscored: a Python check and no sandbox, or one that failed by itself.
AnswerVerdict score(const Answer& answer, const Check& check, const PythonSandbox* sandbox);

// Equal JSON values: 1 and 1.0 are, 1 and true are not.
bool same_json(const boost::json::value& a, const boost::json::value& b);
// `wanted` and nothing else, in any order.
bool same_calls(const std::vector<AnswerCall>& made, const std::vector<AnswerCall>& wanted);
// The first fenced block, without a fence the whole text; trimmed.
std::string code_block(std::string_view text);
// Without white space (as Unicode has it) at both ends.
std::string_view trim(std::string_view text);
// JSON as answers may hold it: any depth up to 512. Null pointer semantics: nullopt if it is none.
std::optional<boost::json::value> parse_json(std::string_view text);

// A model's raw output, markers kept, as an answer.
Answer parse_marked_output(std::string_view output);

}  // namespace boreas
