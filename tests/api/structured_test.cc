// Structured output over HTTP: JSON by schema, forced calls, choices and expressions, against a model that writes what
// it should, what it should not, or anything at all.
#include <gtest/gtest.h>

#include <set>

#include "test_client.h"
#include "test_server.h"
#include "text/grammar/schema_validator_testing.h"

namespace boreas {
namespace {

namespace json = boost::json;
using grammar::SchemaValidator;

constexpr char kRecord[] = R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},
    "age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"enum":["a","b\n","é"]},"maxItems":3},
    "code":{"type":"string","pattern":"^[A-Z]{2}-[0-9]{3}$"},
    "child":{"anyOf":[{"type":"null"},{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}]}},
    "required":["name","age","tags","code","child"],"additionalProperties":false})";

json::value parsed(std::string_view text) {
  const Result<json::value> value = parse_json_exact(text);
  return value.ok() ? *value : json::value("(not JSON) " + std::string(text));
}

json::object schema_format(const json::value& schema) {
  return {{"type", "json_schema"}, {"json_schema", {{"name", "record"}, {"strict", true}, {"schema", schema}}}};
}

json::array tools() {
  return parsed(R"([
    {"type":"function","function":{"name":"read_file","parameters":{"type":"object","properties":
      {"path":{"type":"string","maxLength":8},"lines":{"type":"integer","minimum":1,"maximum":99}},"required":["path"]}}},
    {"type":"function","function":{"name":"now","parameters":null}}])")
      .as_array();
}

// A model that writes anything, of what is allowed. Without reasoning, so that the end is near.
TestServerOptions any_text() {
  TestServerOptions options;
  options.scripted = false;
  options.fake.full_logits = false;
  return options;
}

std::string content_of(const TestAnswer& answer) { return text_at(answer.json(), "choices.0.message.content"); }

