// Chat completions: what the model writes against what the client sees, plain and streamed.
#include <gtest/gtest.h>

#include <set>

#include "test_client.h"
#include "test_server.h"

namespace boreas {
namespace {

namespace json = boost::json;

constexpr char kAnswer[] = "think of it<|END_THINKING|><|START_TEXT|>Sort the list.<|END_TEXT|><|END_OF_TURN_TOKEN|>";
constexpr char kCalls[] =
    "call it<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"read_file\", "
    "\"parameters\": "
    "{\"path\": \"/tmp/a\\u00e9\", \"n\": 10000000000000000001}},\n    {\"tool_call_id\": \"1\", \"tool_name\": "
    "\"ls\", "
    "\"parameters\": {}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>";

json::array tools() {
  return json::parse(R"([{"type":"function","function":{"name":"read_file","description":"Reads.","parameters":
    {"type":"object","properties":{"path":{"type":"string"}}}}},
    {"type":"function","function":{"name":"ls","description":null,"parameters":null}}])")
      .as_array();
}

std::string text(const json::value& value) { return value.is_string() ? std::string(value.get_string()) : "(none)"; }

TEST(Chat, AnswersWithReasoningAndText) {
  TestServer server;
  server.write(kAnswer);
  const TestAnswer answer = chat(server.port(), {});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::value body = answer.json();
  EXPECT_EQ(text_at(body, "object"), "chat.completion");
  EXPECT_EQ(text_at(body, "model"), "tiny");
  EXPECT_EQ(text_at(body, "id").rfind("chatcmpl-", 0), 0U);
  EXPECT_EQ(text_at(body, "choices.0.message.role"), "assistant");
  EXPECT_EQ(text_at(body, "choices.0.message.content"), "Sort the list.");
  EXPECT_EQ(text_at(body, "choices.0.message.reasoning"), "think of it");
  EXPECT_EQ(text_at(body, "choices.0.message.reasoning_content"), "think of it");
  EXPECT_FALSE(object_at(body, "choices.0.message").contains("tool_calls"));
  EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "stop");
  EXPECT_TRUE(at(body, "choices.0.stop_reason").is_null());
  EXPECT_TRUE(at(body, "choices.0.logprobs").is_null());
  const auto output = static_cast<int64_t>(server.ids(kAnswer).size());
  EXPECT_EQ(int_at(body, "usage.completion_tokens"), output);
  EXPECT_EQ(int_at(body, "usage.completion_tokens_details.reasoning_tokens"),
            static_cast<int64_t>(server.ids("think of it").size()));
  EXPECT_EQ(int_at(body, "usage.prompt_tokens_details.cached_tokens"), 0);
  EXPECT_EQ(int_at(body, "usage.total_tokens"), int_at(body, "usage.prompt_tokens") + output);
}

