#include "text/grammar/token_trie.h"

#include <gtest/gtest.h>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/regex.h"
#include "text/tokenizer.h"

namespace boreas::grammar {
namespace {

namespace json = boost::json;

std::shared_ptr<const Grammar> grammar_of(Dfa dfa) {
  GrammarBuilder builder;
  const NodeIndex root = builder.terminal(builder.add_terminal(std::move(dfa)), GrammarBuilder::kReturn);
  return std::make_shared<const Grammar>(*std::move(builder).finish(root));
}

TokenMask mask_of(const TokenTrie& trie, Matcher& matcher) {
  TokenMask mask;
  trie.allowed(matcher, mask);
  return mask;
}

// Random vocabularies of few bytes, so that tokens share prefixes, repeat and lie across every border.
TEST(TokenTrieTest, MasksEqualBruteForceOnRandomVocabularies) {
  constexpr uint64_t kSeed = 41;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  const auto schema = *compile_schema(json::object{
      {"type", "array"}, {"items", {{"type", {"string", "integer", "array"}}, {"maxLength", 3}}}, {"maxItems", 3}});
  for (int round = 0; round < 60; ++round) {
    std::vector<std::pair<TokenId, std::string>> tokens;
    const auto vocab_size = static_cast<TokenId>(20 + prng.below(200));
    for (TokenId id = 0; id < vocab_size; ++id) {
      if (prng.below(10) == 0) continue;  // an id without a token
      std::string bytes;
      for (uint32_t i = prng.below(6); i > 0; --i) bytes += "[]\",0a\\n \xc3\xa9"[prng.below(11)];
      tokens.emplace_back(id, bytes);
    }
    const TokenTrie trie(tokens, vocab_size);
    std::string text;
    for (int step = 0; step < 12; ++step) {
      Matcher matcher(schema);
      ASSERT_TRUE(matcher.accept(text));
      const TokenMask mask = mask_of(trie, matcher);
      ASSERT_EQ(mask.bits.size(), static_cast<size_t>(vocab_size + 31) / 32);
      std::vector<std::string> allowed;
      for (const auto& [id, bytes] : tokens) {
        Matcher probe(schema);
        const bool wanted = !bytes.empty() && probe.accept(text) && probe.accept(bytes);
        ASSERT_EQ(mask.allows(id), wanted) << text << " + " << bytes;
        if (wanted) allowed.push_back(bytes);
      }
      if (allowed.empty()) break;
      text += allowed[prng.below(static_cast<uint32_t>(allowed.size()))];
    }
  }
}

TEST(TokenTrieTest, TheEmptyTextIsCompleteAndNothingFollows) {
  WorkBudget budget;
  Matcher matcher(grammar_of(*regex_automaton("^$", Spelling::kUtf8, true, budget)));
  EXPECT_TRUE(matcher.complete());
  EXPECT_TRUE(matcher.ended());
  EXPECT_FALSE(matcher.accept("a"));
}

TEST(TokenTrieTest, AddedTokensAndUnknownIdsAreNeverAllowed) {
  const auto tokenizer = Tokenizer::load(std::string(BOREAS_SOURCE_DIR) + "/models/tiny");
  ASSERT_TRUE(tokenizer.ok());
  const TokenId size = tokenizer->vocab_size();
  const TokenTrie trie(*tokenizer, size + 100);
  const auto anything = *compile_schema(json::object{{"type", "string"}});
  Matcher matcher(anything);
  ASSERT_TRUE(matcher.accept("\""));
  const TokenMask mask = mask_of(trie, matcher);
  int allowed = 0;
  for (TokenId id = 0; id < size + 100; ++id) {
    if (id >= size || tokenizer->is_added(id)) {
      EXPECT_FALSE(mask.allows(id)) << id;
      EXPECT_TRUE(trie.bytes_of(id).empty());
    } else {
      Matcher probe(anything);
      ASSERT_TRUE(probe.accept("\""));
      EXPECT_EQ(mask.allows(id), probe.accept(tokenizer->token_bytes(id))) << id;
      allowed += mask.allows(id);
    }
  }
  EXPECT_GT(allowed, 100);
}

TEST(TokenTrieTest, TheMaskIsNeverEmptyForAGrammarMadeToBeSlow) {
  // Thousands of alternatives side by side, each byte another set: more steps than a walk may take.
  std::string pattern = "(";
  for (int i = 0; i < 300; ++i) pattern += "[ab]{" + std::to_string(i) + "}c|";
  pattern += "[ab]{400}d)";
  WorkBudget budget;
  Result<Dfa> dfa = regex_automaton(pattern, Spelling::kUtf8, false, budget);
  ASSERT_TRUE(dfa.ok()) << dfa.error().message;
  const auto grammar = grammar_of(std::move(*dfa));
  std::vector<std::pair<TokenId, std::string>> tokens;
  Prng prng(42);
  for (TokenId id = 0; id < 3000; ++id) {
    std::string bytes;
    for (uint32_t i = 1 + prng.below(60); i > 0; --i) bytes += "ab"[prng.below(2)];
    tokens.emplace_back(id, bytes);
  }
  tokens.emplace_back(3000, "a");
  const TokenTrie trie(tokens, 3001);
  Matcher matcher(grammar);
  const TokenMask mask = mask_of(trie, matcher);
  EXPECT_TRUE(mask.allows(3000));
}

}  // namespace
}  // namespace boreas::grammar
