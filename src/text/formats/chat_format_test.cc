#include "text/formats/chat_format.h"

#include <gtest/gtest.h>

#include <iostream>

#include "base/prng.h"

namespace boreas {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

value json(const char* text) {
  auto parsed = parse_json_exact(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : value();
}

object prepare(const char* messages, const char* tools = "[]", const char* extra = "{}",
               const ChatRenderOptions& options = {}) {
  auto prepared = prepare_chat(json(messages).as_array(), json(tools).as_array(), json(extra).as_object(), options);
  EXPECT_TRUE(prepared.ok()) << prepared.error().message;
  return prepared.ok() ? *prepared : object{};
}

// The prepared messages, as JSON.
std::string messages(const char* source, const ChatRenderOptions& options = {}) {
  return boost::json::serialize(prepare(source, "[]", "{}", options)["messages"]);
}

Error error_of(const char* source) {
  auto prepared = prepare_chat(json(source).as_array(), {}, {}, {});
  EXPECT_FALSE(prepared.ok());
  return prepared.ok() ? Error{} : prepared.error();
}

TEST(PrepareChat, RolesAndContent) {
  EXPECT_EQ(
      messages(
          R"([{"role":"developer","content":null},{"role":"USER"},{"role":"assistant","content":null,"tool_calls":[]}])"),
      R"([{"role":"system","content":""},{"role":"user","content":""},{"role":"assistant","content":""}])");
  EXPECT_EQ(
      messages(
          R"([{"role":"user","content":[{"type":"text","text":"a","cache_control":1},{"type":"input_text","text":"b"}]},)"
          R"({"role":"assistant","content":[{"type":"refusal","refusal":"no"},{"type":"output_text","text":"c"}]}])"),
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":[{"type":"text","text":"no"},{"type":"text","text":"c"}]}])");
  ChatRenderOptions flat;
  flat.keep_parts = false;
  EXPECT_EQ(messages(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])", flat),
            R"([{"role":"user","content":"a\nb"}])");
  EXPECT_EQ(messages(R"([{"role":"tool","tool_call_id":"x","content":{"a":[1,2.5]}}])"),
            R"([{"role":"tool","tool_call_id":"x","content":"{\"a\": [1, 2.5]}"}])");
}

TEST(PrepareChat, OtherPartsAreErrorsThatNameThem) {
  const Error image = error_of(
      R"([{"role":"user","content":"x"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}])");
  EXPECT_EQ(image.param, "messages.1.content.1");
  EXPECT_EQ(image.message, "messages.1.content.1: parts of type 'image_url' are not supported, only text");
  EXPECT_EQ(error_of(R"([{"role":"user","content":[{"type":"text","text":7}]}])").param, "messages.0.content.0");
  EXPECT_EQ(error_of(R"([{"role":"user","content":[7]}])").param, "messages.0.content.0");
  EXPECT_EQ(error_of(R"([{"role":"user","content":7}])").param, "messages.0.content");
  EXPECT_EQ(error_of(R"([7])").param, "messages.0");
  EXPECT_EQ(error_of(R"([{"role":"assistant","tool_calls":[{"id":"a"}]}])").param, "messages.0.tool_calls.0.function");
}

TEST(PrepareChat, ReasoningHasThreeNames) {
  const char* expected =
      R"([{"role":"assistant","content":"x","reasoning":"r","reasoning_content":"r","thinking":"r"}])";
  EXPECT_EQ(messages(R"([{"role":"assistant","content":"x","reasoning":"r"}])"), expected);
  EXPECT_EQ(messages(R"([{"role":"assistant","content":"x","reasoning":"","reasoning_content":"r","thinking":"s"}])"),
            expected);
  EXPECT_EQ(messages(R"([{"role":"assistant","content":"x","thinking":"r"}])"), expected);
  EXPECT_EQ(
      messages(R"([{"role":"assistant","content":[{"type":"thinking","thinking":"r"},{"type":"text","text":"x"}]}])"),
      R"([{"role":"assistant","content":[{"type":"text","text":"x"}],"reasoning":"r","reasoning_content":"r","thinking":"r"}])");
  EXPECT_EQ(messages(R"([{"role":"assistant","content":"x","reasoning":null,"thinking":{"type":"y"}}])"),
            R"([{"role":"assistant","content":"x"}])");
}