TEST(Chat, StreamSaysWhatTheAnswerSays) {
  TestServer server;
  for (const char* written : {kAnswer, kCalls}) {
    server.write(written);
    const json::object extra{{"tools", tools()}, {"seed", 1}};
    const json::value plain = chat(server.port(), extra).json();
    json::object streamed = extra;
    streamed["stream"] = true;
    streamed["stream_options"] = json::object{{"include_usage", true}};
    const TestAnswer answer = chat(server.port(), streamed);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.fields.at("content-type"), "text/event-stream; charset=utf-8");
    const std::vector<json::object> chunks = answer.chunks();
    const FoldedChat folded = fold(chunks);
    EXPECT_EQ(folded.role, "assistant");
    EXPECT_EQ(folded.finish_reason, text_at(plain, "choices.0.finish_reason"));
    EXPECT_EQ(folded.reasoning, text_at(plain, "choices.0.message.reasoning"));
    EXPECT_EQ(folded.reasoning, folded.reasoning_content);
    const json::value content = at(plain, "choices.0.message.content");
    EXPECT_EQ(folded.content, content.is_null() ? "" : text(content));
    const json::value calls = at(plain, "choices.0.message.tool_calls");
    ASSERT_EQ(folded.calls.size(), calls.is_array() ? calls.as_array().size() : 0);
    for (size_t i = 0; i < folded.calls.size(); ++i) {
      const std::string path = "choices.0.message.tool_calls." + std::to_string(i);
      EXPECT_EQ(folded.calls[i].name, text_at(plain, path + ".function.name"));
      EXPECT_EQ(folded.calls[i].arguments, text_at(plain, path + ".function.arguments"));
    }
    // Chunks share id, created and model; usage comes last, alone, and equals the plain answer's.
    std::set<std::string> ids;
    for (const json::object& chunk : chunks) {
      ids.insert(text(chunk.at("id")) + text(chunk.at("model")) + std::to_string(chunk.at("created").as_int64()));
    }
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_TRUE(chunks.back().at("choices").as_array().empty());
    EXPECT_EQ(at(chunks.back(), "usage.completion_tokens"), at(plain, "usage.completion_tokens"));
    EXPECT_EQ(at(chunks.back(), "usage.prompt_tokens"), at(plain, "usage.prompt_tokens"));
    EXPECT_EQ(at(chunks.back(), "usage.completion_tokens_details"), at(plain, "usage.completion_tokens_details"));
    for (size_t i = 0; i + 1 < chunks.size(); ++i) EXPECT_TRUE(chunks[i].at("usage").is_null());
  }
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Chat, ToolCalls) {
  TestServer server;
  server.write(kCalls);
  const json::value body = chat(server.port(), {{"tools", tools()}}).json();
  EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "tool_calls");
  EXPECT_TRUE(object_at(body, "choices.0.message").contains("content"));
  EXPECT_TRUE(at(body, "choices.0.message.content").is_null());
  EXPECT_EQ(array_at(body, "choices.0.message.tool_calls").size(), 2U);
  const std::string id0 = text_at(body, "choices.0.message.tool_calls.0.id");
  const std::string id1 = text_at(body, "choices.0.message.tool_calls.1.id");
  EXPECT_EQ(id0.substr(0, 5), "call_");
  EXPECT_EQ(id0.size(), 29U);
  EXPECT_NE(id0, id1);
  EXPECT_EQ(text_at(body, "choices.0.message.tool_calls.0.type"), "function");
  EXPECT_EQ(text_at(body, "choices.0.message.tool_calls.0.function.name"), "read_file");
  // Numbers and escapes as the model wrote them.
  EXPECT_EQ(text_at(body, "choices.0.message.tool_calls.0.function.arguments"),
            "{\"path\": \"/tmp/a\\u00e9\", \"n\": 10000000000000000001}");
  EXPECT_EQ(text_at(body, "choices.0.message.tool_calls.1.function.arguments"), "{}");
}

TEST(Chat, OneCallOnlyIfNotParallel) {
  TestServer server;
  server.write(kCalls);
  for (const bool stream : {false, true}) {
    const TestAnswer answer =
        chat(server.port(), {{"tools", tools()}, {"parallel_tool_calls", false}, {"stream", stream}});
    if (stream) {
      const FoldedChat folded = fold(answer.chunks());
      EXPECT_EQ(folded.calls.size(), 1U);
      EXPECT_EQ(folded.finish_reason, "tool_calls");
    } else {
      EXPECT_EQ(array_at(answer.json(), "choices.0.message.tool_calls").size(), 1U);
    }
  }
}

TEST(Chat, NoCallsIfForbidden) {
  TestServer server;
  server.write(kCalls);
  const json::object cases[] = {{{"tools", tools()}, {"tool_choice", "none"}}, {}, {{"tools", json::array()}}};
  for (const json::object& extra : cases) {
    const json::value body = chat(server.port(), extra).json();
    EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "stop");
    EXPECT_FALSE(object_at(body, "choices.0.message").contains("tool_calls"));
    EXPECT_NE(text_at(body, "choices.0.message.content").find("read_file"), std::string::npos);
    EXPECT_EQ(text_at(body, "choices.0.message.content").find("<|"), std::string::npos);
  }
}

