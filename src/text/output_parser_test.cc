// The block structure of model outputs: the well-formed case, the seventeen deviations, citations, stop strings,
// cut-off characters. Each script runs whole, byte by byte and in threes and must give the same.
#include "text/output_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/output_parser_raw.h"
#include "text/output_parser_testing.h"

namespace boreas {
namespace {

using testing::RunResult;
using End = OutputParser::End;

RunResult run(std::string_view script, const OutputParserOptions& options = {}, End end = End::kStop) {
  std::string problem;
  const RunResult whole = testing::run_script(script, options, end, testing::cut_nothing, &problem);
  EXPECT_EQ(problem, "") << script;
  for (const size_t bytes : {1, 2, 3, 7}) {
    const RunResult cut = testing::run_script(script, options, end, testing::cut_every(bytes), &problem);
    EXPECT_EQ(problem, "") << script << " in tokens of " << bytes;
    EXPECT_EQ(testing::difference(whole, cut), "") << script << " in tokens of " << bytes;
  }
  return whole;
}

OutputParserOptions reasoning_off() {
  OutputParserOptions options;
  options.starts_in_thinking = false;
  return options;
}

OutputParserOptions with_stop(std::vector<std::string> stop) {
  OutputParserOptions options;
  options.stop = std::move(stop);
  return options;
}

constexpr const char* kCall = R"([
    {"tool_call_id": "0", "tool_name": "ls", "parameters": {"path": "/"}}
])";

void expect_ls(const RunResult& result) {
  ASSERT_EQ(result.output.calls.size(), 1u);
  EXPECT_EQ(result.output.calls[0].name, "ls");
  EXPECT_EQ(result.output.calls[0].model_call_id, "0");
  EXPECT_EQ(result.output.calls[0].arguments, R"({"path": "/"})");
  EXPECT_TRUE(result.output.calls[0].complete);
  EXPECT_EQ(result.complete_calls, 1);
}

TEST(OutputParser, ReasoningThenText) {
  const RunResult r = run("\n I think. \n^/T^X  The answer.\n\n^/X^E");
  EXPECT_EQ(r.output.reasoning, "I think.");
  EXPECT_EQ(r.output.content, "  The answer.");
  EXPECT_TRUE(r.output.calls.empty());
}

TEST(OutputParser, ReasoningThenCall) {
  const RunResult r = run(std::string("List it.^/T^A") + kCall + "^/A^E");
  EXPECT_EQ(r.output.reasoning, "List it.");
  EXPECT_EQ(r.output.content, "");
  expect_ls(r);
}

TEST(OutputParser, ReasoningOffThenText) {
  const RunResult r = run("^XHi^/X^E", reasoning_off());
  EXPECT_EQ(r.output.reasoning, "");
  EXPECT_EQ(r.output.content, "Hi");
  EXPECT_EQ(r.reasoning_tokens, 0);
}

TEST(OutputParser, StartsInContent) {
  OutputParserOptions options;
  options.starts_in_content = true;
  EXPECT_EQ(run(" and so on^/X^E", options).output.content, " and so on");
}

TEST(OutputParser, TextIsStreamedAtOnce) {
  OutputParser parser(testing::test_markers(), {});
  std::vector<OutputEvent> events;
  parser.push(testing::kTextToken, "Think", events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, OutputEvent::Kind::kReasoning);
  EXPECT_EQ(events[0].text, "Think");
  parser.push(2, {}, events);
  parser.push(3, {}, events);
  parser.push(testing::kTextToken, "Hello wor", events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].kind, OutputEvent::Kind::kContent);
  EXPECT_EQ(events[1].text, "Hello wor");
  EXPECT_EQ(parser.tokens_settled(), 4);
}