TEST(Structured, AnswersThatFitPassUnchanged) {
  TestServer server;
  server.write("I <b>.<|END_THINKING|><|START_TEXT|>{\"a\": [1, {}]}<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  json::object extra{{"response_format", {{"type", "json_object"}}}};
  const TestAnswer plain = chat(server.port(), extra);
  ASSERT_EQ(plain.status, 200) << plain.body;
  EXPECT_EQ(content_of(plain), "{\"a\": [1, {}]}");
  EXPECT_EQ(text_at(plain.json(), "choices.0.message.reasoning"), "I <b>.");
  EXPECT_EQ(text_at(plain.json(), "choices.0.finish_reason"), "stop");
  extra["stream"] = true;
  const FoldedChat streamed = fold(chat(server.port(), extra).chunks());
  EXPECT_EQ(streamed.content, "{\"a\": [1, {}]}");
  EXPECT_EQ(streamed.finish_reason, "stop");
}

TEST(Structured, ProseBecomesJson) {
  TestServer server;
  server.write("think<|END_THINKING|><|START_TEXT|>Sure! Here is your JSON:<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  const json::value schema = parsed(kRecord);
  for (const int64_t seed : {1, 2, 3, 4}) {
    json::object extra{{"response_format", schema_format(schema)}, {"seed", seed}};
    const TestAnswer plain = chat(server.port(), extra);
    ASSERT_EQ(plain.status, 200) << plain.body;
    EXPECT_TRUE(SchemaValidator(schema).valid(parsed(content_of(plain)))) << plain.body;
    EXPECT_EQ(text_at(plain.json(), "choices.0.finish_reason"), "stop");
    extra["stream"] = true;
    EXPECT_EQ(fold(chat(server.port(), extra).chunks()).content, content_of(plain));
  }
}

TEST(Structured, AnyModelWritesWhatTheSchemaSays) {
  TestServer server(any_text());
  for (
      const char* text :
      {kRecord, R"({"type":"integer","exclusiveMinimum":-5,"maximum":12})", R"({"enum":["x",1,null,{"k":[true]}]})",
       R"({"type":"array","items":{"type":"string","maxLength":2},"minItems":2,"maxItems":4})",
       R"({"type":"object","properties":{"v":{"type":"boolean"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"]})",
       R"({"type":"string","format":"date"})", R"({"type":["number","null"]})"}) {
    const json::value schema = parsed(text);
    for (int64_t seed = 1; seed <= 5; ++seed) {
      const TestAnswer answer = chat(
          server.port(), {{"response_format", schema_format(schema)}, {"reasoning_effort", "none"}, {"seed", seed}});
      ASSERT_EQ(answer.status, 200) << answer.body;
      EXPECT_TRUE(SchemaValidator(schema).valid(parsed(content_of(answer)))) << text << "\n" << answer.body;
      EXPECT_EQ(text_at(answer.json(), "choices.0.finish_reason"), "stop");
    }
  }
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Structured, ManyAtOnceAndSeveralChoices) {
  TestServerOptions options = any_text();
  options.fake.pages_full = 24;
  options.fake.steps_in_flight_max = 2;
  TestServer server(options);
  const json::value schema = parsed(kRecord);
  const TestAnswer answer = chat(
      server.port(), {{"response_format", schema_format(schema)}, {"reasoning_effort", "none"}, {"n", 8}, {"seed", 7}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  std::set<std::string> texts;
  for (const json::value& choice : array_at(answer.json(), "choices")) {
    const std::string text = text_at(choice, "message.content");
    EXPECT_TRUE(SchemaValidator(schema).valid(parsed(text))) << text;
    texts.insert(text);
  }
  EXPECT_GT(texts.size(), 4U);
}

TEST(Structured, TheTokenLimitCutsJson) {
  TestServer server;
  server.write("t<|END_THINKING|><|START_TEXT|>{\"a\": \"long long text\"}<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  const auto budget = static_cast<int64_t>(server.ids("t<|END_THINKING|><|START_TEXT|>{\"a\": \"lo").size());
  const TestAnswer answer =
      chat(server.port(), {{"response_format", {{"type", "json_object"}}}, {"max_tokens", budget}});
  EXPECT_EQ(text_at(answer.json(), "choices.0.finish_reason"), "length");
  EXPECT_EQ(content_of(answer).substr(0, 7), "{\"a\": \"");
  EXPECT_EQ(content_of(answer).find('}'), std::string::npos);
}

TEST(Structured, RequiredCalls) {
  TestServer server(any_text());
  for (int64_t seed = 1; seed <= 8; ++seed) {
    json::object extra{{"tools", tools()}, {"tool_choice", "required"}, {"reasoning_effort", "none"}, {"seed", seed}};
    extra["parallel_tool_calls"] = seed % 2 == 0;
    extra["max_tokens"] = 3000;
    const TestAnswer plain = chat(server.port(), extra);
    ASSERT_EQ(plain.status, 200) << plain.body;
    const json::array calls = array_at(plain.json(), "choices.0.message.tool_calls");
    if (text_at(plain.json(), "choices.0.finish_reason") == "length") continue;  // calls without end
    ASSERT_GE(calls.size(), 1U) << plain.body;
    if (seed % 2) {
      EXPECT_EQ(calls.size(), 1U);
    }
    EXPECT_EQ(text_at(plain.json(), "choices.0.finish_reason"), "tool_calls");
    for (const json::value& call : calls) {
      const std::string name = text_at(call, "function.name");
      const json::value arguments = parsed(text_at(call, "function.arguments"));
      if (name == "now") {
        EXPECT_EQ(arguments, json::value(json::object()));
      } else {
        ASSERT_EQ(name, "read_file");
        EXPECT_TRUE(SchemaValidator(tools()[0].at("function").at("parameters")).valid(arguments)) << arguments;
      }
    }
    extra["stream"] = true;
    const FoldedChat streamed = fold(chat(server.port(), extra).chunks());
    ASSERT_EQ(streamed.calls.size(), calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(streamed.calls[i].name, text_at(calls[i], "function.name"));
      EXPECT_EQ(streamed.calls[i].arguments, text_at(calls[i], "function.arguments"));
    }
  }
}

TEST(Structured, ANamedToolIsCalledOnce) {
  TestServer server(any_text());
  const json::object choice{{"type", "function"}, {"function", {{"name", "read_file"}}}};
  for (int64_t seed = 1; seed <= 4; ++seed) {
    const TestAnswer answer = chat(server.port(), {{"tools", tools()},
                                                   {"tool_choice", choice},
                                                   {"reasoning_effort", "none"},
                                                   {"response_format", {{"type", "json_object"}}},
                                                   {"seed", seed}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    const json::array calls = array_at(answer.json(), "choices.0.message.tool_calls");
    ASSERT_EQ(calls.size(), 1U) << answer.body;
    EXPECT_EQ(text_at(calls[0], "function.name"), "read_file");
    EXPECT_EQ(text_at(answer.json(), "choices.0.finish_reason"), "stop");
    EXPECT_TRUE(at(answer.json(), "choices.0.message.content").is_null());
  }
}

TEST(Structured, AToolOutsideTheSubsetGetsAnyObject) {
  TestServer server;
  server.write(
      "t<|END_THINKING|><|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"odd\", \"parameters\": {\"x\": "
      "[1]}}]"
      "<|END_ACTION|><|END_OF_TURN_TOKEN|>");
  const json::array odd = parsed(R"([{"type":"function","function":{"name":"odd","parameters":
      {"type":"object","not":{"required":["y"]}}}}])")
                              .as_array();
  const TestAnswer answer = chat(server.port(), {{"tools", odd}, {"tool_choice", "required"}});
  EXPECT_EQ(text_at(answer.json(), "choices.0.message.tool_calls.0.function.arguments"), "{\"x\": [1]}") << answer.body;
}

TEST(Structured, StrictToolsBindTheCallsThatTheModelMakes) {
  TestServer server;
  json::array strict = tools();
  strict[0].at("function").as_object()["strict"] = true;
  const json::object extra{{"tools", strict}};
  server.write("t<|END_THINKING|><|START_TEXT|>No call.<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  EXPECT_EQ(content_of(chat(server.port(), extra)), "No call.");
  server.write(
      "t<|END_THINKING|><|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"read_file\", \"parameters\": "
      "{\"path\": 5}}]<|END_ACTION|><|END_OF_TURN_TOKEN|>");
  json::object limited = extra;
  limited["max_tokens"] = 400;
  const TestAnswer answer = chat(server.port(), limited);
  const json::value arguments = parsed(text_at(answer.json(), "choices.0.message.tool_calls.0.function.arguments"));
  ASSERT_TRUE(arguments.is_object()) << answer.body;
  EXPECT_TRUE(SchemaValidator(tools()[0].at("function").at("parameters")).valid(arguments)) << arguments;
}

TEST(Structured, JsonAndToolsTogetherLeaveTheChoiceToTheModel) {
  TestServer server;
  const json::object extra{{"tools", tools()}, {"response_format", {{"type", "json_object"}}}};
  server.write("t<|END_THINKING|><|START_TEXT|>{\"a\": 1}<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  EXPECT_EQ(content_of(chat(server.port(), extra)), "{\"a\": 1}");
  server.write(
      "t<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": {}}\n]"
      "<|END_ACTION|><|END_OF_TURN_TOKEN|>");
  const TestAnswer call = chat(server.port(), extra);
  EXPECT_EQ(text_at(call.json(), "choices.0.message.tool_calls.0.function.name"), "now") << call.body;
  EXPECT_EQ(text_at(call.json(), "choices.0.finish_reason"), "tool_calls");
}

TEST(Structured, ChoicesAndExpressions) {
  TestServer server(any_text());
  const json::object quiet{{"reasoning_effort", "none"}};
  const auto ask = [&](json::object extra, bool as_chat) {
    if (as_chat) extra["reasoning_effort"] = "none";
    extra["max_tokens"] = 200;
    const TestAnswer answer = as_chat ? chat(server.port(), extra) : completion(server.port(), extra);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(text_at(answer.json(), "choices.0.finish_reason"), "stop") << answer.body;
    return as_chat ? content_of(answer) : text_at(answer.json(), "choices.0.text");
  };
  for (const bool as_chat : {true, false}) {
    std::set<std::string> seen;
    for (int64_t seed = 1; seed <= 12; ++seed) {
      seen.insert(ask({{"guided_choice", {"left", "right"}}, {"seed", seed}}, as_chat));
      seen.insert(ask({{"structured_outputs", {{"choice", {"left", "right"}}}}, {"seed", seed}}, as_chat));
    }
    EXPECT_EQ(seen, (std::set<std::string>{"left", "right"}));
    const std::string code = ask({{"guided_regex", "[A-C]{3}-\\d"}}, as_chat);
    EXPECT_EQ(code.size(), 5U) << code;
    EXPECT_TRUE(parsed(ask({{"guided_json", R"({"type":"integer","minimum":10,"maximum":99})"}}, as_chat)).is_int64());
    EXPECT_EQ(ask({{"structured_outputs", {{"json", {{"const", "k"}}}}}}, as_chat), "\"k\"");
    EXPECT_EQ(ask({{"response_format", schema_format(json::object{{"const", json::array{1, "a"}}})}}, as_chat),
              "[1, \"a\"]");
  }
}

TEST(Structured, ContinuedAnswers) {
  TestServer server;
  const json::array messages = {json::object{{"role", "user"}, {"content", "Hi."}},
                                json::object{{"role", "assistant"}, {"content", "{\"age\": 4"}}};
  json::object extra{{"messages", messages},
                     {"continue_final_message", true},
                     {"add_generation_prompt", false},
                     {"response_format", schema_format(parsed(R"({"properties":{"age":{"type":"integer"}}})"))}};
  server.write("2}<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  EXPECT_EQ(content_of(chat(server.port(), extra)), "2}");
  extra["response_format"] = schema_format(parsed(R"({"type":"array"})"));
  const TestAnswer refused = chat(server.port(), extra);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.error("param"), "response_format.json_schema.schema");
}