TEST(Chat, CutOffByTheTokenLimit) {
  TestServer server;
  // While thinking.
  server.write(kAnswer);
  json::value body = chat(server.port(), {{"max_tokens", 2}}).json();
  EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "length");
  EXPECT_TRUE(at(body, "choices.0.message.content").is_null());
  EXPECT_FALSE(text_at(body, "choices.0.message.reasoning").empty());
  EXPECT_EQ(int_at(body, "usage.completion_tokens"), 2);
  // Inside the second call: the first stays, the reason is the limit, stream and plain agree.
  server.write(kCalls);
  const auto all = static_cast<int64_t>(server.ids(kCalls).size());
  for (int64_t limit = 3; limit < all; limit += 3) {
    const json::object extra{{"tools", tools()}, {"max_completion_tokens", limit}, {"max_tokens", 1}};
    body = chat(server.port(), extra).json();
    EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "length") << limit;
    EXPECT_EQ(int_at(body, "usage.completion_tokens"), limit);
    json::object streamed = extra;
    streamed["stream"] = true;
    const FoldedChat folded = fold(chat(server.port(), streamed).chunks());
    EXPECT_EQ(folded.finish_reason, "length");
    const json::value calls = at(body, "choices.0.message.tool_calls");
    ASSERT_EQ(folded.calls.size(), calls.is_array() ? calls.as_array().size() : 0) << limit;
    for (size_t i = 0; i < folded.calls.size(); ++i) {
      EXPECT_EQ(folded.calls[i].arguments, text_at(calls, std::to_string(i) + ".function.arguments")) << limit;
    }
  }
}

TEST(Chat, StopStringsLookAtTheAnswerOnly) {
  TestServer server;
  server.write("stop here<|END_THINKING|><|START_TEXT|>Go on, stop here now.<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  for (const bool stream : {false, true}) {
    for (const bool include : {false, true}) {
      const TestAnswer answer =
          chat(server.port(),
               {{"stop", json::array{"xyz", "stop he"}}, {"stream", stream}, {"include_stop_str_in_output", include}});
      ASSERT_EQ(answer.status, 200) << answer.body;
      const std::string content =
          stream ? fold(answer.chunks()).content : text_at(answer.json(), "choices.0.message.content");
      EXPECT_EQ(content, include ? "Go on, stop he" : "Go on,");
      if (stream) {
        EXPECT_EQ(text(fold(answer.chunks()).stop_reason), "stop he");
        EXPECT_EQ(fold(answer.chunks()).reasoning, "stop here");
      } else {
        EXPECT_EQ(text_at(answer.json(), "choices.0.stop_reason"), "stop he");
        EXPECT_EQ(text_at(answer.json(), "choices.0.finish_reason"), "stop");
      }
    }
  }
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Chat, StopStringEndsDecoding) {
  TestServer server;
  server.write_forever("and on ");
  const TestAnswer answer =
      chat(server.port(),
           {{"stop", "on and"},
            {"chat_template_kwargs", json::object{{"reasoning", false}}},
            {"messages", json::parse(R"([{"role":"user","content":"x"},{"role":"assistant","content":"y"}])")},
            {"continue_final_message", true}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(text_at(answer.json(), "choices.0.message.content"), "and");
  EXPECT_LT(int_at(answer.json(), "usage.completion_tokens"), 20);
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Chat, StopTokenIds) {
  TestServer server;
  server.write(kAnswer);
  const TokenId id = server.ids("Sort the list.").back();
  const json::value body = chat(server.port(), {{"stop_token_ids", json::array{id}}}).json();
  EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "stop");
  EXPECT_EQ(int_at(body, "choices.0.stop_reason"), id);
  EXPECT_EQ(text_at(body, "choices.0.message.content").find('.'), std::string::npos);
}

TEST(Chat, IgnoreEosRunsToTheLimit) {
  TestServer server;
  server.write(kAnswer);
  const json::value body = chat(server.port(), {{"ignore_eos", true}, {"max_tokens", 100}, {"min_tokens", 5}}).json();
  EXPECT_EQ(int_at(body, "usage.completion_tokens"), 100);
  EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "length");
}

