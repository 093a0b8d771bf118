// Which texts a schema's grammar holds, said by hand.
#include "text/grammar/schema_compiler.h"

#include <gtest/gtest.h>

#include "text/formats/chat_format.h"
#include "text/grammar/grammar_testing.h"

namespace boreas::grammar {
namespace {

namespace json = boost::json;

struct Case {
  const char* schema;
  std::vector<const char*> good;
  std::vector<const char*> bad;
};

void expect(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    const auto grammar = compile_schema(*parse_json_exact(each.schema));
    ASSERT_TRUE(grammar.ok()) << each.schema << ": " << grammar.error().message;
    for (const char* text : each.good) EXPECT_TRUE(accepts(*grammar, text)) << each.schema << " refuses " << text;
    for (const char* text : each.bad) EXPECT_FALSE(accepts(*grammar, text)) << each.schema << " accepts " << text;
  }
}

TEST(SchemaCompilerTest, Scalars) {
  expect({
      {R"({"type":"null"})", {"null"}, {"nul", "", "0"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"True", "null"}},
      {R"({"type":["integer","null"]})", {"1", "-5", "null"}, {"1.5", "\"1\""}},
      {R"({"type":"number"})", {"1", "-1.5", "2e5"}, {"01", "NaN"}},
      {R"({"type":"integer","minimum":1,"exclusiveMaximum":11})", {"1", "10"}, {"0", "11", "-1"}},
      {R"({"minimum":0,"exclusiveMinimum":true})", {"0.5", "3"}, {"0", "-1", "\"a\""}},
      {R"({"type":"number","multipleOf":1})", {"5"}, {"5.5"}},
      {R"({"type":"string"})",
       {R"("")", R"("a\u00e9\n\"é😀\ud83d\ude00")"},
       {R"("\x")", R"("\ud83d")", R"("\ude00")", "\"\n\""}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("é\n😀")", R"("\ud83d\ude00a")"},
       {R"("a")", R"("abcd")"}},
      {R"({"maxLength":0})", {R"("")"}, {R"("a")", "1"}},
      {R"({"enum":["a","b c",1,null,2.5,{"x":[1,2]}]})",
       {R"("a")", R"("b c")", "1", "null", "2.5", R"({"x": [1, 2]})"},
       {R"("b")", "2"}},
      {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
      {R"({"enum":["a","ab","abc"],"maxLength":2,"pattern":"b"})", {R"("ab")"}, {R"("a")", R"("abc")"}},
      {R"({"enum":[1,2,3,4],"minimum":2,"exclusiveMaximum":4})", {"2", "3"}, {"1", "4"}},
      {R"({"const":"\u00e9\""})", {R"("é\"")"}, {R"("é")"}},
      {R"({"type":"string","nullable":true})", {R"("a")", "null"}, {"1"}},
      {R"(true)", {"1", "[]", R"({"a": [{}]})"}, {""}},
      {R"({"minLength":99999999999999999999999,"type":["string","null"]})", {"null"}, {R"("a")"}},
  });
}

TEST(SchemaCompilerTest, PatternsAndFormats) {
  expect({
      {R"({"type":"string","pattern":"^[A-Z]{2}\\d+$"})", {R"("AB12")"}, {R"("AB")", R"("xAB12")"}},
      {R"({"type":"string","pattern":"b+"})", {R"("abbc")", R"("b")"}, {R"("ac")"}},
      {R"({"pattern":"^[^x]*$"})", {R"("a\"\\\n")"}, {R"("x")"}},
      {R"({"pattern":"^(ab)*$","minLength":3,"maxLength":5})", {R"("abab")"}, {R"("ab")", R"("ababab")", R"("aba")"}},
      {R"({"pattern":"^\"é+$","minLength":4})", {R"("\"ééé")"}, {R"("\"éé")"}},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", {R"("ab")", R"("b-a")"}, {R"("aa")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-29")", R"("2023-12-31")"},
       {R"("2023-02-29")", R"("2023-13-01")", R"("2023-04-31")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-01-31T23:59:59.5Z")", R"("2024-01-31T00:00:00+01:00")"},
       {R"("2024-01-31")"}},
      {R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}},
      {R"({"type":"string","format":"ipv4"})", {R"("127.0.0.1")"}, {R"("256.0.0.1")"}},
      {R"({"type":"string","format":"ipv6"})",
       {R"("::1")", R"("fe80::1:2")", R"("1:2:3:4:5:6:7:8")", R"("::")"},
       {R"("1:2")", R"(":::")"}},
      {R"({"type":"string","format":"email"})", {R"("a.b@example.org")"}, {R"("a@")", R"("@b")"}},
      {R"({"type":"string","format":"hostname","maxLength":5})", {R"("a.b-c")"}, {R"("a.b-cd")", R"("-a")"}},
      {R"({"type":"string","format":"uri"})", {R"("https://a.b/c?d=%20")"}, {R"("a")"}},
      {R"({"type":"string","format":"phone"})", {R"("anything")"}, {"1"}},
  });
}

TEST(SchemaCompilerTest, Arrays) {
  expect({
      {R"({"type":"array"})", {"[]", R"([1, "a", [[]]])"}, {"[1,]", "[,1]", "{}"}},
      {R"({"items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1,2,3]", "[\n  1,\n  2\n]"},
       {"[]", "[1,2,3,4]", "[\"a\"]"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2})", {"[1,2]", "[1, 2, 3, 4, 5]"}, {"[1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {"[]", "[1]", R"([1,"a"])"},
       {R"(["a"])", R"([1,"a",2])"}},
      {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":2,"maxItems":3})",
       {"[1,null]", "[1,null,null]"},
       {"[1]", "[1,null,null,null]"}},
      {R"({"items":[{"type":"integer"}],"additionalItems":false})", {"[1]", "[]"}, {"[1,2]"}},
      {R"({"items":false})", {"[]"}, {"[1]"}},
      {R"({"type":"array","maxItems":9223372036854775808})", {"[1,2]"}, {}},
      {R"({"items":{"items":{"type":"integer"},"maxItems":1},"maxItems":2})", {"[[1],[]]"}, {"[[1,2]]", "[[],[],[]]"}},
      {R"({"type":"array","uniqueItems":false,"maxItems":0})", {"[]"}, {"[1]"}},
  });
}

