// Tool-call text in all the shapes models give it: what is delivered, when, and what counts as complete.
#include "text/output_parser_action.h"

#include <gtest/gtest.h>

#include "text/output_parser_testing.h"

namespace boreas {
namespace {

using testing::RunResult;
using End = OutputParser::End;
using Call = ParsedOutput::Call;

RunResult run(const std::string& json, End end = End::kStop, bool parallel = true) {
  OutputParserOptions options;
  options.parallel_tool_calls = parallel;
  const std::string script = "^/T^A" + json + (end == End::kStop ? "^/A^E" : "");
  std::string problem;
  const RunResult whole = testing::run_script(script, options, end, testing::cut_nothing, &problem);
  EXPECT_EQ(problem, "") << json;
  for (const size_t bytes : {1, 2, 5}) {
    const RunResult cut = testing::run_script(script, options, end, testing::cut_every(bytes), &problem);
    EXPECT_EQ(problem, "") << json;
    EXPECT_EQ(testing::difference(whole, cut), "") << json << " in tokens of " << bytes;
  }
  return whole;
}

Call only_call(const std::string& json, End end = End::kStop) {
  const RunResult result = run(json, end);
  EXPECT_EQ(result.output.calls.size(), 1u) << json;
  EXPECT_EQ(result.output.content, "") << json;
  return result.output.calls.empty() ? Call{} : result.output.calls[0];
}

TEST(ActionParser, SeveralCallsInTheTemplatesLayout) {
  const RunResult r =
      run("[\n    {\"tool_call_id\": \"3\", \"tool_name\": \"a\", \"parameters\": {\"x\": [1, {\"y\": \"}]\"}]}},\n"
          "    {\"tool_call_id\": \"4\", \"tool_name\": \"b\", \"parameters\": {}}\n]");
  ASSERT_EQ(r.output.calls.size(), 2u);
  EXPECT_EQ(r.output.calls[0].model_call_id, "3");
  EXPECT_EQ(r.output.calls[0].arguments, "{\"x\": [1, {\"y\": \"}]\"}]}");
  EXPECT_EQ(r.output.calls[1].model_call_id, "4");
  EXPECT_EQ(r.output.calls[1].arguments, "{}");
  EXPECT_EQ(r.complete_calls, 2);
  ASSERT_EQ(r.events.size(), 4u);
  EXPECT_EQ(r.events[2].tool_index, 1);
}

TEST(ActionParser, ArgumentsKeepTheModelsText) {
  const std::string arguments =
      "{\n        \"n\" : 1e3,\"big\": 10000000000000000001,\n\t\"e\": \"\\u00e9\\/\", \"l\":[ ]}";
  EXPECT_EQ(only_call("[{\"tool_name\": \"a\", \"parameters\":\n   " + arguments + " }]").arguments, arguments);
}

TEST(ActionParser, KeysInAnyOrderAndByOtherNames) {
  const Call first = only_call(R"([{"parameters": {"x": 1}, "tool_call_id": "7", "tool_name": "a"}])");
  EXPECT_EQ(first.name, "a");
  EXPECT_EQ(first.model_call_id, "7");
  EXPECT_EQ(first.arguments, R"({"x": 1})");
  EXPECT_TRUE(first.complete);
  const Call named = only_call(R"([{"name": "a", "id": "7", "arguments": {"x": 1}}])");
  EXPECT_EQ(named.model_call_id, "7");
  EXPECT_EQ(named.arguments, R"({"x": 1})");
  const Call other =
      only_call(R"([{"note": {"tool_name": "no", "l": [{}]}, "tool_name": "a", "why": "\"}", "parameters": {}}])");
  EXPECT_EQ(other.name, "a");
  const Call late_id = only_call(R"([{"tool_name": "a", "parameters": {}, "tool_call_id": "7"}])");
  EXPECT_EQ(late_id.model_call_id, "");
}