TEST(Chat, ReasoningCanBeHidden) {
  TestServer server;
  server.write(kAnswer);
  const TestAnswer stream = chat(server.port(), {{"include_reasoning", false}, {"stream", true}});
  EXPECT_EQ(stream.body.find("reasoning"), std::string::npos);
  EXPECT_EQ(fold(stream.chunks()).content, "Sort the list.");
  const json::value body = chat(server.port(), {{"include_reasoning", false}}).json();
  EXPECT_EQ(text_at(body, "choices.0.message.content"), "Sort the list.");
  EXPECT_FALSE(object_at(body, "choices.0.message").contains("reasoning"));
  EXPECT_GT(int_at(body, "usage.completion_tokens_details.reasoning_tokens"), 0);
}

TEST(Chat, ReasoningOff) {
  TestServer server;
  server.write("<|START_TEXT|>Yes.<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  const json::object cases[] = {{{"reasoning_effort", "none"}},
                                {{"chat_template_kwargs", json::object{{"reasoning", false}}}},
                                {{"chat_template_kwargs", json::object{{"enable_thinking", false}}}},
                                {{"thinking", json::object{{"type", "disabled"}}}}};
  std::set<int64_t> prompts;
  for (const json::object& extra : cases) {
    const json::value body = chat(server.port(), extra).json();
    EXPECT_EQ(text_at(body, "choices.0.message.content"), "Yes.") << json::serialize(extra);
    EXPECT_FALSE(object_at(body, "choices.0.message").contains("reasoning"));
    prompts.insert(int_at(body, "usage.prompt_tokens"));
  }
  const json::value on = chat(server.port(), {}).json();
  EXPECT_EQ(prompts, std::set<int64_t>{int_at(on, "usage.prompt_tokens") + 1});
}

TEST(Chat, ReasoningFieldOption) {
  for (const ReasoningField field : {ReasoningField::kReasoning, ReasoningField::kReasoningContent}) {
    TestServerOptions options;
    options.server.reasoning_field = field;
    TestServer server(options);
    server.write(kAnswer);
    const json::value body = chat(server.port(), {}).json();
    const json::object message = object_at(body, "choices.0.message");
    EXPECT_EQ(message.contains("reasoning"), field == ReasoningField::kReasoning);
    EXPECT_EQ(message.contains("reasoning_content"), field == ReasoningField::kReasoningContent);
  }
}

TEST(Chat, SeveralChoices) {
  TestServer server;
  server.write(kAnswer);
  const auto output = static_cast<int64_t>(server.ids(kAnswer).size());
  const json::value body = chat(server.port(), {{"n", 3}}).json();
  ASSERT_EQ(array_at(body, "choices").size(), 3U);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(int_at(body, "choices." + std::to_string(i) + ".index"), i);
    EXPECT_EQ(text_at(body, "choices." + std::to_string(i) + ".message.content"), "Sort the list.");
  }
  EXPECT_EQ(int_at(body, "usage.completion_tokens"), 3 * output);
  const std::vector<json::object> chunks = chat(server.port(), {{"n", 3}, {"stream", true}}).chunks();
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(fold(chunks, i).content, "Sort the list.");
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Chat, Logprobs) {
  TestServer server;
  server.write(kAnswer);
  const json::object extra{{"logprobs", true}, {"top_logprobs", 3}};
  const json::value body = chat(server.port(), extra).json();
  const json::array entries = array_at(body, "choices.0.logprobs.content");
  const std::vector<TokenId> ids = server.ids(kAnswer);
  ASSERT_EQ(entries.size(), ids.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(text_at(entries[i], "token"), std::string(server.tokenizer().token_bytes(ids[i])));
    EXPECT_LE(entries[i].at("logprob").to_number<double>(), 0);
    EXPECT_EQ(entries[i].at("top_logprobs").as_array().size(), 3U);
    std::string bytes;
    for (const json::value& byte : entries[i].at("bytes").as_array()) bytes += static_cast<char>(byte.as_int64());
    EXPECT_EQ(bytes, std::string(server.tokenizer().token_bytes(ids[i])));
  }
  json::object streamed = extra;
  streamed["stream"] = true;
  const std::vector<json::object> chunks = chat(server.port(), streamed).chunks();
  EXPECT_EQ(fold(chunks).logprobs.size(), entries.size());
  // A chunk's entries are the tokens of its text.
  for (const json::object& chunk : chunks) {
    const json::value content = at(chunk, "choices.0.delta.content");
    const json::value chunk_entries = at(chunk, "choices.0.logprobs.content");
    if (!content.is_string() || content.get_string().empty() || !chunk_entries.is_array()) continue;
    std::string joined;
    for (const json::value& entry : chunk_entries.get_array()) {
      if (text_at(entry, "token").rfind("<|", 0) != 0) joined += text_at(entry, "token");
    }
    EXPECT_EQ(joined, text(content));
  }
}