TEST(SchemaCompilerTest, Objects) {
  expect({
      {R"({"type":"object"})",
       {"{}", R"({"a": 1, "b": {"c": []}})", "{\n  \"a\": 1\n}"},
       {"[]", R"({"a"})", R"({"a":1,})"}},
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]})",
       {R"({"a":1})", R"({"a": 1, "b": ""})"},
       {"{}", R"({"b":""})", R"({"a":1,"c":2})", R"({"a":1,"b":2})"}},
      {R"({"properties":{"a":true,"b":true,"c":true}})",
       {"{}", R"({"b":1})", R"({"a":1,"c":2})", R"({"c":1})"},
       {R"({"b":1,"a":1})", R"({,"a":1})"}},
      {R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
       {R"({"a":1,"b":"x","c":"y"})", R"({"b":"x"})", R"({"aa":"x"})"},
       {R"({"a":"x"})", R"({"b":1})", R"({"\u0061":"x"})"}},
      {R"({"properties":{"a":{"type":"integer"}},"additionalProperties":true})",
       {R"({"a":1,"b":[1]})"},
       {R"({"a":"x"})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"}})", {"{}", R"({"x":1,"y":2})"}, {R"({"x":"1"})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","properties":{}})", {"{}", "{ }"}, {R"({"a":1})"}},
      {R"({"required":["z"],"properties":{"a":{"type":"null"}}})",
       {R"({"a":null,"z":[1]})", R"({"z":1})"},
       {R"({"a":null})"}},
      {R"({"properties":{"a":false,"b":{"type":"null"}}})", {"{}", R"({"b":null})"}, {R"({"a":1})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^x"},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"x1":1})"},
       {R"({"a":1})"}},
      {R"({"type":"object","propertyNames":{"enum":["k","l"]}})", {R"({"k":1,"l":2})"}, {R"({"m":1})"}},
      {R"({"properties":{"é\"":{"type":"null"}}})", {R"({"é\"":null})"}, {}},
      {R"({"properties":{"a":{"type":"null"}},"unevaluatedProperties":false,"minProperties":0})",
       {"{}"},
       {R"({"b":1})"}},
  });
}

TEST(SchemaCompilerTest, Combinations) {
  expect({
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"12", R"("a")"}, {R"("ab")", "null"}},
      {R"({"type":"integer","oneOf":[{"minimum":5},{"maximum":-5}]})", {"5", "-5"}, {"0"}},
      {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"null"}}}]})",
       {R"({"a":1})", R"({"a":1,"b":null})"},
       {"{}", R"({"b":null})"}},
      {R"({"properties":{"a":{"minimum":3}},"allOf":[{"properties":{"a":{"type":"integer"}}}],"required":["a"]})",
       {R"({"a":3})"},
       {R"({"a":2})", R"({"a":3.5})"}},
      {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"additionalProperties":false},{"properties":{"b":{"type":"null"}}}]})",
       {"{}", R"({"a":1})"},
       {R"({"b":null})"}},
      {R"({"anyOf":[{"properties":{"k":{"const":"x"},"v":{"type":"integer"}},"required":["k","v"]},{"properties":{"k":{"const":"y"},"v":{"type":"string"}},"required":["k","v"]}]})",
       {R"({"k":"x","v":1})", R"({"k":"y","v":"1"})"},
       {R"({"k":"x","v":"1"})", R"({"k":"z","v":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["b"]}]})",
       {R"({"a":1})", R"({"b":null})", R"({"a":1,"b":null})"},
       {"{}"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"integer"}],"oneOf":[{"minimum":1},{"maximum":-1}]})",
       {"1", "-1"},
       {"0"}},
      {R"({"anyOf":[false,{"type":"null"}]})", {"null"}, {"1"}},
  });
}