TEST(OutputParser, ReasoningTokensEndAtEndThinking) {
  EXPECT_EQ(testing::run_script("abcd^/T^Xefg^/X^E", {}, End::kStop, testing::cut_every(1)).reasoning_tokens, 4);
  EXPECT_EQ(testing::run_script("abcd", {}, End::kLength, testing::cut_every(1)).reasoning_tokens, 4);
  EXPECT_EQ(testing::run_script("abc^/T^Xe^/X", reasoning_off(), End::kStop, testing::cut_every(1)).reasoning_tokens,
            3);
  EXPECT_EQ(testing::run_script("abc", reasoning_off(), End::kStop, testing::cut_every(1)).reasoning_tokens, 0);
}

// The seventeen deviations of model outputs seen in the wild, by number.

TEST(OutputParserDeviation, D01_StartThinkingAgain) {
  const RunResult r = run("^Tplan^/T^XHi^/X^E");
  EXPECT_EQ(r.output.reasoning, "plan");
  EXPECT_EQ(r.output.content, "Hi");
  EXPECT_EQ(run("^/T^Tmore^/T^XHi^/X^E").output.reasoning, "more");
  EXPECT_EQ(run("one^/T\n^Ttwo^/T^XHi^/X^E").output.reasoning, "one\ntwo");
  EXPECT_EQ(run("^Tplan^/T^XHi^/X^E", reasoning_off()).output.reasoning, "plan");
}

TEST(OutputParserDeviation, D02_BodyWithoutEndThinking) {
  const RunResult text = run("plan\n^XHi^/X^E");
  EXPECT_EQ(text.output.reasoning, "plan");
  EXPECT_EQ(text.output.content, "Hi");
  const RunResult action = run(std::string("plan\n^A") + kCall + "^/A^E");
  EXPECT_EQ(action.output.reasoning, "plan");
  expect_ls(action);
}

TEST(OutputParserDeviation, D03_TextWithoutStartText) {
  const RunResult r = run("plan^/T\n\nBare answer.\n^E");
  EXPECT_EQ(r.output.reasoning, "plan");
  EXPECT_EQ(r.output.content, "Bare answer.");
  EXPECT_EQ(run("plan^/TSure.\n^XAnswer^/X^E").output.content, "Sure.\nAnswer");
}

TEST(OutputParserDeviation, D04_ResponseMarkers) {
  EXPECT_EQ(run("plan^/T^RHi^/R^E").output.content, "Hi");
  EXPECT_EQ(run("plan^/T^RHi^/X^E").output.content, "Hi");
  OutputMarkers without = testing::test_markers();
  without.start_response = without.end_response = -1;
  OutputParser parser(without, {});
  std::vector<OutputEvent> events;
  parser.push(7, "r", events);
  ASSERT_EQ(events.size(), 1u);  // then the id is a token like any other
  EXPECT_EQ(events[0].text, "r");
}

TEST(OutputParserDeviation, D05_EndTextMissing) {
  EXPECT_EQ(run("plan^/T^XHi \n^E").output.content, "Hi");
  EXPECT_EQ(run("plan^/T^XHi \n").output.content, "Hi");
}

TEST(OutputParserDeviation, D06_TextThenAction) {
  const RunResult r = run(std::string("plan^/T^XLook:^/X\n^A") + kCall + "^/A^E");
  EXPECT_EQ(r.output.content, "Look:");
  expect_ls(r);
  const RunResult open = run(std::string("plan^/T^XLook:\n^A") + kCall + "^/A^E");
  EXPECT_EQ(open.output.content, "Look:");
  expect_ls(open);
  const RunResult turned = run(std::string("plan^/T^A") + kCall + "^/A^XDone.^/X^E");
  EXPECT_EQ(turned.output.content, "Done.");
  expect_ls(turned);
}

TEST(OutputParserDeviation, D07_StrayEndText) {
  const RunResult r = run(std::string("plan^/X^/T^/X^A") + kCall + "^/A^/X^/A^E");
  EXPECT_EQ(r.output.reasoning, "plan");
  EXPECT_EQ(r.output.content, "");
  expect_ls(r);
  EXPECT_EQ(run("plan^/T^/XHi^E").output.content, "Hi");
  OutputParserOptions none;
  none.tools_allowed = false;
  EXPECT_EQ(run("plan^/T^XHi^/X^/X^E", none).output.content, "Hi");
  EXPECT_EQ(run("^/X^XHi^/X^E", reasoning_off()).output.content, "Hi");
}