TEST(Structured, OtherFieldsThatMeetIt) {
  TestServer server(any_text());
  const json::object quick{{"guided_choice", {"ab"}}, {"reasoning_effort", "none"}};
  json::object extra = quick;
  extra["min_tokens"] = 100;
  extra["max_tokens"] = 200;
  EXPECT_EQ(content_of(chat(server.port(), extra)), "ab");  // the end is all that is left
  extra = quick;
  extra["ignore_eos"] = true;
  extra["max_tokens"] = 20;
  const TestAnswer endless = chat(server.port(), extra);
  EXPECT_EQ(content_of(endless), "ab");
  EXPECT_EQ(text_at(endless.json(), "choices.0.finish_reason"), "length");
  extra = quick;
  extra["logprobs"] = true;
  extra["top_logprobs"] = 2;
  EXPECT_EQ(chat(server.port(), extra).status, 200);
  extra = quick;
  extra["logit_bias"] = json::object{{"5", -100}};
  EXPECT_EQ(content_of(chat(server.port(), extra)), "ab");
}

struct Bad {
  const char* member;
  const char* param;
  const char* message;
};

TEST(Structured, ErrorsNameTheFieldAndThePlace) {
  TestServer server;
  const Bad both[] = {
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema", "Missing"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})", "response_format.json_schema.schema",
       ""},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":5}})", "response_format.json_schema.schema",
       ""},
      {R"("response_format":{"type":"json_schema","json_schema":{"strict":"yes","schema":{}}})",
       "response_format.json_schema.strict", ""},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"not":{}}}}}})",
       "response_format.json_schema.schema", "'#/properties/a/not': 'not' is not supported; supported are type"},
      {R"("response_format":{"type":"json_object","schema":{"pattern":"("}})", "response_format.schema", "#/pattern"},
      {R"("response_format":{"type":"structural_tag"})", "response_format.type", "not supported"},
      {R"("structured_outputs":[])", "structured_outputs", ""},
      {R"("structured_outputs":{"json":{"type":"nothing"}})", "structured_outputs.json", "#/type"},
      {R"("structured_outputs":{"regex":"a","choice":["b"]})", "structured_outputs.choice", "only one"},
      {R"("structured_outputs":{"grammar":"root ::= 1"})", "structured_outputs.grammar", "not supported"},
      {R"x("guided_regex":"(?=a)")x", "guided_regex", "look-around"},
      {R"("guided_regex":5)", "guided_regex", ""},
      {R"("guided_choice":[])", "guided_choice", "choices"},
      {R"("guided_choice":[1])", "guided_choice", "strings"},
      {R"("guided_choice":"a")", "guided_choice", ""},
      {R"("guided_json":"{")", "guided_json", ""},
      {R"("guided_grammar":"root ::= 1")", "guided_grammar", "not supported"},
      {R"("guided_json":{},"response_format":{"type":"json_object"})", "guided_json", "only one"},
      {R"("guided_json":{},"allowed_token_ids":[5])", "allowed_token_ids", "guided_json"},
  };
  const Bad only_chat[] = {
      {R"("tool_choice":"required")", "tool_choice", "no 'tools'"},
      {R"("tool_choice":{"type":"function","function":{"name":"a"}})", "tool_choice", "no 'tools'"},
      {R"("tools":[{"function":{"name":"a"}}],"tool_choice":{"function":{"name":"b"}})", "tool_choice.function.name",
       "'b'"},
      {R"("tools":[{"function":{"name":"a"}}],"tool_choice":{"type":"function"})", "tool_choice.function", ""},
      {R"("tools":[{"function":{"name":"a"}}],"tool_choice":{"type":"custom"})", "tool_choice.type", ""},
      {R"("tools":[{"function":{"name":"a"}}],"tool_choice":"required","guided_regex":"a")", "guided_regex",
       "tool_choice"},
      {R"("tools":[{"function":{"name":"a"}}],"tool_choice":"required","allowed_token_ids":[5])", "allowed_token_ids",
       ""},
  };
  const auto expect = [&](const std::string& path, const std::string& prefix, const Bad& bad) {
    const std::string body = "{" + prefix + bad.member + "}";
    const TestAnswer answer = post(server.port(), path, body);
    EXPECT_EQ(answer.status, 400) << body << "\n" << answer.body;
    EXPECT_EQ(answer.error("param"), bad.param) << body << "\n" << answer.body;
    EXPECT_NE(answer.error("message").find(bad.message), std::string::npos) << body << "\n" << answer.body;
  };
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}],)";
  for (const Bad& bad : both) {
    expect("/v1/chat/completions", messages, bad);
    expect("/v1/completions", R"("prompt":"hi",)", bad);
  }
  for (const Bad& bad : only_chat) expect("/v1/chat/completions", messages, bad);
}

