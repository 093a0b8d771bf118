// Every kind of check, right and wrong answers; and the same verdicts as tools/train_demo/score.py gives.
#include "apps/eval_score.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/eval_reference.h"
#include "apps/eval_set.h"
#include "tests/eval/temporary.h"

namespace boreas {
namespace {

namespace json = boost::json;

struct Case {
  std::string check;   // JSON
  std::string answer;  // {"content", "tool_calls"}, as score.py reads answers
  bool right = false;
};

std::string says(const std::string& content) {
  return json::serialize(json::object{{"content", content}, {"tool_calls", json::array()}});
}

std::string calls(const std::string& list) { return R"({"content": null, "tool_calls": )" + list + "}"; }

Answer answer_of(const std::string& text) {
  const json::value value = json::parse(text);
  Answer answer;
  if (value.at("content").is_string()) answer.content = std::string(value.at("content").get_string());
  for (const json::value& call : value.at("tool_calls").get_array()) {
    answer.calls.push_back({std::string(call.at("name").as_string()), call.at("arguments")});
  }
  return answer;
}

const std::string kCallCheck =
    R"({"type": "tool_calls", "calls": [{"name": "f", "arguments": {"a": 1, "b": [true, "x"]}}]})";
const std::string kTwoCalls =
    R"({"type": "tool_calls", "calls": [{"name": "f", "arguments": {}}, {"name": "f", "arguments": {"n": 2}}]})";

std::vector<Case> call_cases() {
  return {
      {kCallCheck, calls(R"([{"name": "f", "arguments": {"b": [true, "x"], "a": 1}}])"), true},
      {kCallCheck, calls(R"([{"name": "f", "arguments": {"a": 1.0, "b": [true, "x"]}}])"), true},
      {kCallCheck, calls(R"([{"name": "f", "arguments": {"a": 1, "b": [1, "x"]}}])"), false},
      {kCallCheck, calls(R"([{"name": "f", "arguments": {"a": true, "b": [true, "x"]}}])"), false},
      {kCallCheck, calls(R"([{"name": "g", "arguments": {"a": 1, "b": [true, "x"]}}])"), false},
      {kCallCheck, calls(R"([{"name": "f", "arguments": {"a": 1, "b": [true, "x"], "c": null}}])"), false},
      {kCallCheck, calls(R"([{"name": "f", "arguments": {"a": 1}}])"), false},
      {kCallCheck, calls(R"([{"name": "f", "arguments": "{\"a\": 1"}])"), false},
      {kCallCheck, calls("[]"), false},
      {kTwoCalls, calls(R"([{"name": "f", "arguments": {"n": 2}}, {"name": "f", "arguments": {}}])"), true},
      {kTwoCalls, calls(R"([{"name": "f", "arguments": {}}])"), false},
      {kTwoCalls,
       calls(
           R"([{"name": "f", "arguments": {}}, {"name": "f", "arguments": {}}, {"name": "f", "arguments": {"n": 2}}])"),
       false},
      {R"({"type": "tool_calls", "calls": []})", says("no tool"), true},
      {R"({"type": "tool_calls", "calls": [{"name": "f", "arguments": {"n": 9007199254740993}}]})",
       calls(R"([{"name": "f", "arguments": {"n": 9007199254740993}}])"), true},
      {R"({"type": "tool_calls", "calls": [{"name": "f", "arguments": {"n": 9007199254740993}}]})",
       calls(R"([{"name": "f", "arguments": {"n": 9007199254740992.0}}])"), false},
      {R"({"type": "tool_calls", "calls": [{"name": "f", "arguments": {"n": 18446744073709551615}}]})",
       calls(R"([{"name": "f", "arguments": {"n": -1}}])"), false},
  };
}

std::vector<Case> number_cases() {
  const std::string is_103 = R"({"type": "number", "value": 103})";
  return {
      {is_103, says("8 + 95 = 103."), true},
      {is_103, says("103, not 104"), false},
      {is_103, says("It is 103.0"), true},
      {is_103, says("x103y"), true},
      {is_103, says("1.103"), false},
      {is_103, says("1.2.103"), true},
      {is_103, says("-103"), false},
      {is_103, says("none"), false},
      {is_103, says(""), false},
      {is_103, says("\xD9\xA1\xD9\xA0\xD9\xA3"), true},                          // Arabic-Indic digits
      {is_103, says("\xF0\x9D\x9F\x8F\xF0\x9D\x9F\x8E\xF0\x9D\x9F\x91"), true},  // bold digits of mathematics
      {is_103, says("\xC2\xB9\xC2\xB0\xC2\xB3"), false},                         // superscripts are no decimal digits
      {is_103, R"({"content": "103", "tool_calls": [{"name": "f", "arguments": {}}]})", false},
      {is_103, R"({"content": null, "tool_calls": []})", false},
      {R"({"type": "number", "value": -5})",
       says("so \xE2\x88\x92"
            "5"),
       true},
      {R"({"type": "number", "value": -5})", says("7 - 12 = -5"), true},
      {R"({"type": "number", "value": -5})", says("12-5"), true},
      {R"({"type": "number", "value": -5})", says("- 5"), false},
      {R"({"type": "number", "value": 2.5})", says("2.5."), true},
      {R"({"type": "number", "value": 0.1})", says("0.1"), true},
      {R"({"type": "number", "value": 3})", says("5.\n3"), true},
  };
}

std::vector<Case> text_cases() {
  const std::string equals = R"({"type": "equals", "accepted": ["Mira", "mira."]})";
  const std::string contains = R"({"type": "contains", "all": ["Oslo", "34"], "none": ["Bergen"]})";
  const std::string command = R"({"type": "command", "accepted": ["ls -l", "ls -l ."]})";
  const std::string value = R"({"type": "json", "value": {"name": "M\u00eff", "n": [1, 2.5, null], "ok": false}})";
  return {
      {equals, says(" \n\xC2\xA0\xE2\x80\x83Mira\t\x1F\xE2\x80\xA8"), true},
      {equals, says("mira."), true},
      {equals, says("Mira."), false},
      {equals, says("\xE2\x80\x8BMira"), false},  // a space of no width is none
      {contains, says("34 in Oslo"), true},
      {contains, says("34, Oslo; Bergens"), true},
      {contains, says("34, Oslo, Bergen"), false},
      {contains, says("134 in Oslo"), false},
      {contains, says("34 in Oslo_"), false},
      {contains, says("3434 34 OsloOslo Oslo"), true},
      {contains, says("\xC3\xA9Oslo\xC3\xA9 34"), true},
      {R"({"type": "contains", "all": ["a.b"], "none": []})", says("axb"), false},
      {R"({"type": "contains", "all": [], "none": []})", says(""), true},
      {command, says("ls -l"), true},
      {command, says("```bash\nls -l\n```"), true},
      {command, says("Here:\n```\nls -l .```\nand ```\nrm\n```"), true},
      {command, says("```sh ls -l```"), false},
      {command, says("```BASH\nls -l\n```"), false},
      {command, says("````\nls -l\n```"), true},
      {command, says("```\n\n```"), false},
      {command, says("```\nls -l"), false},
      {command, says("ls  -l"), false},
      {value,
       says(R"({"n": [1.0, 2.50, null], "ok": false, "name": "M)"
            "\xC3\xAF"
            R"(f"})"),
       true},
      {value, says(R"({"n": [1, 2.5, null], "ok": 0, "name": "M\u00eff"})"), false},
      {value, says(R"({"n": [2.5, 1, null], "ok": false, "name": "M\u00eff"})"), false},
      {value, says(R"(Sure: {"n": [1, 2.5, null], "ok": false, "name": "M\u00eff"})"), false},
      {value, says(R"({"ok": true, "n": [1, 2.5, null], "ok": false, "name": "M\u00eff"})"), true},
      {value, says(R"({"n": [1, 2.5, NaN], "ok": false, "name": "M\u00eff"})"), false},
      {value, says("{'n': 1}"), false},
      {value, says(""), false},
  };
}