TEST(OutputParserDeviation, D08_BlanksBetweenBlocks) {
  const RunResult r = run(std::string(" \n plan \n^/T\n\n^X\nHi\n^/X \n^A") + kCall + "\n^/A\n\n^E\n");
  EXPECT_EQ(r.output.reasoning, "plan");
  EXPECT_EQ(r.output.content, "\nHi");
  expect_ls(r);
}

TEST(OutputParserDeviation, D09_ReasoningThoughItIsOff) {
  const RunResult r = run("I should say hi.^/T^XHi^/X^E", reasoning_off());
  EXPECT_EQ(r.output.reasoning, "I should say hi.");
  EXPECT_EQ(r.output.content, "Hi");
  EXPECT_EQ(run("I should.^/THi^E", reasoning_off()).output.content, "Hi");
  EXPECT_EQ(run("I should.^XHi^/X^E", reasoning_off()).output.reasoning, "I should.");
  const RunResult action = run(std::string("List it.^A") + kCall + "^/A^E", reasoning_off());
  EXPECT_EQ(action.output.reasoning, "List it.");
  expect_ls(action);
  EXPECT_EQ(run("\nJust text.\n^E", reasoning_off()).output.content, "Just text.");
  EXPECT_EQ(run("Just text.^/X^E", reasoning_off()).output.content, "Just text.");
  EXPECT_EQ(run("Just te", reasoning_off(), End::kLength).output.content, "Just te");
}

TEST(OutputParserDeviation, D10_NumericCallId) {
  const RunResult r = run(R"(^/T^A[{"tool_call_id": 17, "tool_name": "ls", "parameters": {}}]^/A^E)");
  ASSERT_EQ(r.output.calls.size(), 1u);
  EXPECT_EQ(r.output.calls[0].model_call_id, "17");
  EXPECT_EQ(r.output.calls[0].arguments, "{}");
}

TEST(OutputParserDeviation, D11_SingleObject) {
  expect_ls(run(R"(^/T^A{"tool_call_id": "0", "tool_name": "ls", "parameters": {"path": "/"}}^/A^E)"));
}

TEST(OutputParserDeviation, D12_MalformedJson) {
  // No comma between calls.
  const RunResult comma = run(R"(^/T^A[{"tool_name": "a", "parameters": {"x": 1}} {"tool_name": "b"}]^/A^E)");
  ASSERT_EQ(comma.output.calls.size(), 2u);
  EXPECT_EQ(comma.output.calls[0].arguments, R"({"x": 1})");
  EXPECT_EQ(comma.output.calls[1].arguments, "{}");
  EXPECT_EQ(comma.complete_calls, 2);
  // No quotes.
  const RunResult bare = run(R"(^/T^A[{tool_call_id: 0, tool_name: ls, parameters: {path: /}}]^/A^E)");
  ASSERT_EQ(bare.output.calls.size(), 1u);
  EXPECT_EQ(bare.output.calls[0].name, "ls");
  EXPECT_EQ(bare.output.calls[0].arguments, "{path: /}");
  EXPECT_FALSE(bare.output.calls[0].complete);
  // Cut off inside the arguments by the model itself.
  const RunResult cut = run(R"(^/T^A[{"tool_name": "a", "parameters": {"x": 1)"
                            "^/A^E");
  ASSERT_EQ(cut.output.calls.size(), 1u);
  EXPECT_EQ(cut.output.calls[0].arguments, R"({"x": 1)");
  EXPECT_EQ(cut.complete_calls, 0);
  // No call at all.
  const RunResult none = run("^/T^A[I cannot do that {\"tool\": 1}] ^/A^E");
  EXPECT_TRUE(none.output.calls.empty());
  EXPECT_EQ(none.output.content, "[I cannot do that {\"tool\": 1}]");
  EXPECT_EQ(run("^/T^XHm^/X^Anonsense^/A^E").output.content, "Hm\nnonsense");
  EXPECT_EQ(run("^/T^A [ ] ^/A^E").output.content, "");
}