TEST(Structured, WhatIsNotStrictIsLeftOut) {
  TestServer server;
  server.write("t<|END_THINKING|><|START_TEXT|>[1, 1]<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  const json::value schema = parsed(R"({"type":"array","uniqueItems":true})");
  json::object extra{{"response_format", schema_format(schema)}};
  EXPECT_EQ(chat(server.port(), extra).status, 400);
  extra["response_format"].as_object()["json_schema"].as_object()["strict"] = false;
  EXPECT_EQ(content_of(chat(server.port(), extra)), "[1, 1]");
}

// Schemas made to be slow neither stop the server nor get an answer other than 200 or 400.
TEST(Structured, HostileSchemas) {
  TestServer server(any_text());
  std::string deep = R"({"type":"null"})";
  for (int i = 0; i < 50; ++i) deep = R"({"items":)" + deep + "}";
  std::string options = R"({"type":"null"})";
  for (int i = 0; i < 3000; ++i) options += R"(,{"required":["p)" + std::to_string(i) + R"("]})";
  for (const std::string& schema :
       {deep, R"({"anyOf":[)" + options + "]}", std::string(R"({"pattern":"^(a|b)*a(a|b){40}$"})"),
        std::string(R"({"pattern":"((a{1,99}){1,99}){1,99}"})"), std::string(R"({"$ref":"#"})"),
        std::string(R"({"items":{"$ref":"#"},"minItems":2})"), std::string(R"({"maxLength":9223372036854775807})"),
        std::string(R"({"type":"string","minLength":1000000000})")}) {
    const std::string body =
        R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":20,"reasoning_effort":"none",)"
        R"("guided_json":)" +
        schema + "}";
    const TestAnswer answer = post(server.port(), "/v1/chat/completions", body);
    EXPECT_TRUE(answer.status == 200 || answer.status == 400) << schema.substr(0, 100) << answer.body;
  }
  EXPECT_TRUE(server.idle_at_baseline());
}

}  // namespace
}  // namespace boreas