TEST(ActionParser, TheFirstOfARepeatedKeyCounts) {
  const Call call =
      only_call(R"([{"tool_name": "a", "tool_name": "b", "parameters": {"x": 1}, "parameters": {"x": 2}}])");
  EXPECT_EQ(call.name, "a");
  EXPECT_EQ(call.arguments, R"({"x": 1})");
}

TEST(ActionParser, OpenAiShape) {
  const Call call = only_call(
      R"([{"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{\"x\": \"\\n\\u00e9 \u00e9\ud83d\ude00\"}"}}])");
  EXPECT_EQ(call.name, "a");
  EXPECT_EQ(call.model_call_id, "c1");
  EXPECT_EQ(call.arguments, "{\"x\": \"\\n\\u00e9 \xC3\xA9\xF0\x9F\x98\x80\"}");
  EXPECT_TRUE(call.complete);
}

TEST(ActionParser, ArgumentsAreNeverEmpty) {
  for (const char* json :
       {R"([{"tool_name": "a"}])", R"([{"tool_name": "a", "parameters": null}])",
        R"([{"tool_name": "a", "parameters": ""}])", R"([{"parameters": null, "tool_name": "a"}])",
        R"([{"tool_name": "a")", R"([{"tool_name": a)", R"([{"tool_name": "a", "parameters": null)"}) {
    const Call call = only_call(json);
    EXPECT_EQ(call.arguments, "{}") << json;
    EXPECT_TRUE(call.complete) << json;
  }
  EXPECT_EQ(only_call(R"([{"tool_name": "a", "parameters": )").arguments, "{}");
}

TEST(ActionParser, OtherValuesPassAsTheyAre) {
  for (const char* value : {"[1, 2]", "5", "true", "nullx", "nu", "-"}) {
    const Call call = only_call(std::string(R"([{"tool_name": "a", "parameters": )") + value + "}]");
    EXPECT_EQ(call.arguments, value);
    EXPECT_FALSE(call.complete) << value;
  }
  const Call text = only_call(R"([{"tool_name": "a", "parameters": "no json"}])");
  EXPECT_EQ(text.arguments, "no json");
  EXPECT_FALSE(text.complete);
  EXPECT_FALSE(only_call(R"([{"tool_name": "a", "parameters": "{} {}"}])").complete);
}

TEST(ActionParser, InvalidArgumentsAreDeliveredButNotComplete) {
  for (const char* value : {"{\"a\": }", "{\"a\" 1}", "{\"a\": 1,}", "{a: 1}", "{\"a\": [1, 2}", "{\"a\": 01}",
                            "{\"a\": \"\t\"}", "{\"a\": \"\\x\"}", "{\"a\": truf}"}) {
    const Call call = only_call(std::string(R"([{"tool_name": "a", "parameters": )") + value + "}]");
    EXPECT_EQ(call.arguments, value);
    EXPECT_FALSE(call.complete) << value;
  }
}

TEST(ActionParser, BrokenArraysKeepTheirCalls) {
  for (const char* json :
       {R"({"tool_name": "a"}{"tool_name": "b"})", R"([{"tool_name": "a", {"tool_name": "b"}])",
        R"([{"tool_name": "a"], [{"tool_name": "b"]])", R"([{"tool_name": "a"}}, {"tool_name": "b"})",
        R"(```json [{"tool_name": "a"} and {"tool_name": "b"}] ```)",
        R"([{"tool_name" "a" "parameters" {}}, {"tool_name":: "b",, }])",
        R"([{"tool_name": "a", "parameters": {}, {"tool_name": "b", "x": }])"}) {
    const RunResult r = run(json);
    ASSERT_EQ(r.output.calls.size(), 2u) << json;
    EXPECT_EQ(r.output.calls[0].name, "a") << json;
    EXPECT_EQ(r.output.calls[1].name, "b") << json;
    EXPECT_EQ(r.complete_calls, 2) << json;
    EXPECT_EQ(r.output.content, "") << json;
  }
}

