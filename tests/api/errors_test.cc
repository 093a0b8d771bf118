// Every bad value gets the stated status, and the server goes on.
#include <gtest/gtest.h>

#include "test_client.h"
#include "test_server.h"

namespace boreas {
namespace {

namespace json = boost::json;

struct BadField {
  const char* field;  // JSON of the extra members
  const char* param;  // "" : null
  const char* code;
};

void expect_bad(uint16_t port, const std::string& path, const std::string& body, const BadField& bad) {
  const TestAnswer answer = post(port, path, body);
  EXPECT_EQ(answer.status, 400) << body.substr(0, 300) << "\n" << answer.body;
  EXPECT_EQ(answer.error("param"), bad.param) << body.substr(0, 300) << "\n" << answer.body;
  EXPECT_EQ(answer.error("code"), bad.code) << body.substr(0, 300) << "\n" << answer.body;
  EXPECT_EQ(answer.error("type"), "invalid_request_error");
  EXPECT_FALSE(answer.error("message").empty());
  EXPECT_EQ(answer.fields.at("content-type"), "application/json");
}

constexpr char kValue[] = "invalid_value";
constexpr char kMissing[] = "missing_required_parameter";
constexpr char kUnsupported[] = "unsupported_value";

// Members of both endpoints.
constexpr BadField kShared[] = {
    {R"("model":5)", "model", kValue},
    {R"("stream":"yes")", "stream", kValue},
    {R"("stream":1)", "stream", kValue},
    {R"("stream_options":{"include_usage":true})", "stream_options", kValue},
    {R"("stream":true,"stream_options":[])", "stream_options", kValue},
    {R"("stream":true,"stream_options":{"include_usage":3})", "stream_options.include_usage", kValue},
    {R"("max_tokens":-1)", "max_tokens", kValue},
    {R"("max_tokens":1.5)", "max_tokens", kValue},
    {R"("max_tokens":"5")", "max_tokens", kValue},
    {R"("max_tokens":true)", "max_tokens", kValue},
    {R"("max_completion_tokens":0)", "max_completion_tokens", kValue},
    {R"("temperature":-0.1)", "temperature", kValue},
    {R"("temperature":2.1)", "temperature", kValue},
    {R"("temperature":1e999)", "temperature", kValue},
    {R"("temperature":"1")", "temperature", kValue},
    {R"("top_p":0)", "top_p", kValue},
    {R"("top_p":1.01)", "top_p", kValue},
    {R"("top_p":[])", "top_p", kValue},
    {R"("top_k":-2)", "top_k", kValue},
    {R"("top_k":1.5)", "top_k", kValue},
    {R"("min_p":-0.1)", "min_p", kValue},
    {R"("min_p":1.1)", "min_p", kValue},
    {R"("frequency_penalty":2.5)", "frequency_penalty", kValue},
    {R"("presence_penalty":-2.5)", "presence_penalty", kValue},
    {R"("repetition_penalty":0)", "repetition_penalty", kValue},
    {R"("repetition_penalty":-1e999)", "repetition_penalty", kValue},
    {R"("logit_bias":[])", "logit_bias", kValue},
    {R"("logit_bias":{"x":1})", "logit_bias.x", kValue},
    {R"("logit_bias":{"-1":1})", "logit_bias.-1", kValue},
    {R"("logit_bias":{"512":1})", "logit_bias.512", kValue},
    {R"("logit_bias":{"1":"a"})", "logit_bias.1", kValue},
    {R"("logit_bias":{"99999999999999999999":1})", "logit_bias.99999999999999999999", kValue},
    {R"("seed":1.5)", "seed", kValue},
    {R"("seed":9223372036854775808)", "seed", kValue},
    {R"("seed":"1")", "seed", kValue},
    {R"("stop":5)", "stop", kValue},
    {R"("stop":"")", "stop", kValue},
    {R"("stop":["a","b","c","d","e"])", "stop", kValue},
    {R"("stop":["a",5])", "stop.1", kValue},
    {R"("stop":["a",""])", "stop.1", kValue},
    {R"("stop_token_ids":[512])", "stop_token_ids.0", kValue},
    {R"("stop_token_ids":[-1])", "stop_token_ids.0", kValue},
    {R"("stop_token_ids":5)", "stop_token_ids", kValue},
    {R"("include_stop_str_in_output":"x")", "include_stop_str_in_output", kValue},
    {R"("n":0)", "n", kValue},
    {R"("n":17)", "n", kValue},
    {R"("n":"2")", "n", kValue},
    {R"("best_of":3)", "best_of", kUnsupported},
    {R"("min_tokens":-1)", "min_tokens", kValue},
    {R"("min_tokens":5,"max_tokens":4)", "min_tokens", kValue},
    {R"("ignore_eos":0)", "ignore_eos", kValue},
    {R"("skip_special_tokens":"no")", "skip_special_tokens", kValue},
    {R"("add_special_tokens":1)", "add_special_tokens", kValue},
    {R"("return_token_ids":1)", "return_token_ids", kValue},
    {R"("allowed_token_ids":[])", "allowed_token_ids", kValue},
    {R"("allowed_token_ids":[600])", "allowed_token_ids.0", kValue},
    {R"("priority":1.5)", "priority", kValue},
    {R"("request_id":"a b")", "request_id", kValue},
    {R"("cache_salt":"")", "cache_salt", kValue},
    {R"("cache_salt":"a/b")", "cache_salt", kValue},
    {R"("response_format":"json")", "response_format", kValue},
    {R"("response_format":{})", "response_format.type", kValue},
    {R"("response_format":{"type":"xml"})", "response_format.type", kValue},
    {R"("use_beam_search":true)", "use_beam_search", kUnsupported},
    {R"("bad_words":["a"])", "bad_words", kUnsupported},
    {R"("prompt_logprobs":1)", "prompt_logprobs", kUnsupported},
    {R"("truncate_prompt_tokens":5)", "truncate_prompt_tokens", kUnsupported},
    {R"("stream_interval":4)", "stream_interval", kUnsupported},
    {R"("suffix":"x")", "suffix", kUnsupported},
};

constexpr BadField kChat[] = {
    {R"("messages":null)", "messages", kMissing},
    {R"("messages":[])", "messages", kValue},
    {R"("messages":"hi")", "messages", kValue},
    {R"("messages":{"role":"user"})", "messages", kValue},
    {R"("messages":["hi"])", "messages.0", kValue},
    {R"("messages":[{"content":"x"}])", "messages.0.role", kMissing},
    {R"("messages":[{"role":5,"content":"x"}])", "messages.0.role", kValue},
    {R"("messages":[{"role":"robot","content":"x"}])", "messages.0.role", kValue},
    {R"("messages":[{"role":"user","content":5}])", "messages.0.content", kValue},
    {R"("messages":[{"role":"user","content":{"a":1}}])", "messages.0.content", kValue},
    {R"("messages":[{"role":"user","content":["x"]}])", "messages.0.content.0", kValue},
    {R"("messages":[{"role":"user","content":[{"text":"x"}]}])", "messages.0.content.0.type", kMissing},
    {R"("messages":[{"role":"user","content":[{"type":"text"}]}])", "messages.0.content.0.text", kMissing},
    {R"("messages":[{"role":"user","content":[{"type":"text","text":5}]}])", "messages.0.content.0.text", kValue},
    {R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/x"}}]}])",
     "messages.0.content.0", kUnsupported},
    {R"("messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}])", "messages.0.content.0",
     kUnsupported},
    {R"("messages":[{"role":"assistant","reasoning_content":5}])", "messages.0.reasoning_content", kValue},
    {R"("messages":[{"role":"assistant","tool_calls":5}])", "messages.0.tool_calls", kValue},
    {R"("messages":[{"role":"assistant","tool_calls":[5]}])", "messages.0.tool_calls.0", kValue},
    {R"("messages":[{"role":"assistant","tool_calls":[{}]}])", "messages.0.tool_calls.0.function", kMissing},
    {R"("messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}])",
     "messages.0.tool_calls.0.function.name", kMissing},
    {R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":5}}]}])",
     "messages.0.tool_calls.0.function.arguments", kValue},
    {R"("messages":[{"role":"tool","tool_call_id":5,"content":"x"}])", "messages.0.tool_call_id", kValue},
    {R"("tools":5)", "tools", kValue},
    {R"("tools":[5])", "tools.0", kValue},
    {R"("tools":[{"type":"function"}])", "tools.0.function", kMissing},
    {R"("tools":[{"type":"web_search"}])", "tools.0.type", kUnsupported},
    {R"("tools":[{"type":"function","function":{}}])", "tools.0.function.name", kMissing},
    {R"("tools":[{"type":"function","function":{"name":""}}])", "tools.0.function.name", kValue},
    {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools.0.function.name", kValue},
    {R"("tools":[{"type":"function","function":{"name":"a","parameters":[]}}])", "tools.0.function.parameters", kValue},
    {R"("tools":[{"type":"function","function":{"name":"a","description":5}}])", "tools.0.function.description",
     kValue},
    {R"("tools":[{"function":{"name":"a"}},{"function":{"name":"a"}}])", "tools.1.function.name", kValue},
    {R"("tool_choice":"maybe")", "tool_choice", kValue},
    {R"("tool_choice":5)", "tool_choice", kValue},
    {R"("parallel_tool_calls":"no")", "parallel_tool_calls", kValue},
    {R"("functions":[{"name":"a"}])", "functions", kUnsupported},
    {R"("logprobs":5)", "logprobs", kValue},
    {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", kValue},
    {R"("top_logprobs":2)", "top_logprobs", kValue},
    {R"("reasoning_effort":"extreme")", "reasoning_effort", kValue},
    {R"("reasoning_effort":5)", "reasoning_effort", kValue},
    {R"("include_reasoning":5)", "include_reasoning", kValue},
    {R"("thinking_token_budget":100)", "thinking_token_budget", kUnsupported},
    {R"("chat_template_kwargs":[])", "chat_template_kwargs", kValue},
    {R"("chat_template_kwargs":{"tokenize":false})", "chat_template_kwargs.tokenize", kValue},
    {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages", kValue},
    {R"("chat_template":"{{ 1 }}")", "chat_template", kUnsupported},
    {R"("add_generation_prompt":true,"continue_final_message":true)", "continue_final_message", kValue},
    {R"("continue_final_message":true)", "continue_final_message", kValue},
    {R"("documents":5)", "documents", kValue},
    {R"("documents":["x"])", "documents.0", kValue},
    {R"("echo":true)", "echo", kUnsupported},
    {R"("audio":{"voice":"x"})", "audio", kUnsupported},
    {R"("modalities":["text","audio"])", "modalities", kUnsupported},
    {R"("max_tokens":0)", "max_tokens", kValue},
};

constexpr BadField kCompletion[] = {
    {R"("prompt":null)", "prompt", kMissing},
    {R"("prompt":5)", "prompt", kValue},
    {R"("prompt":[])", "prompt", kValue},
    {R"("prompt":{})", "prompt", kValue},
    {R"("prompt":[512])", "prompt.0", kValue},
    {R"("prompt":[1,-1])", "prompt.1", kValue},
    {R"("prompt":[1,"a"])", "prompt.1", kValue},
    {R"("prompt":["a",5])", "prompt.1", kValue},
    {R"("prompt":[[1],[]])", "prompt.1", kValue},
    {R"("prompt":[[1],[1.5]])", "prompt.1.0", kValue},
    {R"("prompt":"","add_special_tokens":false)", "prompt", kValue},
    {R"("logprobs":21)", "logprobs", kValue},
    {R"("logprobs":true)", "logprobs", kValue},
    {R"("echo":5)", "echo", kValue},
    {R"("max_tokens":0)", "max_tokens", kValue},
};

TEST(Errors, BadValuesOfChats) {
  TestServer server;
  const std::string messages = R"("messages":[{"role":"user","content":"Hi"}],)";
  for (const BadField& bad : kShared) {
    expect_bad(server.port(), "/v1/chat/completions", "{" + messages + bad.field + "}", bad);
  }
  for (const BadField& bad : kChat) {
    const bool own = std::string(bad.field).rfind("\"messages\"", 0) == 0;
    expect_bad(server.port(), "/v1/chat/completions", "{" + (own ? "" : messages) + bad.field + "}", bad);
  }
  EXPECT_EQ(chat(server.port(), {}).status, 200);
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Errors, BadValuesOfCompletions) {
  TestServer server;
  for (const BadField& bad : kShared) {
    expect_bad(server.port(), "/v1/completions", std::string("{\"prompt\":\"a\",") + bad.field + "}", bad);
  }
  for (const BadField& bad : kCompletion) {
    const bool own = std::string(bad.field).rfind("\"prompt\"", 0) == 0;
    expect_bad(server.port(), "/v1/completions", std::string("{") + (own ? "" : "\"prompt\":\"a\",") + bad.field + "}",
               bad);
  }
  EXPECT_EQ(completion(server.port(), {}).status, 200);
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Errors, BadJson) {
  TestServer server;
  for (const std::string& body :
       {std::string("{"), std::string("[]"), std::string("5"), std::string("{\"prompt\":\"\xff\"}"),
        std::string("{}{}"), std::string("{\"prompt\":NaN}"), std::string("{'prompt':1}"),
        std::string("{\"prompt\":\"a\",}"), std::string("{\"prompt\":\"\\ud800\"}"), std::string("\0{}", 3)}) {
    const TestAnswer answer = post(server.port(), "/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.error("code"), kValue) << body;
  }
  EXPECT_EQ(post(server.port(), "/v1/completions", std::string()).status, 400);
  EXPECT_EQ(post(server.port(), "/v1/completions", std::string("\xef\xbb\xbf{\"prompt\":\"a\"}")).status, 200);
}

TEST(Errors, DeepJson) {
  TestServer server;
  for (const char* open : {"[", "{\"a\":"}) {
    std::string body = "{\"prompt\":\"a\",\"metadata\":";
    for (int i = 0; i < 100'000; ++i) body += open;
    EXPECT_EQ(post(server.port(), "/v1/completions", body).status, 400);
  }
  // Within the limit it is only ignored.
  std::string body = "{\"prompt\":\"a\",\"metadata\":" + std::string(100, '[') + std::string(100, ']') + "}";
  EXPECT_EQ(post(server.port(), "/v1/completions", body).status, 200);
}

TEST(Errors, ManyValues) {
  TestServer server;
  std::string body = "{\"prompt\":\"a\",\"metadata\":[0";
  for (int i = 0; i < 3'000'000; ++i) body += ",0";
  const TestAnswer answer = post(server.port(), "/v1/completions", body + "]}");
  EXPECT_EQ(answer.status, 413);
}

TEST(Errors, TenThousandStopStrings) {
  TestServer server;
  json::array stop;
  for (int i = 0; i < 10'000; ++i) stop.push_back(json::string("s" + std::to_string(i)));
  EXPECT_EQ(chat(server.port(), {{"stop", stop}}).error("param"), "stop");
  EXPECT_EQ(chat(server.port(), {{"stop", std::string(5000, 'x')}}).status, 400);
  json::object bias;
  for (int i = 0; i < 2000; ++i) bias[std::to_string(i)] = 1;
  EXPECT_EQ(chat(server.port(), {{"logit_bias", bias}}).error("param"), "logit_bias");
}

TEST(Errors, UnknownModel) {
  TestServer server;
  for (const TestAnswer& answer :
       {chat(server.port(), {{"model", "gpt"}}), completion(server.port(), {{"model", "gpt"}})}) {
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.error("code"), "model_not_found");
    EXPECT_EQ(answer.error("param"), "model");
  }
  EXPECT_EQ(chat(server.port(), {{"model", "org/tiny"}}).status, 200);
}

TEST(Errors, PromptLongerThanTheContext) {
  TestServer server;
  std::string words;
  for (int i = 0; i < 5000; ++i) words += " list";
  const json::array messages{json::object{{"role", "user"}, {"content", words}}};
  for (const bool stream : {false, true}) {
    const TestAnswer answer = chat(server.port(), {{"messages", messages}, {"stream", stream}});
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.error("code"), "context_length_exceeded");
    EXPECT_EQ(answer.error("param"), "messages");
    EXPECT_NE(answer.error("message").find("maximum context length is 4096 tokens"), std::string::npos);
  }
  EXPECT_EQ(completion(server.port(), {{"prompt", words}}).error("code"), "context_length_exceeded");
  // Larger limits than what is left are cut to it.
  server.write_forever("x");
  const json::value body = completion(server.port(), {{"prompt", "a"}, {"max_tokens", 1'000'000}}).json();
  EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "length");
  EXPECT_EQ(int_at(body, "usage.total_tokens"), 4096);
}

TEST(Errors, StrictMaxTokens) {
  TestServerOptions options;
  options.server.limits.strict_max_tokens = true;
  options.server.limits.output_tokens_max = 7;
  TestServer server(options);
  server.write_forever("x");
  EXPECT_EQ(completion(server.port(), {{"max_tokens", 5000}}).error("code"), "context_length_exceeded");
  EXPECT_EQ(int_at(completion(server.port(), {{"max_tokens", 50}}).json(), "usage.completion_tokens"), 7);
  EXPECT_EQ(int_at(chat(server.port(), {}).json(), "usage.completion_tokens"), 7);
}

TEST(Errors, TemplateFailsForTheClientOnly) {
  TestServer server;
  // Text that no template can be hurt by, but large enough to pass its output limit.
  const std::string large(17 << 20, 'x');
  const TestAnswer answer =
      chat(server.port(), {{"messages", json::array{json::object{{"role", "user"}, {"content", large}}}}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(chat(server.port(), {}).status, 200);
}

}  // namespace
}  // namespace boreas
