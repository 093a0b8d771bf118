// The curl lines that `boreas serve` prints: a shell hands their bodies on unharmed, whatever the model is called, and
// the bundled model answers them sensibly.
#include "apps/example_requests.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "demo_server.h"
#include "test_client.h"

namespace boreas {
namespace {

namespace json = boost::json;

// The arguments that a shell gives to curl, a line each.
std::string arguments_of(const std::string& line) {
  FILE* shell = ::popen(("sh <<'END'\ncurl() { printf '%s\\n' \"$@\"; }\n" + line + "\nEND\n").c_str(), "r");
  if (!shell) return {};
  std::string out;
  for (int c = std::fgetc(shell); c != EOF; c = std::fgetc(shell)) out.push_back(static_cast<char>(c));
  EXPECT_EQ(::pclose(shell), 0);
  return out;
}

TEST(ExampleRequests, ShellHandsThemOnAsTheyAre) {
  for (const char* model : {"demo", "it's a $(model) \\ \"of\" `mine`"}) {
    for (const json::object& body : {example_chat(model), example_tool_call(model)}) {
      EXPECT_EQ(arguments_of(curl_line("http://[::1]:8000", true, body)),
                "http://[::1]:8000/v1/chat/completions\n-H\nAuthorization: Bearer YOUR_KEY\n-H\n"
                "Content-Type: application/json\n-d\n" +
                    json::serialize(body) + "\n");
    }
  }
  EXPECT_EQ(curl_line("http://a:1", false, {}).find("Bearer"), std::string::npos);
}

TEST(ExampleRequests, BundledModelAnswersThem) {
  const auto server = start_demo_server();
  ASSERT_TRUE(server.ok()) << server.error().message;
  const HttpTarget target = (*server)->target();
  const auto ask = [&](json::object body) {
    body["model"] = "evaluated";  // its name there
    body["temperature"] = 0;
    const TestAnswer answer =
        request(static_cast<uint16_t>(std::stoi(target.port)), "POST", "/v1/chat/completions", json::serialize(body),
                {"Content-Type: application/json", "Authorization: Bearer " + target.api_key});
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  };
  const json::value chat = ask(example_chat("demo"));
  EXPECT_EQ(text_at(chat, "choices.0.finish_reason"), "stop") << chat;
  EXPECT_NE(text_at(chat, "choices.0.message.content"), "") << chat;
  const json::value call = ask(example_tool_call("demo"));
  EXPECT_EQ(text_at(call, "choices.0.finish_reason"), "tool_calls") << call;
  EXPECT_EQ(text_at(call, "choices.0.message.tool_calls.0.function.name"), "get_weather") << call;
  EXPECT_EQ(text_at(call, "choices.0.message.tool_calls.0.function.arguments"), R"({"city": "Oslo"})") << call;
}

}  // namespace
}  // namespace boreas