TEST(ActionParser, NamesAreDecoded) {
  EXPECT_EQ(only_call(R"([{"tool_name": "a\u00e9\"\\b"}])").name, "a\xC3\xA9\"\\b");
  EXPECT_EQ(only_call(R"([{"tool\u005fname": "a"}])").name, "a");
}

TEST(ActionParser, WithoutANameThereIsNoCall) {
  for (const char* json : {R"([{"tool_name": ""}])", R"([{"tool_name": null, "parameters": {"x": 1}}])", "[{}]",
                           R"([{"tool_name": {"a": 1}}])", R"([{"tool_name": "a)"}) {
    const RunResult r = run(json);
    EXPECT_TRUE(r.output.calls.empty()) << json;
    EXPECT_EQ(r.output.content, json);
  }
}

TEST(ActionParser, CutOffDeliversNoHalfName) {
  EXPECT_TRUE(run(R"([{"tool_call_id": "0", "tool_name": "wri)", End::kLength).output.calls.empty());
  EXPECT_TRUE(run(R"([{"parameters": {"x": 1}, "tool_name": "wri)", End::kLength).output.calls.empty());
  EXPECT_TRUE(run(R"([{"tool_name": wri)", End::kAbort).output.calls.empty());
  const Call named = only_call(R"([{"tool_name": "write",)", End::kLength);
  EXPECT_EQ(named.arguments, "");
  EXPECT_FALSE(named.complete);
  EXPECT_EQ(only_call(R"([{"tool_name": "write", "parameters": {"x": "a\)", End::kLength).arguments, R"({"x": "a\)");
  EXPECT_EQ(only_call(R"([{"tool_name": "write", "parameters": nul)", End::kLength).arguments, "");
  EXPECT_FALSE(only_call(R"([{"tool_name": "write", "parameters": {})", End::kLength).complete);
}

TEST(ActionParser, OneCallOnly) {
  const std::string two = R"([{"tool_name": "a", "parameters": {"x": 1}}, {"parameters": {"x": 2}, "tool_name": "b"}])";
  const RunResult r = run(two, End::kStop, false);
  ASSERT_EQ(r.output.calls.size(), 1u);
  EXPECT_EQ(r.output.calls[0].name, "a");
  EXPECT_EQ(r.output.content, "");
  const RunResult blocks = run(two + "^/A^A" + two, End::kStop, false);
  EXPECT_EQ(blocks.output.calls.size(), 1u);
  EXPECT_EQ(blocks.output.content, "");
}

TEST(ActionParser, SeveralBlocksCountOn) {
  const RunResult r = run(R"([{"tool_name": "a"}]^/A^A[{"tool_name": "b"}]^A[{"tool_name": "c"}])");
  ASSERT_EQ(r.output.calls.size(), 3u);
  EXPECT_EQ(r.events.back().tool_index, 2);
}

TEST(ActionParser, DeepArgumentsPassUnchanged) {
  for (const size_t depth : {999, 1000, 1001, 50000}) {
    const std::string deep = "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
    const RunResult r = run("[{\"tool_name\": \"a\", \"parameters\": " + deep + "}, {\"tool_name\": \"b\"}]");
    ASSERT_EQ(r.output.calls.size(), 2u);
    EXPECT_EQ(r.output.calls[0].arguments, deep);
    EXPECT_EQ(r.output.calls[0].complete, depth <= 1000);
  }
}

TEST(ActionParser, ArgumentsAreStreamed) {
  OutputParser parser(testing::test_markers(), {});
  std::vector<OutputEvent> events;
  parser.push(5, {}, events);
  parser.push(100, "[{\"tool_call_id\": \"0\", \"tool_name\": \"write\", ", events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, OutputEvent::Kind::kToolCallStart);
  EXPECT_EQ(events[0].text, "write");
  parser.push(100, "\"parameters\": {\"te", events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].text, "{\"te");
  parser.push(100, "xt\": \"a", events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].text, "xt\": \"a");
  EXPECT_EQ(parser.complete_tool_calls(), 0);
}

}  // namespace
}  // namespace boreas