std::vector<Case> python_cases() {
  const std::string even =
      R"({"type": "python", "function": "is_even", "cases": [{"args": [2], "returns": true}, {"args": [3], "returns": false}]})";
  const std::string last =
      R"({"type": "python", "function": null, "cases": [{"args": [2, "a"], "returns": ["aa", 2]}]})";
  return {
      {even, says("```python\ndef is_even(n):\n    return n % 2 == 0\n```"), true},
      {even, says("def is_even(n):\n    return n % 2 == 0"), true},
      {even, says("```python\ndef is_even(n):\n    return 1 - n % 2\n```"), false},
      {even, says("```python\ndef is_odd(n):\n    return n % 2 == 0\n```"), false},
      {even, says("```python\ndef is_even(n:\n```"), false},
      {even, says("def is_even(n):\n    print(n)\n    return n % 2 == 0"), false},
      {even, says("def is_even(n):\n    raise SystemExit"), false},
      {even, says("import os\ndef is_even(n):\n    os.fork()\n    return n % 2 == 0"), false},
      {last, says("def helper(): pass\ndef twice(n, s):\n    return s * n, n"), true},
      {last, says("def twice(n, s):\n    return s * n, n\nhelper = len"), false},
      {last, says("import re, math, collections, itertools, datetime, json\nf = lambda n, s: [s * n, n]"), true},
  };
}