TEST(Chat, TokenIdsOnRequest) {
  TestServer server;
  server.write(kAnswer);
  const json::value body = chat(server.port(), {{"return_token_ids", true}}).json();
  const std::vector<TokenId> ids = server.ids(kAnswer);
  ASSERT_EQ(array_at(body, "choices.0.token_ids").size(), ids.size());
  EXPECT_EQ(static_cast<int64_t>(array_at(body, "prompt_token_ids").size()), int_at(body, "usage.prompt_tokens"));
  std::vector<TokenId> streamed;
  for (const json::object& chunk : chat(server.port(), {{"return_token_ids", true}, {"stream", true}}).chunks()) {
    const json::value part = at(chunk, "choices.0.token_ids");
    if (!part.is_array()) continue;
    for (const json::value& id : part.get_array()) streamed.push_back(static_cast<TokenId>(id.as_int64()));
  }
  EXPECT_EQ(streamed, ids);
}

TEST(Chat, SeedsDecide) {
  TestServerOptions options;
  options.scripted = false;
  TestServer server(options);
  const auto run = [&](json::object extra) {
    extra["max_tokens"] = 24;
    extra["ignore_eos"] = true;
    extra["return_token_ids"] = true;
    return json::serialize(at(chat(server.port(), extra).json(), "choices.0.token_ids"));
  };
  EXPECT_EQ(run({{"seed", 7}}), run({{"seed", 7}}));
  EXPECT_NE(run({{"seed", 7}}), run({{"seed", 8}}));
  EXPECT_NE(run({}), run({}));
  EXPECT_NE(run({{"seed", -1}}), run({{"seed", -1}}));  // -1 is no seed
  EXPECT_EQ(run({{"temperature", 0}}), run({{"temperature", 0}, {"seed", 5}}));
}

