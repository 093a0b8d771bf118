// Completions: raw text, echo, log-probabilities, several prompts.
#include <gtest/gtest.h>

#include "test_client.h"
#include "test_server.h"

namespace boreas {
namespace {

namespace json = boost::json;

constexpr char kText[] = "_file(path):\n    return path";

std::string streamed_text(const std::vector<json::object>& chunks, int64_t index = 0) {
  std::string text;
  for (const json::object& chunk : chunks) {
    for (const json::value& choice : chunk.at("choices").as_array()) {
      if (int_at(choice, "index") == index) text += text_at(choice, "text");
    }
  }
  return text;
}

TEST(Completion, Answers) {
  TestServer server;
  server.write(std::string(kText) + "<|END_OF_TURN_TOKEN|>");
  const json::value body = completion(server.port(), {{"max_tokens", 100}}).json();
  EXPECT_EQ(text_at(body, "object"), "text_completion");
  EXPECT_EQ(text_at(body, "id").rfind("cmpl-", 0), 0U);
  EXPECT_EQ(text_at(body, "choices.0.text"), kText);
  EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "stop");
  EXPECT_TRUE(at(body, "choices.0.logprobs").is_null());
  EXPECT_EQ(int_at(body, "usage.completion_tokens"), static_cast<int64_t>(server.ids(kText).size()) + 1);
  EXPECT_EQ(int_at(body, "usage.prompt_tokens"), static_cast<int64_t>(server.ids("def read").size()) + 1);  // and BOS
  const json::value without_bos = completion(server.port(), {{"add_special_tokens", false}}).json();
  EXPECT_EQ(int_at(without_bos, "usage.prompt_tokens"), static_cast<int64_t>(server.ids("def read").size()));
  server.write_forever("x");
  const json::value by_default = completion(server.port(), {}).json();
  EXPECT_EQ(text_at(by_default, "choices.0.finish_reason"), "length");
  EXPECT_EQ(int_at(by_default, "usage.completion_tokens"), 16);
}

TEST(Completion, StreamsTheSame) {
  TestServer server;
  server.write(std::string(kText) + "<|END_OF_TURN_TOKEN|>");
  const TestAnswer answer =
      completion(server.port(),
                 {{"max_tokens", 100}, {"stream", true}, {"stream_options", json::object{{"include_usage", true}}}});
  const std::vector<json::object> chunks = answer.chunks();
  EXPECT_EQ(streamed_text(chunks), kText);
  for (const json::object& chunk : chunks) EXPECT_EQ(text_at(chunk, "object"), "text_completion");
  EXPECT_EQ(int_at(chunks.back(), "usage.completion_tokens"), static_cast<int64_t>(server.ids(kText).size()) + 1);
  EXPECT_EQ(text_at(chunks[chunks.size() - 2], "choices.0.finish_reason"), "stop");
}

TEST(Completion, PromptsTimesChoices) {
  TestServer server;
  server.write("one two<|END_OF_TURN_TOKEN|>");
  const json::value prompts = json::parse(R"(["a", [100, 101, 102], "bc"])");
  const json::object extra{{"prompt", prompts}, {"n", 2}, {"echo", true}, {"max_tokens", 50}};
  const json::value body = completion(server.port(), extra).json();
  ASSERT_EQ(array_at(body, "choices").size(), 6U);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(int_at(body, "choices." + std::to_string(i) + ".index"), i);
  EXPECT_EQ(text_at(body, "choices.0.text"), "aone two");
  EXPECT_EQ(text_at(body, "choices.5.text"), "bcone two");
  EXPECT_EQ(int_at(body, "usage.prompt_tokens"), 2 + 3 + static_cast<int64_t>(server.ids("bc").size()) + 1);
  json::object streamed = extra;
  streamed["stream"] = true;
  const std::vector<json::object> chunks = completion(server.port(), streamed).chunks();
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(streamed_text(chunks, i), text_at(body, "choices." + std::to_string(i) + ".text"));
  }
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Completion, ScoresAPrompt) {
  TestServer server;
  const std::string prompt = "return path";
  const std::vector<TokenId> ids = server.ids(prompt);
  for (const int n : {1, 2}) {
    const json::value body =
        completion(server.port(), {{"prompt", prompt}, {"echo", true}, {"logprobs", 2}, {"max_tokens", 0}, {"n", n}})
            .json();
    for (int i = 0; i < n; ++i) {
      const std::string choice = "choices." + std::to_string(i) + ".";
      EXPECT_EQ(text_at(body, choice + "text"), prompt);
      const json::array tokens = array_at(body, choice + "logprobs.tokens");
      const json::array logprobs = array_at(body, choice + "logprobs.token_logprobs");
      const json::array top = array_at(body, choice + "logprobs.top_logprobs");
      const json::array offsets = array_at(body, choice + "logprobs.text_offset");
      ASSERT_EQ(tokens.size(), ids.size() + 1) << json::serialize(body);
      ASSERT_EQ(logprobs.size(), tokens.size());
      ASSERT_EQ(top.size(), tokens.size());
      ASSERT_EQ(offsets.size(), tokens.size());
      EXPECT_TRUE(logprobs[0].is_null());
      EXPECT_TRUE(top[0].is_null());
      int64_t offset = 0;
      for (size_t t = 1; t < tokens.size(); ++t) {
        EXPECT_EQ(std::string(tokens[t].as_string()), std::string(server.tokenizer().token_bytes(ids[t - 1])));
        EXPECT_LE(logprobs[t].to_number<double>(), 0);
        EXPECT_GE(top[t].as_object().size(), 2U);
        EXPECT_EQ(offsets[t].as_int64(), offset);
        offset += static_cast<int64_t>(tokens[t].as_string().size());
      }
      EXPECT_EQ(text_at(body, choice + "finish_reason"), "length");
    }
    EXPECT_EQ(int_at(body, "usage.completion_tokens"), 0);
  }
}