std::vector<Case> all_cases(bool with_python) {
  std::vector<Case> all;
  for (const std::vector<Case>& some : {call_cases(), number_cases(), text_cases()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  const std::vector<Case> python = python_cases();
  if (with_python) all.insert(all.end(), python.begin(), python.end());
  return all;
}

TEST(EvalScore, EveryKindOfCheckRightAndWrong) {
  const Result<std::unique_ptr<PythonSandbox>> sandbox = PythonSandbox::create();
  for (const Case& one : all_cases(sandbox.ok())) {
    const Result<Check> check = read_check(json::parse(one.check));
    ASSERT_TRUE(check.ok()) << one.check;
    const AnswerVerdict verdict = score(answer_of(one.answer), *check, sandbox.ok() ? sandbox->get() : nullptr);
    EXPECT_EQ(verdict, one.right ? AnswerVerdict::kRight : AnswerVerdict::kWrong) << one.check << "\n" << one.answer;
  }
}

// What score.py prints for `script`, in which `cases` is the content of a file of lines; null without python3.
json::value ask_python(const std::string& script, const std::vector<std::string>& lines) {
  if (std::system("/usr/bin/python3 -c pass 2>/dev/null") != 0) return nullptr;
  const std::filesystem::path folder = temporary("score");
  std::filesystem::create_directories(folder);
  {
    std::ofstream file(folder / "cases.jsonl");
    for (const std::string& line : lines) file << line << "\n";
    std::ofstream(folder / "script.py") << "import json, sys\nsys.path.insert(0, '" BOREAS_SOURCE_DIR
                                           "/tools/train_demo')\nimport score\n"
                                           "cases = [json.loads(line) for line in open(sys.argv[1])]\n"
                                        << script;
  }
  const std::string at = folder.string();
  const std::string command = "/usr/bin/python3 -B " + at + "/script.py " + at + "/cases.jsonl > " + at + "/out.json";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::stringstream text;
  text << std::ifstream(folder / "out.json").rdbuf();
  std::filesystem::remove_all(folder);
  return json::parse(text.str());
}

TEST(EvalScore, SameVerdictsAsThePythonScorer) {
  const std::vector<Case> cases = all_cases(true);
  std::vector<std::string> lines;
  for (const Case& one : cases) lines.push_back("[" + one.check + ", " + one.answer + "]");
  const json::value verdicts = ask_python("print(json.dumps([score.passes(a, c) for c, a in cases]))\n", lines);
  if (verdicts.is_null()) GTEST_SKIP() << "no python3";
  ASSERT_EQ(verdicts.as_array().size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(verdicts.at(i).as_bool(), cases[i].right) << cases[i].check << "\n" << cases[i].answer;
  }
}

TEST(EvalScore, SameVerdictsOnTheBundledAnswers) {
  const Result<std::map<std::string, std::string>> outputs =
      read_reference(BOREAS_SOURCE_DIR "/models/demo/answers.jsonl");
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  std::vector<std::string> lines;
  std::vector<AnswerVerdict> ours;
  for (const char* name : {"held_out.jsonl", "handwritten.jsonl"}) {
    const std::string file = std::string(BOREAS_SOURCE_DIR "/models/demo/") + name;
    const Result<EvalSet> set = read_eval_set(file);
    ASSERT_TRUE(set.ok()) << set.error().message;
    std::ifstream stream(file);
    size_t index = 0;
    for (std::string line; std::getline(stream, line); ++index) {
      const EvalItem& item = set->items.at(index);
      if (item.check.type == Check::Type::kPython) continue;  // slow, and in the cases above
      const std::string& output = outputs->at(item.id);
      lines.push_back("[" + line + ", " + json::serialize(json::value(output)) + "]");
      ours.push_back(score(parse_marked_output(output), item.check, nullptr));
    }
  }
  const json::value theirs =
      ask_python("print(json.dumps([score.passes(score.parse_output(o), i['check']) for i, o in cases]))\n", lines);
  if (theirs.is_null()) GTEST_SKIP() << "no python3";
  size_t right = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(theirs.at(i).as_bool(), ours[i] == AnswerVerdict::kRight) << lines[i];
    right += ours[i] == AnswerVerdict::kRight ? 1 : 0;
  }
  EXPECT_GT(right, ours.size() / 2);
  EXPECT_LT(right, ours.size());
}

TEST(EvalScore, PythonWithoutASandboxIsUnscored) {
  const Result<Check> check = read_check(json::parse(python_cases().front().check));
  ASSERT_TRUE(check.ok());
  EXPECT_EQ(score(answer_of(says("def is_even(n): return True")), *check, nullptr), AnswerVerdict::kUnscored);
  EXPECT_EQ(score(answer_of(calls("[]")), *check, nullptr), AnswerVerdict::kWrong);  // no text is wrong in any case
}

TEST(EvalScore, BadChecksAreErrorsThatNameTheField) {
  const std::pair<const char*, const char*> bad[] = {
      {R"(5)", "check"},
      {R"({})", "check.type"},
      {R"({"type": "guess"})", "check.type"},
      {R"({"type": "number"})", "check.value"},
      {R"({"type": "number", "value": "5"})", "check.value"},
      {R"({"type": "number", "value": true})", "check.value"},
      {R"({"type": "json"})", "check.value"},
      {R"({"type": "equals", "accepted": "x"})", "check.accepted"},
      {R"({"type": "equals", "accepted": ["x", 5]})", "check.accepted.1"},
      {R"({"type": "contains", "all": []})", "check.none"},
      {R"({"type": "command"})", "check.accepted"},
      {R"({"type": "tool_calls"})", "check.calls"},
      {R"({"type": "tool_calls", "calls": [5]})", "check.calls.0"},
      {R"({"type": "tool_calls", "calls": [{"name": 5}]})", "check.calls.0.name"},
      {R"({"type": "tool_calls", "calls": [{"name": "f"}]})", "check.calls.0.arguments"},
      {R"({"type": "python", "cases": []})", "check.function"},
      {R"({"type": "python", "function": null})", "check.cases"},
      {R"({"type": "python", "function": null, "cases": [{"returns": 1}]})", "check.cases.0.args"},
      {R"({"type": "python", "function": null, "cases": [{"args": []}]})", "check.cases.0.returns"},
  };
  for (const auto& [text, param] : bad) {
    const Result<Check> check = read_check(json::parse(text));
    ASSERT_FALSE(check.ok()) << text;
    EXPECT_EQ(check.error().param, param) << text;
  }
}

TEST(EvalScore, MarkedOutputReadsAsAnAnswer) {
  const Answer text = parse_marked_output("why<|END_THINKING|><|START_TEXT|>Hi <b><|END_TEXT|>rest");
  EXPECT_EQ(text.reasoning, "why");
  EXPECT_EQ(text.content, "Hi <b>");
  EXPECT_TRUE(text.calls.empty());
  const Answer call = parse_marked_output(
      R"(<|END_THINKING|><|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>)");
  EXPECT_FALSE(call.content);
  ASSERT_EQ(call.calls.size(), 1u);
  EXPECT_EQ(call.calls[0].name, "f");
  const Answer broken = parse_marked_output(R"(<|START_ACTION|>[{"tool_name": "f"}]<|END_ACTION|>)");
  EXPECT_TRUE(broken.calls.empty());
  EXPECT_EQ(broken.content, R"([{"tool_name": "f"}])");
  EXPECT_EQ(parse_marked_output("bare<|END_OF_TURN_TOKEN|>").content, "bare");
}

}  // namespace
}  // namespace boreas