// The arguments of one call after preparation.
std::string arguments(const char* sent) {
  object call = {{"id", "a"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", sent}}}};
  auto prepared =
      prepare_chat({object{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}}}, {}, {}, {});
  return boost::json::serialize(prepared->at("messages").at(0).at("tool_calls").at(0).at("function").at("arguments"));
}

TEST(PrepareChat, ArgumentsBecomeObjects) {
  EXPECT_EQ(arguments(R"({"z": 1, "a": {"y": 18446744073709551615, "x": -9223372036854775808}})"),
            R"({"z":1,"a":{"y":18446744073709551615,"x":-9223372036854775808}})");
  EXPECT_EQ(arguments(""), "{}");
  EXPECT_EQ(arguments("  \n"), "{}");
  EXPECT_EQ(arguments(R"({"cut": [1, )"), R"({"_raw":"{\"cut\": [1, "})");
  EXPECT_EQ(arguments("[1]"), R"({"_raw":"[1]"})");
  EXPECT_EQ(arguments(R"({"a": 1} trailing)"), R"({"_raw":"{\"a\": 1} trailing"})");
  const std::string deep(100000, '[');
  EXPECT_EQ(arguments(deep.c_str()), R"({"_raw":")" + deep + "\"}");
  const object given = prepare(R"([{"role":"assistant","function_call":{"name":"f","arguments":"{\"a\":1}"}}])");
  EXPECT_EQ(boost::json::serialize(given.at("messages").at(0).at("tool_calls")),
            R"([{"id":"call_1","type":"function","function":{"name":"f","arguments":{"a":1}}}])");
}

// The ids of calls and results, in order: "call:id" and "result:id".
std::string ids(const char* source) {
  std::string out;
  const object prepared = prepare(source);
  for (const value& message : prepared.at("messages").as_array()) {
    if (const value* calls = message.as_object().if_contains("tool_calls")) {
      for (const value& call : calls->as_array()) out += "call:" + std::string(call.at("id").as_string()) + " ";
    }
    if (message.at("role") == "tool") out += "result:" + std::string(message.at("tool_call_id").as_string()) + " ";
  }
  return out;
}

#define CALL(id, name) R"({"id":)" id R"(,"type":"function","function":{"name":")" name R"(","arguments":"{}"}})"
#define CALLS(list) R"({"role":"assistant","tool_calls":[)" list "]}"
#define RESULT(id) R"({"role":"tool","content":"r","tool_call_id":)" id "}"

TEST(PrepareChat, CallIdsAreUniqueAndResultsFollow) {
  EXPECT_EQ(ids("[" CALLS(CALL("\"a\"", "f") "," CALL("\"b\"", "g")) "," RESULT("\"b\"") "," RESULT("\"a\"") "]"),
            "call:a call:b result:b result:a ");
  EXPECT_EQ(ids("[" CALLS(CALL("\"0\"", "f")) "," RESULT("\"0\"") "," CALLS(CALL("\"0\"", "f")) "," RESULT(
                "\"0\"") "," CALLS(CALL("\"0\"", "f")) "," RESULT("\"0\"") "]"),
            "call:0 result:0 call:0_1 result:0_1 call:0_2 result:0_2 ");
  EXPECT_EQ(ids("[" CALLS(CALL("\"0\"", "f") "," CALL("\"0\"", "g")) "," RESULT("\"0\"") "," RESULT("\"0\"") "," RESULT(
                "\"0\"") "]"),
            "call:0 call:0_1 result:0 result:0_1 result:0_1 ");
  EXPECT_EQ(
      ids("[" CALLS(CALL("\"0\"", "f")) "," CALLS(CALL("\"0\"", "f")) "," RESULT("\"0\"") "," RESULT("\"0\"") "]"),
      "call:0 call:0_1 result:0_1 result:0 ");
  EXPECT_EQ(ids("[" CALLS(CALL("\"a\"", "f")) "," CALLS(CALL("\"a_1\"", "f")) "," CALLS(CALL("\"a\"", "f")) "," RESULT(
                "\"a\"") "]"),
            "call:a call:a_1 call:a_2 result:a_2 ");
  EXPECT_EQ(ids("[" CALLS(CALL("null", "f") "," CALL("7", "g")) "," RESULT("7") "," RESULT("\"unknown\"") "]"),
            "call:call_1 call:7 result:7 result:unknown ");
  EXPECT_EQ(ids("[" CALLS(CALL("\"a\"", "f") "," CALL(
                "\"b\"", "g")) R"(,{"role":"function","name":"g","content":"r"},{"role":"tool","content":"r"}])"),
            "call:a call:b result:b result:a ");
  EXPECT_EQ(ids(R"([{"role":"tool","content":"r"}])"), "result: ");
}