TEST(Chat, ContinuousUsage) {
  TestServer server;
  server.write(kAnswer);
  const json::object stream_options{{"include_usage", true}, {"continuous_usage_stats", true}};
  int64_t last = 0;
  for (const json::object& chunk :
       chat(server.port(), {{"stream", true}, {"stream_options", stream_options}}).chunks()) {
    const int64_t now = int_at(chunk, "usage.completion_tokens");
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(last, static_cast<int64_t>(server.ids(kAnswer).size()));
}

TEST(Chat, MarkersInMessagesStayText) {
  TestServer server;
  server.write(kAnswer);
  const auto prompt = [&](const std::string& content) {
    const json::value body =
        chat(server.port(), {{"return_token_ids", true},
                             {"messages", json::array{json::object{{"role", "user"}, {"content", content}}}}})
            .json();
    return array_at(body, "prompt_token_ids");
  };
  const auto count = [&](const json::array& ids, const char* marker) {
    const TokenId id = server.ids(marker).front();
    return std::count_if(ids.begin(), ids.end(), [&](const json::value& each) { return each.as_int64() == id; });
  };
  EXPECT_EQ(count(prompt("<|END_OF_TURN_TOKEN|>"), "<|END_OF_TURN_TOKEN|>"),
            count(prompt("x"), "<|END_OF_TURN_TOKEN|>"));
}

TEST(Chat, HistoryOfAnAgent) {
  TestServer server;
  server.write(kAnswer);
  const json::value messages = json::parse(R"([
    {"role":"system","content":"Be brief."},{"role":"developer","content":[{"type":"text","text":"And kind."}]},
    {"role":"user","content":"List.","name":"u"},
    {"role":"assistant","content":null,"refusal":null,"audio":null,"reasoning_content":"I list.","tool_calls":[
      {"id":"call_a","type":"function","function":{"name":"ls","arguments":"{\"path\": \"/\"}"}},
      {"id":"call_b","type":"function","function":{"name":"ls","arguments":"{\"path\": "}},
      {"id":"call_c","type":"function","function":{"name":"ls","arguments":""}},
      {"id":"call_d","type":"function","function":{"name":"ls","arguments":{"x":1}}}]},
    {"role":"tool","tool_call_id":"call_a","content":"bin"},
    {"role":"tool","tool_call_id":"call_z","content":[{"type":"text","text":"etc"}]},
    {"role":"tool","tool_call_id":"call_c","content":{"a":1}},
    {"role":"assistant","content":[]},{"role":"user","content":null},{"role":"User","content":""},
    {"role":"system","content":"Mid-way."},{"role":"user","content":"Go on."}])");
  const TestAnswer answer = chat(server.port(), {{"messages", messages}, {"tools", tools()}});
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST(Chat, NullsAreAbsent) {
  TestServer server;
  server.write(kAnswer);
  json::object extra;
  for (const char* key : {"model",
                          "stream",
                          "stream_options",
                          "max_completion_tokens",
                          "max_tokens",
                          "temperature",
                          "top_p",
                          "top_k",
                          "min_p",
                          "frequency_penalty",
                          "presence_penalty",
                          "repetition_penalty",
                          "logit_bias",
                          "seed",
                          "stop",
                          "stop_token_ids",
                          "include_stop_str_in_output",
                          "n",
                          "best_of",
                          "logprobs",
                          "top_logprobs",
                          "prompt_logprobs",
                          "min_tokens",
                          "ignore_eos",
                          "tools",
                          "tool_choice",
                          "parallel_tool_calls",
                          "functions",
                          "function_call",
                          "response_format",
                          "structured_outputs",
                          "guided_json",
                          "reasoning_effort",
                          "include_reasoning",
                          "thinking_token_budget",
                          "chat_template_kwargs",
                          "chat_template",
                          "add_generation_prompt",
                          "continue_final_message",
                          "add_special_tokens",
                          "documents",
                          "echo",
                          "skip_special_tokens",
                          "bad_words",
                          "allowed_token_ids",
                          "priority",
                          "request_id",
                          "cache_salt",
                          "stream_interval",
                          "audio",
                          "modalities"}) {
    extra[key] = nullptr;
  }
  EXPECT_EQ(chat(server.port(), extra).status, 200);
}

TEST(Chat, FieldsWithoutEffect) {
  TestServer server;
  server.write(kAnswer);
  const json::object inert{{"store", false},
                           {"metadata", json::object{{"a", "b"}}},
                           {"user", "u"},
                           {"service_tier", "auto"},
                           {"verbosity", "low"},
                           {"prompt_cache_key", "k"},
                           {"prediction", nullptr},
                           {"modalities", json::array{"text"}},
                           {"unheard_of", 1},
                           {"response_format", json::object{{"type", "text"}}},
                           {"best_of", 1},
                           {"use_beam_search", false},
                           {"length_penalty", 1.0},
                           {"stream_interval", 1},
                           {"bad_words", json::array()}};
  const TestAnswer answer = chat(server.port(), inert);
  EXPECT_EQ(answer.status, 200) << answer.body;
}

}  // namespace
}  // namespace boreas