TEST(OutputParserDeviation, D13_TruncatedInThinking) {
  const RunResult r = run("still thinking ", {}, End::kLength);
  EXPECT_EQ(r.output.reasoning, "still thinking");
  EXPECT_EQ(r.output.content, "");
}

TEST(OutputParserDeviation, D14_TruncatedInAction) {
  const std::string script = R"(^/T^A[{"tool_call_id": "0", "tool_name": "a", "parameters": {"x": 1}}, )"
                             R"({"tool_call_id": "1", "tool_name": "bcd", "parameters": {"y": "zz"}}])";
  for (size_t bytes = 5; bytes <= script.size(); ++bytes) {
    const std::string part = script.substr(0, bytes);
    const RunResult r = run(part, {}, End::kLength);
    EXPECT_EQ(r.output.content, "") << part;
    const bool named = part.find("\"bcd\"") != std::string::npos;
    if (named) {
      ASSERT_EQ(r.output.calls.size(), 2u) << part;
      const std::string arguments = R"({"y": "zz"})";
      EXPECT_EQ(arguments.substr(0, r.output.calls[1].arguments.size()), r.output.calls[1].arguments);
    } else {
      ASSERT_LE(r.output.calls.size(), 1u) << part;
    }
    EXPECT_EQ(r.output.calls.empty(), part.find("\"a\"") == std::string::npos) << part;
  }
}

TEST(OutputParserDeviation, D15_MarkerWordsAsText) {
  const RunResult r =
      run("say <|END_THINKING|> <|START_TEXT|>^/T^X`<|START_ACTION|>[{\"tool_name\": \"x\"}]"
          "<|END_TEXT|><|END_OF_TURN_TOKEN|>`^/X^E");
  EXPECT_EQ(r.output.reasoning, "say <|END_THINKING|> <|START_TEXT|>");
  EXPECT_EQ(r.output.content, "`<|START_ACTION|>[{\"tool_name\": \"x\"}]<|END_TEXT|><|END_OF_TURN_TOKEN|>`");
  EXPECT_TRUE(r.output.calls.empty());
}

TEST(OutputParserDeviation, D16_RunOn) {
  const RunResult r = run("plan^/T^XHi^/X^Tagain^/T^XHo^/X^E^S^Cmore^T^/T^Xmore^/X");
  EXPECT_EQ(r.output.reasoning, "plan");
  EXPECT_EQ(r.output.content, "Hi");
  EXPECT_EQ(run("plan^/T^XHi^/X stray^E").output.content, "Hi");
  EXPECT_EQ(run("plan^/T^XHi^E^XHo^/X").output.content, "Hi");
  EXPECT_EQ(run("plan^/T^XHi^S^Cbla").output.content, "Hi");
  EXPECT_EQ(run("^S^C^Tplan^/T^X^/X^XHi^/X^E").output.content, "Hi");  // an empty block is not the body
  const RunResult action = run(std::string("plan^/T^XHi^/X^Tthen list^/T^A") + kCall + "^/A^E");
  EXPECT_EQ(action.output.reasoning, "plan");
  expect_ls(action);
}

TEST(OutputParserDeviation, D17_ForeignMarkup) {
  const RunResult r = run("<|channel|>analysis hm^/T^X<|channel|>final Hi^/X^E");
  EXPECT_EQ(r.output.reasoning, "<|channel|>analysis hm");
  EXPECT_EQ(r.output.content, "<|channel|>final Hi");
}

TEST(OutputParser, TextThatBeginsWithABracketIsText) {
  const RunResult r = run("plan^/T^X[{\"tool_name\": \"ls\", \"parameters\": {}}]^/X^E");
  EXPECT_EQ(r.output.content, "[{\"tool_name\": \"ls\", \"parameters\": {}}]");
  EXPECT_TRUE(r.output.calls.empty());
}