TEST(PrepareChat, ToolsAreCompleted) {
  const object prepared = prepare(
      "[]",
      R"([{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g","description":null,"parameters":null}},{"name":"h","description":"d","parameters":{}}])");
  EXPECT_EQ(
      boost::json::serialize(prepared.at("tools")),
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}},"description":""}},)"
      R"({"type":"function","function":{"name":"g","description":"","parameters":{"type":"object","properties":{}}}},)"
      R"({"type":"function","function":{"name":"h","description":"d","parameters":{}}}])");
  EXPECT_FALSE(prepare("[]").contains("tools"));
}

std::string extra(const char* sent) {
  object prepared = prepare("[]", "[]", sent);
  prepared.stable_erase("messages");
  return boost::json::serialize(prepared);
}

TEST(PrepareChat, ExtraArguments) {
  EXPECT_EQ(
      extra(
          R"({"messages":1,"tools":2,"add_generation_prompt":false,"tokenize":true,"bos_token":"<X>","continue_final_message":1,"documents":[1],"x":null})"),
      R"({"documents":[1],"add_generation_prompt":true})");
  EXPECT_EQ(extra(R"({"enable_thinking":false})"),
            R"({"enable_thinking":false,"reasoning":false,"add_generation_prompt":true})");
  EXPECT_EQ(extra(R"({"enable_thinking":true})"),
            R"({"enable_thinking":true,"reasoning":true,"add_generation_prompt":true})");
  EXPECT_EQ(extra(R"({"thinking":{"type":"disabled"}})"),
            R"({"reasoning":false,"enable_thinking":false,"add_generation_prompt":true})");
  EXPECT_EQ(extra(R"({"thinking":{"type":"enabled","budget_tokens":9}})"),
            R"({"reasoning":true,"add_generation_prompt":true})");
  EXPECT_EQ(extra(R"({"reasoning":true,"enable_thinking":false})"),
            R"({"enable_thinking":true,"reasoning":true,"add_generation_prompt":true})");
  EXPECT_EQ(extra(R"({"reasoning_effort":"None"})"),
            R"({"reasoning_effort":"None","enable_thinking":false,"add_generation_prompt":true})");
  EXPECT_EQ(extra(R"({"reasoning_effort":"low","reasoning":{"effort":"none"}})"),
            R"({"reasoning_effort":"low","add_generation_prompt":true})");
}

TEST(Markers, AreBrokenEverywhere) {
  ChatRenderOptions options;
  options.markers = {"<|END_TEXT|>", "<BOS_TOKEN>", "<|END", "  ", "\n", "é>é"};
  const object prepared = prepare(
      R"([{"role":"user","content":[{"type":"text","text":"a<BOS_"},{"type":"text","text":""},{"type":"text","text":"TOKEN><"},{"type":"text","text":"BOS_TOKEN>"}]},)"
      R"({"role":"tool","tool_call_id":"<BOS_TOKEN>","content":"x<|END_TEXT|>y"},)"
      R"({"role":"assistant","content":"é>é","tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"{\"<BOS_TOKEN>\":[\"<|ENDING\"]}"}}]}])",
      R"([{"type":"function","function":{"name":"f","description":"<BOS_TOKEN>","parameters":{"type":"<BOS_TOKEN>","properties":{"<BOS_TOKEN>":1}}}}])",
      R"({"documents":[{"data":"<BOS_TOKEN>"}]})", options);
  EXPECT_EQ(
      boost::json::serialize(prepared.at("messages")),
      R"([{"role":"user","content":[{"type":"text","text":"a<\\BOS_"},{"type":"text","text":""},{"type":"text","text":"TOKEN><\\"},{"type":"text","text":"BOS_TOKEN>"}]},)"
      R"({"role":"tool","tool_call_id":"<\\BOS_TOKEN>","content":"x<\\|END_TEXT|>y"},)"
      R"({"role":"assistant","content":"é\\>é","tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":{"<\\BOS_TOKEN>":["<\\|ENDING"]}}}]}])");
  EXPECT_EQ(boost::json::serialize(prepared).find("<BOS_TOKEN>"), std::string::npos);
  options.escape_markers = false;
  EXPECT_EQ(messages(R"([{"role":"user","content":"<BOS_TOKEN>"}])", options),
            R"([{"role":"user","content":"<BOS_TOKEN>"}])");
}