TEST(SchemaCompilerTest, References) {
  expect({
      {R"({"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"properties":{"next":{"$ref":"#"},"v":{"type":"integer"}},"required":["v"]})",
       {R"({"v":1})", R"({"next":{"next":{"v":1},"v":2},"v":3})"},
       {R"({"next":{},"v":1})"}},
      {R"({"$defs":{"list":{"type":"array","items":{"$ref":"#/$defs/list"}}},"$ref":"#/$defs/list"})",
       {"[]", "[[],[[]]]"},
       {"[1]"}},
      {R"({"$defs":{"e":{"anyOf":[{"$ref":"#/$defs/e"},{"type":"null"}]}},"$ref":"#/$defs/e"})", {"null"}, {"1"}},
      {R"({"$defs":{"a":{"anyOf":[{"type":"integer"},{"items":{"$ref":"#/$defs/b"}}]},"b":{"anyOf":[{"type":"null"},{"items":{"$ref":"#/$defs/a"}}]}},"$ref":"#/$defs/a"})",
       {"1", "[null]", "[[1,[null]]]"},
       {"null", "[1]"}},
      {R"({"definitions":{"n":{"type":"integer"}},"properties":{"x":{"$ref":"#/definitions/n","minimum":5}},"required":["x"]})",
       {R"({"x":5})"},
       {R"({"x":4})"}},
      {R"({"prefixItems":[{"type":"null"},{"$ref":"#/prefixItems/0"}]})", {"[null,null]"}, {"[null,1]"}},
  });
}

TEST(SchemaCompilerTest, WhiteSpaceIsBounded) {
  expect({{R"({"type":"array","items":{"type":"null"}})",
           {"[]", "[ ]", "[ null, null ]", "[\n    null,\n    null\n]", "[\n\t\tnull\n]"},
           {"[  null]", "[\n\nnull]", " []", "[] ", "[null , null]"}}});
  const auto grammar = *compile_schema(json::object{{"type", "array"}});
  EXPECT_TRUE(accepts(grammar, "[\n" + std::string(64, ' ') + "1]"));
  EXPECT_FALSE(accepts(grammar, "[\n" + std::string(65, ' ') + "1]"));
}

TEST(SchemaCompilerTest, ErrorsNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties":{"a/b":{"not":{}}}})",
       "at '#/properties/a~1b/not': 'not' is not supported; supported are type"},
      {R"({"items":[{"if":true}]})", "at '#/items/0/if': 'if' is not supported"},
      {R"({"type":"array","uniqueItems":true})", "at '#/uniqueItems'"},
      {R"({"type":"object","patternProperties":{"a":{}}})", "at '#/patternProperties'"},
      {R"({"type":"number","multipleOf":0.5})", "at '#/multipleOf'"},
      {R"({"type":"float"})", "at '#/type': must be null, boolean"},
      {R"({"type":3})", "at '#/type'"},
      {R"({"enum":[]})", "at '#/enum'"},
      {R"({"anyOf":{}})", "at '#/anyOf'"},
      {R"({"allOf":[1]})", "at '#/allOf/0': a schema must be an object"},
      {R"({"required":"a","type":"object"})", "at '#/required'"},
      {R"({"properties":[],"type":"object"})", "at '#/properties'"},
      {R"({"minLength":-1})", "at '#/minLength'"},
      {R"({"minItems":1.5})", "at '#/minItems'"},
      {R"({"minimum":"1"})", "at '#/minimum'"},
      {R"({"pattern":"("})",
       "at '#/pattern': the regular expression is not supported: at character 2: a group does not end"},
      {R"({"$ref":"http://x/y"})", "at '#/$ref': only references within the schema"},
      {R"({"$ref":"#/$defs/x"})", "at '#/$ref': the reference leads nowhere"},
      {R"({"$ref":"#"})", "the reference leads back to itself"},
      {R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"})",
       "leads back to itself"},
      {R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})",
       "nothing satisfies it that is nested less than 64 deep"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "nothing satisfies it"},
      {R"({"type":"string","enum":[1]})", "nothing satisfies it"},
      {R"(false)", "nothing satisfies it"},
      {R"(3)", "a schema must be an object"},
      {R"({"type":"object","propertyNames":{"anyOf":[{}]}})", "at '#/propertyNames'"},
  };
  for (const auto& [schema, wanted] : cases) {
    const auto grammar = compile_schema(*parse_json_exact(schema));
    ASSERT_FALSE(grammar.ok()) << schema;
    EXPECT_NE(grammar.error().message.find(wanted), std::string::npos) << schema << ": " << grammar.error().message;
  }
}

TEST(SchemaCompilerTest, WhatIsNotSupportedCanBeLeftOut) {
  const json::value schema =
      *parse_json_exact(R"({"type":"array","uniqueItems":true,"items":{"not":{},"type":"null"}})");
  GrammarBuilder builder;
  JsonGrammar parts(builder);
  SchemaCompiler compiler(parts, {true});
  ASSERT_TRUE(compiler.compile(schema, GrammarBuilder::kReturn).ok());
  EXPECT_EQ(compiler.ignored(), (std::vector<std::string>{"#/uniqueItems", "#/items/not"}));
}

}  // namespace
}  // namespace boreas::grammar
