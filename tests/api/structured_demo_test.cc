// Structured output of a trained model: the bundled demo checkpoint on the CPU executor. Its held-out questions that
// ask for JSON get JSON of the schema, at every temperature; so do questions that ask for something else; and any tool
// can be forced.
#include <gtest/gtest.h>

#include <fstream>

#include "demo_server.h"
#include "test_client.h"
#include "text/grammar/schema_validator_testing.h"

namespace boreas {
namespace {

namespace json = boost::json;

class StructuredDemoTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<std::unique_ptr<LocalServer>> started = start_demo_server();
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = std::move(*started);
  }
  static void TearDownTestSuite() { server_.reset(); }

  // Held-out requests, every `stride`th of those with this member.
  static std::vector<json::object> requests(const std::string& member, size_t stride) {
    std::ifstream file(std::string(BOREAS_SOURCE_DIR) + "/models/demo/held_out.jsonl");
    std::vector<json::object> found;
    size_t seen = 0;
    for (std::string line; std::getline(file, line);) {
      json::object request = json::parse(line).at("request").as_object();
      if (request.contains(member) && seen++ % stride == 0) found.push_back(std::move(request));
    }
    return found;
  }
  static json::value ask(json::object request, double temperature) {
    request["temperature"] = temperature;
    request["seed"] = 1;
    request["max_tokens"] = 500;
    const auto port = static_cast<uint16_t>(std::stoi(server_->target().port));
    const TestAnswer answer =
        boreas::request(port, "POST", "/v1/chat/completions", json::serialize(request),
                        {"Content-Type: application/json", "Authorization: Bearer " + server_->target().api_key});
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  static std::unique_ptr<LocalServer> server_;
};
std::unique_ptr<LocalServer> StructuredDemoTest::server_;

TEST_F(StructuredDemoTest, HeldOutQuestionsForJson) {
  int complete = 0;
  const std::vector<json::object> asked = requests("response_format", 12);
  ASSERT_GT(asked.size(), 5U);
  for (const double temperature : {0.0, 1.5}) {
    for (const json::object& request : asked) {
      const json::value answer = ask(request, temperature);
      if (text_at(answer, "choices.0.finish_reason") != "stop") continue;
      ++complete;
      const Result<json::value> value = parse_json_exact(text_at(answer, "choices.0.message.content"));
      ASSERT_TRUE(value.ok() && value->is_object()) << answer;
      const json::value schema = at(request, "response_format.json_schema.schema");
      EXPECT_TRUE(schema.is_null() || grammar::SchemaValidator(schema).valid(*value)) << answer;
    }
  }
  EXPECT_GE(complete, static_cast<int>(2 * asked.size() - 2));
}

TEST_F(StructuredDemoTest, OtherQuestionsToo) {
  const json::value schema = json::parse(R"({"type":"object","properties":{
      "answer":{"type":"integer","minimum":-999,"maximum":99999},"unit":{"enum":["none","cm","kg"]},
      "note":{"type":"string","maxLength":20}},"required":["answer","unit","note"],"additionalProperties":false})");
  int complete = 0;
  const std::vector<json::object> asked = requests("messages", 150);
  for (json::object request : asked) {
    request.erase("tools");
    request["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "r"}, {"schema", schema}}}};
    const json::value answer = ask(request, 1);
    if (text_at(answer, "choices.0.finish_reason") != "stop") continue;
    ++complete;
    const Result<json::value> value = parse_json_exact(text_at(answer, "choices.0.message.content"));
    EXPECT_TRUE(value.ok() && grammar::SchemaValidator(schema).valid(*value)) << answer;
  }
  EXPECT_GE(complete, static_cast<int>(asked.size() - 2));
}

TEST_F(StructuredDemoTest, ForcedCalls) {
  int complete = 0;
  const std::vector<json::object> asked = requests("tools", 100);
  for (size_t i = 0; i < asked.size(); ++i) {
    json::object request = asked[i];
    request.erase("response_format");
    const json::array tools = request["tools"].as_array();
    const std::string wanted = text_at(tools.back(), "function.name");
    const bool named = i % 2 == 0;
    request["tool_choice"] = "required";
    if (named) request["tool_choice"] = {{"type", "function"}, {"function", {{"name", wanted}}}};
    const json::value answer = ask(request, 0);
    if (text_at(answer, "choices.0.finish_reason") == "length") continue;
    ++complete;
    const json::array calls = array_at(answer, "choices.0.message.tool_calls");
    ASSERT_FALSE(calls.empty()) << answer;
    for (const json::value& call : calls) {
      const std::string name = text_at(call, "function.name");
      EXPECT_TRUE(!named || name == wanted) << answer;
      const auto tool = std::find_if(tools.begin(), tools.end(),
                                     [&](const json::value& each) { return text_at(each, "function.name") == name; });
      ASSERT_NE(tool, tools.end()) << name;
      const Result<json::value> arguments = parse_json_exact(text_at(call, "function.arguments"));
      ASSERT_TRUE(arguments.ok()) << answer;
      EXPECT_TRUE(grammar::SchemaValidator(tool->at("function").at("parameters")).valid(*arguments)) << answer;
    }
  }
  EXPECT_GE(complete, static_cast<int>(asked.size() * 3 / 4));
}

}  // namespace
}  // namespace boreas