TEST(OutputParser, ToolChoiceNoneGivesTextWithoutMarkup) {
  OutputParserOptions none;
  none.tools_allowed = false;
  const RunResult r = run("plan^/T^XHi^/X^A[{\"tool_name\": \"ls\"}]^/A^/X^E", none);
  EXPECT_EQ(r.output.content, "Hi\n[{\"tool_name\": \"ls\"}]");
  EXPECT_TRUE(r.output.calls.empty());
  EXPECT_EQ(run("plan^/T^A[{\"tool_na", none, End::kLength).output.content, "[{\"tool_na");
}

TEST(OutputParser, CitationsAreRemoved) {
  const RunResult r = run("see <co>a</co: 0:[1]> b^/T^X<co>Sunny</co: 0:[1,2],1:[0]> and <co>warm</co: 1:[0]>.^/X^E");
  EXPECT_EQ(r.output.reasoning, "see a b");
  EXPECT_EQ(r.output.content, "Sunny and warm.");
  EXPECT_EQ(run("^/T^Xa < b <c <co </co: x> <<co>> </co>^/X^E").output.content, "a < b <c <co </co: x> <> </co>");
  EXPECT_EQ(run("^/T^Xa<co^/X^E").output.content, "a<co");
  EXPECT_EQ(run("^/T^Xa</co: 0:[1^E", {}, End::kLength).output.content, "a</co: 0:[1");
  OutputParserOptions keep;
  keep.strip_citations = false;
  EXPECT_EQ(run("^/T^X<co>a</co: 0:[1]>^/X^E", keep).output.content, "<co>a</co: 0:[1]>");
  const std::string too_long = "</co: " + std::string(2000, '1') + ">";
  EXPECT_EQ(run("^/T^X" + too_long + "^/X^E").output.content, too_long);
}

TEST(OutputParser, StopStringsEndContentOnly) {
  const RunResult r = run("END in reasoning^/T^XHello END world^/X^E", with_stop({"END"}));
  EXPECT_EQ(r.output.reasoning, "END in reasoning");
  EXPECT_EQ(r.output.content, "Hello");
  EXPECT_TRUE(r.stopped);
  EXPECT_EQ(r.matched_stop, "END");
  const RunResult call = run(std::string("^/T^A") + kCall + "^/A^E", with_stop({"ls", "/"}));
  EXPECT_FALSE(call.stopped);
  expect_ls(call);
}

TEST(OutputParser, StopStringSeesVisibleText) {
  EXPECT_EQ(run("^/T^XHe<co>llo</co: 0:[1]> END^/X^E", with_stop({"Hello E"})).output.content, "");
  EXPECT_EQ(run("^/T\n\nHi\n\nHo^E", with_stop({"\n\n"})).output.content, "Hi");
  EXPECT_FALSE(run("^/T^XEN^/X^AD^/A^E", with_stop({"END"})).stopped);
  const RunResult held = run("^/T^XHello EN^/X^E", with_stop({"END"}));
  EXPECT_EQ(held.output.content, "Hello EN");
  EXPECT_FALSE(held.stopped);
}

TEST(OutputParser, StopStringInTheOutput) {
  OutputParserOptions options = with_stop({"\n\n"});
  options.include_stop_in_output = true;
  EXPECT_EQ(run("^/T^XHi \n\nHo^/X^E", options).output.content, "Hi \n\n");
}

TEST(OutputParser, StopStringWhenReasoningIsOff) {
  OutputParserOptions options = reasoning_off();
  options.stop = {"END"};
  const RunResult r = run("Hello END more^E", options);
  EXPECT_EQ(r.output.content, "Hello");
  EXPECT_TRUE(r.stopped);
}

