// Schemas at random and by enumeration, against a validator that is written apart: whatever a "model" writes under the
// masks is JSON that the schema allows, always comes to an end, and does not depend on how tokens cut it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "text/formats/chat_format.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/schema_validator_testing.h"

namespace boreas::grammar {
namespace {

namespace json = boost::json;

TokenTrie test_trie() {
  const auto tokens = test_tokens();
  return TokenTrie(tokens, static_cast<int32_t>(tokens.size()) + 20);
}

int rounds(int usual) {
  const char* more = std::getenv("BOREAS_GRAMMAR_ROUNDS");
  return more != nullptr ? std::atoi(more) : usual;
}

TEST(SchemaPropertyTest, WhateverIsWrittenUnderTheMasksIsValid) {
  const TokenTrie trie = test_trie();
  int compiled = 0;
  int endless = 0;  // schemas that contain themselves several times: what is written at random grows without end
  const int count = rounds(400);
  for (int round = 0; round < count; ++round) {
    const uint64_t seed = 1000 + static_cast<uint64_t>(round);
    Prng prng(seed);
    const json::value schema = SchemaMaker(prng).document();
    const auto grammar = compile_schema(schema);
    if (!grammar.ok()) {
      const std::string& why = grammar.error().message;
      ASSERT_TRUE(why.find("nothing satisfies") != std::string::npos || why.find("leads back") != std::string::npos)
          << "seed " << seed << ": " << why << "\n"
          << schema;
      continue;
    }
    ++compiled;
    for (int text = 0; text < 6; ++text) {
      const std::string written = write_at_random(*grammar, trie, prng, 5 * text);
      if (written.starts_with("(no end")) {
        ++endless;
        break;
      }
      const Result<json::value> value = parse_json_exact(written, 200);
      ASSERT_TRUE(value.ok()) << "seed " << seed << ": " << written << "\n" << schema;
      ASSERT_TRUE(SchemaValidator(schema).valid(*value)) << "seed " << seed << ": " << written << "\n" << schema;
    }
  }
  EXPECT_GT(compiled, count / 2);
  EXPECT_LE(endless, 1 + count / 200);
}

// Every token's bit is what the grammar says about its bytes, before and after states were remembered or dropped.
TEST(SchemaPropertyTest, MasksEqualBruteForce) {
  const auto tokens = test_tokens();
  const TokenTrie trie = test_trie();
  const int count = rounds(60);
  for (int round = 0; round < count; ++round) {
    const uint64_t seed = 50'000 + static_cast<uint64_t>(round);
    Prng prng(seed);
    const json::value schema = SchemaMaker(prng).document();
    const auto grammar = compile_schema(schema);
    if (!grammar.ok()) continue;
    const std::string text = write_at_random(*grammar, trie, prng, 10);
    Matcher matcher(*grammar);
    for (size_t at = 0; at <= text.size() && at < 60; ++at) {
      TokenMask mask;
      trie.allowed(matcher, mask);
      for (const auto& [id, bytes] : tokens) {
        Matcher probe(*grammar);
        const bool wanted = probe.accept(text.substr(0, at)) && probe.accept(bytes);
        ASSERT_EQ(mask.allows(id), wanted) << "seed " << seed << " token " << id << " behind " << text.substr(0, at);
      }
      for (TokenId id = static_cast<TokenId>(tokens.size()); id < trie.vocab_size(); ++id) {
        ASSERT_FALSE(mask.allows(id));
      }
      ASSERT_TRUE(at == text.size() || matcher.accept(text.substr(at, 1)));
    }
  }
}

TEST(SchemaPropertyTest, CutsDoNotMatter) {
  const TokenTrie trie = test_trie();
  const int count = rounds(100);
  for (int round = 0; round < count; ++round) {
    const uint64_t seed = 90'000 + static_cast<uint64_t>(round);
    Prng prng(seed);
    const json::value schema = SchemaMaker(prng).document();
    const auto grammar = compile_schema(schema);
    if (!grammar.ok()) continue;
    std::string text = write_at_random(*grammar, trie, prng, 20);
    // A random change in half of the cases: then it is (mostly) refused, at the same place for every cut.
    if (prng.below(2) && !text.empty()) text[prng.below(static_cast<uint32_t>(text.size()))] = "x\"},]0"[prng.below(6)];
    const auto refused_at = [&](auto&& next_length) {
      Matcher matcher(*grammar);
      size_t at = 0;
      while (at < text.size()) {
        const size_t length = std::min<size_t>(next_length(), text.size() - at);
        if (!matcher.accept(std::string_view(text).substr(at, length))) {
          for (size_t i = 0; i < length && matcher.accept(text.substr(at, 1)); ++i) ++at;
          return std::pair(at, false);
        }
        at += length;
        if (prng.below(4) == 0) matcher.tidy_up();
      }
      return std::pair(at, matcher.complete());
    };
    const auto whole = refused_at([&] { return text.size(); });
    EXPECT_EQ(refused_at([] { return 1; }), whole) << "seed " << seed << " " << text;
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(refused_at([&] { return 1 + prng.below(6); }), whole) << "seed " << seed << " " << text;
    }
  }
}

// All short texts over a few characters: the grammar holds exactly those that are JSON, satisfy the schema, and are
// spelled as schema_compiler.h says.
TEST(SchemaPropertyTest, ShortTextsEqualBruteForce) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"array","items":{"type":"integer","maximum":1},"maxItems":2})", "[],01-"},
      {R"({"anyOf":[{"type":"array","items":{"type":"array","maxItems":1}},{"type":"integer"}]})", "[],0"},
      {R"({"type":"string","maxLength":2,"pattern":"a"})", "\"ab\\"},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"const":1}})", "{}\"a:1,"},
      {R"({"type":["number","null"],"exclusiveMinimum":-1,"maximum":10})", "-.01"},
      {R"({"enum":["a",[1,1],1,-1.5]})", "\"a[1, ]-.5"},
  };
  for (const auto& [schema_text, alphabet] : cases) {
    const json::value schema = *parse_json_exact(schema_text);
    const auto grammar = *compile_schema(schema);
    const SchemaValidator validator(schema);
    std::vector<std::string> open = {""};
    int accepted = 0;
    for (int length = 0; length < 8; ++length) {
      std::vector<std::string> longer;
      for (const std::string& begin : open) {
        for (const char c : std::string_view(alphabet)) {
          const std::string text = begin + c;
          if (longer.size() < 12'000) longer.push_back(text);
          const Result<json::value> value = parse_json_exact(text);
          const bool taken = accepts(grammar, text);
          const bool wanted = value.ok() && validator.valid(*value);
          accepted += taken;
          if (taken) {
            ASSERT_TRUE(wanted) << schema_text << " accepts " << text;
          }
          // Refused although valid: only another spelling of a number, or space where there may be none.
          const bool spelled = text.find("-0") == std::string::npos && text.find(' ') == std::string::npos &&
                               text.find(",") == std::string::npos;
          if (wanted && spelled) {
            ASSERT_TRUE(taken) << schema_text << " refuses " << text;
          }
        }
      }
      open.swap(longer);
    }
    EXPECT_GT(accepted, 2) << schema_text;
  }
}

}  // namespace
}  // namespace boreas::grammar
