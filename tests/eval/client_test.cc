// An evaluation over HTTP: against a whole server of this process with a scripted model, and against servers that
// misbehave.
#include "apps/eval_client.h"

#include <gtest/gtest.h>

#include "apps/commands.h"
#include "apps/eval_run.h"
#include "tests/api/answering_server.h"
#include "tests/api/test_server.h"

namespace boreas {
namespace {

namespace json = boost::json;

HttpTarget target_at(uint16_t port) { return {"127.0.0.1", std::to_string(port), "/v1", ""}; }

EvalItem item(const std::string& id, const std::string& check, json::object more = {}) {
  EvalItem item{id, "kind", "part", std::move(more), *read_check(json::parse(check))};
  item.request["messages"] = json::array{json::object{{"role", "user"}, {"content", "What is 8 + 95?"}}};
  return item;
}

RunOptions options_for(uint16_t port) {
  RunOptions options;
  options.target = target_at(port);
  options.parallel = 4;
  options.show_progress = false;
  return options;
}

TEST(EvalClient, TargetsAreReadOrRefused) {
  const Result<HttpTarget> plain = parse_target("http://localhost:8000");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->host + " " + plain->port + " " + plain->base, "localhost 8000 /v1");
  const Result<HttpTarget> based = parse_target("http://example.org/api/v1/");
  ASSERT_TRUE(based.ok());
  EXPECT_EQ(based->host + " " + based->port + " " + based->base, "example.org 80 /api/v1");
  const Result<HttpTarget> v6 = parse_target("http://[::1]:81/x");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host + " " + v6->port + " " + v6->base, "::1 81 /x/v1");
  for (const char* bad : {"", "localhost:8000", "ftp://a", "http://", "http://a:", "http://a:1b", "http://u@a/",
                          "http://a/?q", "http://a b/", "http://a:123456", "http://a\r\nX: y"}) {
    EXPECT_FALSE(parse_target(bad).ok()) << bad;
  }
  const Result<HttpTarget> https = parse_target("https://a");
  ASSERT_FALSE(https.ok());
  EXPECT_NE(https.error().message.find("https is not supported"), std::string::npos);
}

