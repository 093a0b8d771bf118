// Schemas that are made to be slow, large or endless: an error or a grammar, after bounded work, and masks that always
// leave a way on.
#include <gtest/gtest.h>

#include "text/formats/chat_format.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/structured_output.h"

namespace boreas::grammar {
namespace {

namespace json = boost::json;

std::string error_of(const json::value& schema) {
  const auto grammar = compile_schema(schema);
  return grammar.ok() ? "" : grammar.error().message;
}

// Some text comes out of it, whatever is picked.
void expect_writable(const json::value& schema) {
  const auto grammar = compile_schema(schema);
  if (!grammar.ok()) return;
  const auto tokens = test_tokens();
  const TokenTrie trie(tokens, static_cast<int32_t>(tokens.size()));
  Prng prng(7);
  const std::string text = write_at_random(*grammar, trie, prng, 0, 3000);
  EXPECT_NE(text.substr(0, 9), "(nothing ") << text.substr(0, 200);
  EXPECT_NE(text.substr(0, 4), "(an ") << text.substr(0, 200);
}

TEST(HostileSchemaTest, Depth) {
  json::value deep = json::object{{"type", "null"}};
  for (int i = 0; i < 100; ++i) deep = json::object{{"items", std::move(deep)}};
  EXPECT_NE(error_of(deep).find("nested more than 64 deep"), std::string::npos);
  json::value fits = json::object{{"type", "null"}};
  for (int i = 0; i < 30; ++i) fits = json::object{{"type", "array"}, {"items", std::move(fits)}, {"minItems", 1}};
  EXPECT_EQ(error_of(fits), "");
  expect_writable(fits);
}

TEST(HostileSchemaTest, ManyValues) {
  json::array values;
  for (int i = 0; i < 40'000; ++i) values.emplace_back(i);
  EXPECT_EQ(error_of(json::object{{"enum", values}}), "");
  for (int i = 0; i < 20'000; ++i) values.emplace_back(i);
  EXPECT_NE(error_of(json::object{{"enum", values}}).find("more than 50000 values"), std::string::npos);
  json::array texts;
  for (int i = 0; i < 2000; ++i) texts.emplace_back(std::to_string(i) + std::string(200, 'x'));
  EXPECT_NE(error_of(json::object{{"enum", texts}}).find("bytes of text"), std::string::npos);
}

TEST(HostileSchemaTest, ManyProperties) {
  json::object properties;
  for (int i = 0; i < 5000; ++i) properties["property_" + std::to_string(i)] = json::object{{"type", "integer"}};
  const json::value schema = json::object{{"properties", properties}};
  EXPECT_EQ(error_of(schema), "");
  expect_writable(schema);
  expect_writable(json::object{{"properties", properties}, {"additionalProperties", true}});
}

TEST(HostileSchemaTest, AlternativesOfAlternatives) {
  json::array ten;
  for (int i = 0; i < 10; ++i) ten.push_back(json::object{{"properties", {{"p" + std::to_string(i), true}}}});
  json::array groups;
  for (int i = 0; i < 12; ++i) groups.push_back(json::object{{"anyOf", ten}});
  EXPECT_NE(error_of(json::object{{"allOf", groups}}).find("too complex"), std::string::npos);
  json::array same(50, json::object{{"type", "array"}, {"items", {{"$ref", "#"}}}});
  const json::value ambiguous = json::object{{"anyOf", same}};
  EXPECT_EQ(error_of(ambiguous), "");
  expect_writable(ambiguous);
  // Every level doubles: a chain of definitions that each name the next one twice.
  json::object definitions;
  for (int i = 0; i < 40; ++i) {
    const json::value next = json::object{{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    definitions["d" + std::to_string(i)] = json::object{{"anyOf", {next, next}}};
  }
  definitions["d40"] = json::object{{"type", "null"}};
  EXPECT_NE(error_of(json::object{{"$ref", "#/$defs/d0"}, {"$defs", definitions}}).find("too complex"),
            std::string::npos);
}

TEST(HostileSchemaTest, References) {
  json::object definitions;
  for (int i = 0; i < 2000; ++i) {
    definitions["d" + std::to_string(i)] = json::object{
        {"type", "object"}, {"properties", {{"n", {{"$ref", "#/$defs/d" + std::to_string((i * 7 + 1) % 2000)}}}}}};
  }
  const json::value schema = json::object{{"$ref", "#/$defs/d0"}, {"$defs", definitions}};
  EXPECT_EQ(error_of(schema), "");
  expect_writable(schema);
  definitions.clear();
  for (int i = 0; i < 1000; ++i) definitions["d" + std::to_string(i)] = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
  definitions["d1000"] = json::object{{"type", "null"}};
  EXPECT_EQ(error_of(json::object{{"$ref", "#/$defs/d0"}, {"$defs", definitions}}), "");
  EXPECT_NE(error_of({{"items", {{"$ref", "#"}}}, {"minItems", 1}, {"type", "array"}}).find("nothing satisfies"),
            std::string::npos);
}

TEST(HostileSchemaTest, Patterns) {
  for (const char* pattern : {"^(a|b)*a(a|b){30}$", "(x+x+)+y", "^(((a{1,50}){1,50}){1,50}){1,50}$", ".*.*.*.*=.*",
                              "^([^,]*,){0,200}[^,]*$", "(a|aa|aaa)*$", "^[\\s\\S]{0,10000}$"}) {
    const json::value schema = json::object{{"type", "string"}, {"pattern", pattern}, {"maxLength", 600}};
    const std::string error = error_of(schema);
    EXPECT_TRUE(error.empty() || error.find("too") != std::string::npos) << pattern << ": " << error;
    expect_writable(schema);
  }
  EXPECT_NE(error_of({{"pattern", "^(a|b)*a(a|b){30}$"}}).find("its automaton is too large"), std::string::npos);
}

TEST(HostileSchemaTest, Counts) {
  const json::value schema = *parse_json_exact(
      R"({"type":"array","minItems":3,"maxItems":9223372036854775807,"items":{"type":"string","maxLength":1e300}})");
  EXPECT_EQ(error_of(schema), "");
  expect_writable(schema);
  expect_writable(*parse_json_exact(R"({"type":"array","minItems":100000,"maxItems":100000,"items":{"type":"null"}})"));
  EXPECT_NE(error_of(*parse_json_exact(R"({"type":"string","minLength":1e20})")).find("nothing satisfies"),
            std::string::npos);
}

// A state is never kept for longer than the walk that needs it: memory stays bounded over a long text.
TEST(HostileSchemaTest, LongTextsNeedBoundedMemory) {
  const auto grammar = *compile_schema(json::object{{"type", "array"}, {"maxItems", 200'000}});
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.accept("[0"));
  for (int i = 0; i < 50'000; ++i) ASSERT_TRUE(matcher.accept(",[]"));
  ASSERT_TRUE(matcher.accept("]"));
  EXPECT_TRUE(matcher.ended());
  EXPECT_FALSE(matcher.accept(","));
}

}  // namespace
}  // namespace boreas::grammar