// Whatever the text, the markers and the cut into parts: no marker is left in the parts put together, and without the
// backslashes nothing changed.
TEST(Markers, RandomTextHoldsNoneAfterwards) {
  constexpr uint64_t kSeed = 99;
  Prng prng(kSeed);
  const std::string alphabet = "<|a>b\\é";
  for (int run = 0; run < 5000; ++run) {
    const auto random = [&](uint32_t longest) {
      std::string out;
      for (uint32_t count = prng.below(longest); count > 0; --count) {
        const uint32_t at = prng.below(7);
        out += at == 6 ? "é" : std::string(1, alphabet[at]);
      }
      return out;
    };
    ChatRenderOptions options;
    for (int i = 0; i < 4; ++i) options.markers.push_back(random(6));
    array parts;
    std::string before, after;
    for (uint32_t count = 1 + prng.below(4); count > 0; --count) {
      const std::string text = random(12);
      before += text;
      parts.push_back(object{{"type", "text"}, {"text", text}});
    }
    auto prepared = prepare_chat({object{{"role", "user"}, {"content", parts}}}, {}, {}, options);
    ASSERT_TRUE(prepared.ok());
    for (const value& part : prepared->at("messages").at(0).at("content").as_array())
      after += part.at("text").as_string();
    for (const std::string& marker : options.markers) {
      // A marker that holds backslashes can be made of inserted ones again and again; those of real tokenizers hold
      // none.
      if (marker.size() < 3 || marker.find('\\') != std::string::npos) continue;
      EXPECT_EQ(after.find(marker), std::string::npos)
          << "seed " << kSeed << " run " << run << ": " << before << " -> " << after << " marker " << marker;
    }
    const auto plain = [](std::string text) {
      text.erase(std::remove(text.begin(), text.end(), '\\'), text.end());
      return text;
    };
    EXPECT_EQ(plain(after), plain(before)) << "seed " << kSeed << " run " << run;
  }
}

TEST(ParseJsonExact, NumbersAndErrors) {
  EXPECT_EQ(json("18446744073709551615").as_uint64(), 18446744073709551615u);
  EXPECT_EQ(json("-9223372036854775808").as_int64(), INT64_MIN);
  EXPECT_EQ(json("1.7976931348623157e308").as_double(), 1.7976931348623157e308);
  EXPECT_EQ(json("7.2057594037927933e16").as_double(), 7.2057594037927933e16);
  EXPECT_EQ(json("  {\"a\": [1.5, \"\\u00e9\"]}  ").at("a").at(1).as_string(), "é");
  constexpr uint64_t kSeed = 5;
  Prng prng(kSeed);
  for (int i = 0; i < 20000; ++i) {
    char text[64];
    std::snprintf(text, sizeof text, "%s%u.%ue%d", prng.below(2) == 0 ? "-" : "", prng.next_u32(), prng.next_u32(),
                  static_cast<int>(prng.below(600)) - 300);
    EXPECT_EQ(json(text).as_double(), std::strtod(text, nullptr)) << "seed " << kSeed << ": " << text;
  }
  for (const char* wrong : {"", "{", "[1,]", "nan", "1 2", "'a'", "{\"a\":}", "\"\\ud800\"", "01"})
    EXPECT_FALSE(parse_json_exact(wrong).ok()) << wrong;
  EXPECT_FALSE(parse_json_exact(std::string(200, '[') + std::string(200, ']')).ok());
}

}  // namespace
}  // namespace boreas