TEST(OutputParser, HeldStopPrefixCountsAsText) {
  // The whole of the first text is held back when the next opener comes.
  EXPECT_EQ(run("^/TE^XX^/X^E", with_stop({"END"})).output.content, "EX");
  EXPECT_EQ(run("^/T^XE^/X^Xrun-on^/X^E", with_stop({"END"})).output.content, "E");
  EXPECT_EQ(run("^/T^XE^Trun-on^E", with_stop({"END"})).output.reasoning, "");
}

TEST(OutputParser, CharactersAreWhole) {
  const RunResult r = run("\xF0\x9F\x98\x80 \xE4\xBD\xA0^/T^X\xC3\xA9\xEF\xBF\xBD\xFF^/X^E");
  EXPECT_EQ(r.output.reasoning, "\xF0\x9F\x98\x80 \xE4\xBD\xA0");
  EXPECT_EQ(r.output.content, "\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(run("^/T^Xa\xF0\x9F\x98", {}, End::kLength).output.content, "a\xEF\xBF\xBD");
  EXPECT_EQ(run("a\xF0\x9F^/T^X\x98\x80^/X^E").output.reasoning, "a\xEF\xBF\xBD");
}

TEST(OutputParser, SettledTokensWaitForTheirText) {
  OutputParser parser(testing::test_markers(), with_stop({"stop"}));
  std::vector<OutputEvent> events;
  const auto push = [&](TokenId id, std::string_view bytes) {
    parser.push(id, bytes, events);
    return parser.tokens_settled();
  };
  EXPECT_EQ(push(2, ""), 1);
  EXPECT_EQ(push(3, ""), 2);
  EXPECT_EQ(push(100, "a "), 2);  // the blank
  EXPECT_EQ(push(100, "s"), 2);
  EXPECT_EQ(push(100, "to"), 2);  // may be the stop string
  EXPECT_EQ(push(100, "s"), 5);   // "sto" is out, the second s is held
  EXPECT_EQ(push(100, "\xC3"), 5);
  EXPECT_EQ(push(100, "\xA9<c"), 7);
  EXPECT_EQ(push(100, "o>"), 9);  // dropped
  EXPECT_EQ(push(100, " "), 9);
  EXPECT_EQ(push(100, "\n"), 9);
  EXPECT_EQ(push(100, "x"), 12);
  EXPECT_EQ(push(5, ""), 13);
  EXPECT_EQ(push(100, "[{\"tool_name\":"), 13);
  EXPECT_EQ(push(100, " \"ls\","), 13);
  EXPECT_EQ(push(100, " \"parameters\": {"), 16);
  EXPECT_EQ(push(100, "}}, "), 17);
  EXPECT_EQ(push(100, "{\"tool_name\""), 17);
  parser.finish(End::kLength, events);
  EXPECT_EQ(parser.tokens_settled(), 18);
}

TEST(RawOutput, StopStringsAndCharacters) {
  RawOutput raw({true, {"END"}, false});
  bool matched = false;
  EXPECT_EQ(raw.push("\xE4\xBD", false, matched), "");
  EXPECT_EQ(raw.push("\xA0 E", false, matched), "\xE4\xBD\xA0 ");
  EXPECT_EQ(raw.tokens_settled(), 1);
  EXPECT_EQ(raw.push("<|X|>", true, matched), "");
  EXPECT_EQ(raw.push("ND tail", false, matched), "");
  EXPECT_TRUE(matched);
  EXPECT_EQ(raw.matched_stop(), "END");
  EXPECT_EQ(raw.finish(), "");
  EXPECT_EQ(raw.tokens_settled(), 4);

  RawOutput open({false, {"END"}, true});
  EXPECT_EQ(open.push("<|X|>", true, matched), "<|X|>");
  EXPECT_EQ(open.push("EN\xE4", false, matched), "");
  EXPECT_FALSE(matched);
  EXPECT_EQ(open.finish(), "EN\xEF\xBF\xBD");

  RawOutput kept({false, {"END"}, true});
  EXPECT_EQ(kept.push("a END b", false, matched), "a END");
}

}  // namespace
}  // namespace boreas