TEST(Completion, LogprobsStreamAndPlainAgree) {
  TestServer server;
  server.write("caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd done<|END_OF_TURN_TOKEN|>");
  for (const bool echo : {false, true}) {
    const json::object extra{{"prompt", "\xc3\xa9t\xc3\xa9"}, {"logprobs", 1}, {"max_tokens", 60}, {"echo", echo}};
    const json::value body = completion(server.port(), extra).json();
    json::object streamed = extra;
    streamed["stream"] = true;
    json::array tokens;
    json::array offsets;
    const std::vector<json::object> chunks = completion(server.port(), streamed).chunks();
    for (const json::object& chunk : chunks) {
      for (const json::value& token : array_at(chunk, "choices.0.logprobs.tokens")) tokens.push_back(token);
      for (const json::value& offset : array_at(chunk, "choices.0.logprobs.text_offset")) offsets.push_back(offset);
    }
    EXPECT_EQ(json::serialize(tokens), json::serialize(array_at(body, "choices.0.logprobs.tokens")));
    EXPECT_EQ(json::serialize(offsets), json::serialize(array_at(body, "choices.0.logprobs.text_offset")));
    EXPECT_EQ(streamed_text(chunks), text_at(body, "choices.0.text"));
    EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end(),
                               [](const json::value& a, const json::value& b) { return a.as_int64() < b.as_int64(); }));
  }
}

TEST(Completion, StopStringsLookAtEverything) {
  TestServer server;
  server.write_forever("abc def ");
  for (const bool stream : {false, true}) {
    const TestAnswer answer = completion(server.port(), {{"stop", "def ab"}, {"max_tokens", 1000}, {"stream", stream}});
    if (stream) {
      EXPECT_EQ(streamed_text(answer.chunks()), "abc ");
    } else {
      EXPECT_EQ(text_at(answer.json(), "choices.0.text"), "abc ");
      EXPECT_EQ(text_at(answer.json(), "choices.0.stop_reason"), "def ab");
      EXPECT_LT(int_at(answer.json(), "usage.completion_tokens"), 20);
    }
  }
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Completion, SpecialTokensInThePromptAreSpecial) {
  TestServer server;
  const json::value body =
      completion(server.port(), {{"prompt", "<|START_TEXT|>"}, {"add_special_tokens", false}, {"max_tokens", 1}})
          .json();
  EXPECT_EQ(int_at(body, "usage.prompt_tokens"), 1);
}

TEST(Completion, BrokenUtf8IsReplacedOnce) {
  TestServer server;
  std::vector<TokenId> ids = server.ids("x\xe4\xbd\xa0");
  ids.pop_back();  // cut the character
  server.write_ids(ids);
  const json::value body =
      completion(server.port(), {{"max_tokens", static_cast<int64_t>(ids.size())}, {"ignore_eos", true}}).json();
  EXPECT_EQ(text_at(body, "choices.0.text"), "x\xef\xbf\xbd");
}

// The smallest numbers that a field takes, some of which no float holds: an answer, not a failure of the device.
TEST(Completion, TinyNumbersOverflowNothing) {
  TestServerOptions options;
  options.scripted = false;
  options.fake.full_logits = true;
  TestServer server(options);
  json::array ids;
  for (int i = 20; i < 400; ++i) ids.push_back(i);
  for (const char* name : {"temperature", "top_p", "min_p", "repetition_penalty"}) {
    for (const double value : {1e-320, 1e-300, 1e-40, 1e-30}) {
      const TestAnswer answer =
          completion(server.port(), {{"prompt", ids}, {"max_tokens", 8}, {"logit_bias", {{"20", 100}}}, {name, value}});
      EXPECT_EQ(answer.status, 200) << name << " " << value << ": " << answer.body;
    }
  }
}

}  // namespace
}  // namespace boreas