TEST(EvalClient, ScoresTheAnswersOfAServer) {
  TestServer server;
  server.write("adding<|END_THINKING|><|START_TEXT|>8 + 95 = 103.<|END_TEXT|>");
  EvalSet set{"some.jsonl", {}};
  for (int i = 0; i < 12; ++i) {
    const std::string wanted = i % 3 == 0 ? "104" : "103";
    set.items.push_back(item(std::to_string(i), R"({"type": "number", "value": )" + wanted + "}"));
  }
  RunOptions options = options_for(server.port());
  HttpClient client(options.target, 10'000);
  const Result<std::string> model = first_model(client);
  ASSERT_TRUE(model.ok()) << model.error().message;
  options.ask.model = *model;
  options.ask.top_tokens = true;
  const std::vector<EvalSet> sets{set};
  const Result<std::vector<EvalOutcome>> outcomes = run_prompts(sets, options, nullptr);
  ASSERT_TRUE(outcomes.ok()) << outcomes.error().message;
  ASSERT_EQ(outcomes->size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    const EvalOutcome& outcome = (*outcomes)[i];
    EXPECT_EQ(outcome.item->id, std::to_string(i));
    EXPECT_EQ(outcome.verdict, i % 3 == 0 ? AnswerVerdict::kWrong : AnswerVerdict::kRight);
    EXPECT_EQ(outcome.reply.answer.content, "8 + 95 = 103.");
    EXPECT_EQ(outcome.reply.answer.reasoning, "adding");
    EXPECT_EQ(outcome.reply.finish_reason, "stop");
    EXPECT_GT(outcome.reply.prompt_tokens, 0);
    EXPECT_EQ(outcome.reply.output_tokens, static_cast<int64_t>(outcome.reply.tokens.size()));
    std::string output;
    for (const AnswerToken& token : outcome.reply.tokens) output += token.bytes;
    EXPECT_EQ(output, "adding<|END_THINKING|><|START_TEXT|>8 + 95 = 103.<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  }
}

TEST(EvalClient, ToolCallsAreRead) {
  TestServer server;
  server.write(
      R"(<|END_THINKING|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>)");
  const json::object function{{"name", "f"}, {"parameters", json::object{{"type", "object"}}}};
  const json::array tools{json::object{{"type", "function"}, {"function", function}}};
  EvalSet set{"some.jsonl", {}};
  set.items.push_back(
      item("a", R"({"type": "tool_calls", "calls": [{"name": "f", "arguments": {"a": 1}}]})", {{"tools", tools}}));
  const std::vector<EvalSet> sets{set};
  const Result<std::vector<EvalOutcome>> outcomes = run_prompts(sets, options_for(server.port()), nullptr);
  ASSERT_TRUE(outcomes.ok()) << outcomes.error().message;
  EXPECT_EQ((*outcomes)[0].verdict, AnswerVerdict::kRight) << (*outcomes)[0].reply.error;
  EXPECT_EQ((*outcomes)[0].reply.finish_reason, "tool_calls");
}

TEST(EvalClient, ARefusedRequestIsWrongWithTheServersWords) {
  TestServer server;
  server.write("<|END_THINKING|><|START_TEXT|>103<|END_TEXT|>");
  EvalSet set{"some.jsonl", {}};
  set.items.push_back(item("a", R"({"type": "number", "value": 103})", {{"top_p", "much"}}));
  set.items.push_back(item("b", R"({"type": "number", "value": 103})"));
  const std::vector<EvalSet> sets{set};
  const Result<std::vector<EvalOutcome>> outcomes = run_prompts(sets, options_for(server.port()), nullptr);
  ASSERT_TRUE(outcomes.ok()) << outcomes.error().message;
  EXPECT_EQ((*outcomes)[0].verdict, AnswerVerdict::kWrong);
  EXPECT_EQ((*outcomes)[0].reply.error.rfind("HTTP 400: ", 0), 0u) << (*outcomes)[0].reply.error;
  EXPECT_NE((*outcomes)[0].reply.error.find("top_p"), std::string::npos);
  EXPECT_EQ((*outcomes)[1].verdict, AnswerVerdict::kRight);
}

TEST(EvalClient, TheKeyIsSent) {
  TestServerOptions locked;
  locked.server.api_keys = {"secret"};
  TestServer server(locked);
  HttpClient without(target_at(server.port()), 10'000);
  const Result<std::string> refused = first_model(without);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("HTTP 401"), std::string::npos) << refused.error().message;
  HttpTarget target = target_at(server.port());
  target.api_key = "secret";
  HttpClient with(target, 10'000);
  EXPECT_TRUE(first_model(with).ok());
}

// Else a script takes a wrong key for a model that knows nothing.
TEST(EvalClient, ARunInWhichNothingIsAnsweredFails) {
  TestServerOptions locked;
  locked.server.api_keys = {"secret"};
  TestServer server(locked);
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
  std::string words[] = {
      "boreas", "eval",    "--url", url,     "--model",
      "any",    "--first", "2",     "--set", std::string(BOREAS_SOURCE_DIR) + "/models/demo/handwritten.jsonl"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  EXPECT_EQ(run_program(static_cast<int>(arguments.size()), arguments.data(), "0", add_commands), 1);
}

TEST(EvalClient, AServerThatIsNotThereEndsTheRun) {
  uint16_t port = 0;
  {
    port = AnsweringServer([](int) { return std::string(); }).port();
  }
  EvalSet set{"some.jsonl", {}};
  for (int i = 0; i < 8; ++i) set.items.push_back(item(std::to_string(i), R"({"type": "number", "value": 1})"));
  const std::vector<EvalSet> sets{set};
  const Result<std::vector<EvalOutcome>> outcomes = run_prompts(sets, options_for(port), nullptr);
  ASSERT_FALSE(outcomes.ok());
  EXPECT_NE(outcomes.error().message.find("127.0.0.1"), std::string::npos);
}

TEST(EvalClient, SilenceIsATimeoutOfThatPrompt) {
  AnsweringServer server([&](int) { return "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"; }, true);
  EvalSet set{"some.jsonl", {}};
  set.items.push_back(item("a", R"({"type": "number", "value": 1})"));
  const std::vector<EvalSet> sets{set};
  RunOptions options = options_for(server.port());
  options.timeout_ms = 300;
  const Result<std::vector<EvalOutcome>> outcomes = run_prompts(sets, options, nullptr);
  ASSERT_TRUE(outcomes.ok()) << outcomes.error().message;
  EXPECT_EQ((*outcomes)[0].verdict, AnswerVerdict::kWrong);
  EXPECT_NE((*outcomes)[0].reply.error.find("in time"), std::string::npos);
}

struct BrokenAnswer {
  std::string bytes;
  std::string kind;  // the error's param
};

const std::vector<BrokenAnswer>& broken_answers() {
  static const std::vector<BrokenAnswer> answers{
      {"", "closed"},
      {"garbage\r\n\r\n", "http"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort", "closed"},
      {"HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x'), "http"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "http"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "http"},
      {"HTTP/1.1 100 Continue\r\n\r\n", "closed"},
  };
  return answers;
}

TEST(EvalClient, NonsenseInsteadOfHttpIsAnError) {
  for (const BrokenAnswer& broken : broken_answers()) {
    AnsweringServer server([&](int) { return broken.bytes; });
    HttpClient client(target_at(server.port()), 5'000);
    const Result<HttpReply> reply = client.get("/models");
    ASSERT_FALSE(reply.ok()) << broken.bytes.substr(0, 60);
    EXPECT_EQ(reply.error().param, broken.kind) << broken.bytes.substr(0, 60) << ": " << reply.error().message;
  }
}

std::string completion_answer(const std::string& content) {
  const std::string body = R"({"choices": [{"message": {"content": ")" + content + R"("}}]})";
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(EvalClient, ABrokenAnswerIsThatPromptsAlone) {
  const std::vector<BrokenAnswer>& broken = broken_answers();
  AnsweringServer server(
      [&](int n) { return n % 2 == 0 ? broken[static_cast<size_t>(n / 2)].bytes : completion_answer("103"); });
  EvalSet set{"some.jsonl", {}};
  for (size_t i = 0; i < 2 * broken.size(); ++i) {
    set.items.push_back(item(std::to_string(i), R"({"type": "number", "value": 103})"));
  }
  const std::vector<EvalSet> sets{set};
  RunOptions options = options_for(server.port());
  options.parallel = 1;
  const Result<std::vector<EvalOutcome>> outcomes = run_prompts(sets, options, nullptr);
  ASSERT_TRUE(outcomes.ok()) << outcomes.error().message;
  for (size_t i = 0; i < outcomes->size(); ++i) {
    const EvalOutcome& outcome = (*outcomes)[i];
    EXPECT_EQ(outcome.verdict, i % 2 == 0 ? AnswerVerdict::kWrong : AnswerVerdict::kRight) << i;
    EXPECT_EQ(outcome.reply.error.empty(), i % 2 != 0) << outcome.reply.error;
  }
}

TEST(EvalClient, InterimAnswersAreSkippedAndBytesBehindAnAnswerDropped) {
  AnsweringServer server([&](int n) {
    const std::string interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    return interim + completion_answer(std::to_string(n)) + completion_answer("not asked for");
  });
  HttpClient client(target_at(server.port()), 5'000);
  for (const char* content : {"0", "1"}) {
    const Result<HttpReply> reply = client.post_json("/chat/completions", "{}");
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(*read_completion(reply->body).answer.content, content);
  }
}

TEST(EvalClient, OddCompletionsAreErrorsOrReadAsFarAsTheyGo) {
  for (const char* bad : {"", "[]", "{}", R"({"choices": []})", R"({"choices": [5]})", R"({"choices": [{}]})",
                          R"({"choices": [{"message": "x"}]})"}) {
    EXPECT_FALSE(read_completion(bad).error.empty()) << bad;
  }
  const Reply odd = read_completion(R"({"choices": [{"message": {"content": ["x"], "reasoning_content": "r",
      "tool_calls": [{"function": {"name": "f", "arguments": "{1"}}, {"function": 5}, 6]},
      "logprobs": {"content": [{"token": "a", "bytes": [97, "x"], "top_logprobs": [5]}, 7]}}], "usage": 5})");
  EXPECT_TRUE(odd.error.empty());
  EXPECT_FALSE(odd.answer.content);
  EXPECT_EQ(odd.answer.reasoning, "r");
  ASSERT_EQ(odd.answer.calls.size(), 3u);
  EXPECT_EQ(odd.answer.calls[0].arguments, json::value("{1"));
  EXPECT_EQ(odd.tokens.size(), 2u);
}

}  // namespace
}  // namespace boreas
