#include "text/grammar/regex.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "base/prng.h"
#include "text/grammar/json_grammar.h"

namespace boreas::grammar {
namespace {

Result<Dfa> build(std::string_view pattern, bool search = false, Spelling spelling = Spelling::kUtf8) {
  WorkBudget budget;
  return regex_automaton(pattern, spelling, search, budget);
}

// All texts of up to `length` of these characters.
std::vector<std::string> texts_over(std::string_view alphabet, size_t length) {
  std::vector<std::string> texts = {""};
  for (size_t first = 0, i = 0; i < length; ++i) {
    const size_t end = texts.size();
    for (size_t at = first; at < end; ++at) {
      for (const char c : alphabet) texts.push_back(texts[at] + c);
    }
    first = end;
  }
  return texts;
}

void expect_like_std(const std::string& pattern, const std::vector<std::string>& texts) {
  const std::regex oracle(pattern, std::regex::ECMAScript);
  for (const bool search : {false, true}) {
    const Result<Dfa> dfa = build(pattern, search);
    bool any = false;
    for (const std::string& text : texts) {
      const bool wanted = search ? std::regex_search(text, oracle) : std::regex_match(text, oracle);
      any = any || wanted;
      if (dfa.ok()) {
        ASSERT_EQ(dfa->accepts(text), wanted) << pattern << " on '" << text << "', search " << search;
      }
    }
    if (any) {
      ASSERT_TRUE(dfa.ok()) << pattern << ": " << dfa.error().message;
    }
  }
}

TEST(RegexTest, AgreesWithTheStandardLibrary) {
  const std::vector<std::string> texts = texts_over("ab1-", 5);
  for (const char* pattern : {"a",         "",       "a|b",    "(a|b)*1",      "[ab]+-?1",
                              "[^a]",      "a{2}",   "a{2,}",  "a{1,3}b?",     "(ab){0,2}",
                              "^a",        "a$",     "^a$",    "^$",           "^a|b$",
                              "(?:a|b)+?", "\\d+",   "\\w",    "\\W",          "[\\d-]+",
                              "[a-b1]{2}", "a.b",    ".*",     "(a(b(1)?)?)?", "^(a|ab)(b|1)$",
                              "a\\-b",     "[\\-a]", "(a*)*b", "(|a)b",        "a||b",
                              "x|y",       "[-a]",   "[a-]",   "a{,2}",        "a{b"}) {
    if (std::string_view(pattern) == "a{,2}" || std::string_view(pattern) == "a{b")
      continue;  // text here, errors there
    expect_like_std(pattern, texts);
  }
}

class PatternMaker {
 public:
  explicit PatternMaker(uint64_t seed) : prng_(seed) {}
  std::string make(int depth) {
    std::string out;
    for (uint32_t i = 1 + prng_.below(3); i > 0; --i) {
      out += atom(depth);
      constexpr const char* kQuantifiers[] = {"*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "", "", "", "", ""};
      out += kQuantifiers[prng_.below(std::size(kQuantifiers))];
    }
    if (prng_.below(4) == 0) out += "|" + make(depth - 1);
    return out;
  }
  uint32_t below(uint32_t bound) { return prng_.below(bound); }

 private:
  std::string atom(int depth) {
    if (depth > 0 && prng_.below(3) == 0) return (prng_.below(2) ? "(" : "(?:") + make(depth - 1) + ")";
    constexpr const char* kAtoms[] = {"a", "b", "1", "-", ".", "[ab]", "[^b]", "\\d", "\\w", "[a1-]", "\\D", "[^\\d]"};
    return kAtoms[prng_.below(std::size(kAtoms))];
  }
  Prng prng_;
};

TEST(RegexTest, RandomPatternsAgreeWithTheStandardLibrary) {
  constexpr uint64_t kSeed = 21;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  PatternMaker maker(kSeed);
  const std::vector<std::string> texts = texts_over("ab1-", 3);
  for (int i = 0; i < 80; ++i) {
    std::string pattern = maker.make(1);
    const bool plain = pattern.find('|') == std::string::npos;
    if (plain && maker.below(4) == 0) pattern = "^" + pattern;
    if (plain && maker.below(4) == 0) pattern += "$";
    expect_like_std(pattern, texts);
  }
}

TEST(RegexTest, CharactersBeyondAscii) {
  EXPECT_TRUE(build("h\u00e9")->accepts("h\u00e9"));
  EXPECT_TRUE(build("h\\u00e9")->accepts("h\u00e9"));
  EXPECT_TRUE(build("\\u{1F600}|\\ud83d\\ude01")->accepts("\U0001F600"));
  EXPECT_TRUE(build("\\u{1F600}|\\ud83d\\ude01")->accepts("\U0001F601"));
  EXPECT_TRUE(build("[\u00e0-\u00ff]{2}")->accepts("\u00e9\u00ea"));
  EXPECT_FALSE(build("[\u00e0-\u00ff]{2}")->accepts("\u00e9"));
  EXPECT_TRUE(build(".")->accepts("\U0010FFFF"));
  EXPECT_FALSE(build(".")->accepts("\n"));
  EXPECT_TRUE(build("\\x41\\t\\cA\\0")->accepts(std::string_view("A\t\x01\0", 4)));
  EXPECT_TRUE(build("\\s")->accepts("\u3000"));
  EXPECT_FALSE(build("\\S")->accepts("\u3000"));
  EXPECT_TRUE(build("(?<year>\\d{4})-(?P<month>\\d\\d)")->accepts("2026-11"));
}

TEST(RegexTest, InJsonEveryCharacterHasOneSpelling) {
  const Result<Dfa> any = build("[^]*", false, Spelling::kJsonString);
  ASSERT_TRUE(any.ok());
  std::string all;
  for (uint32_t c = 0; c < 0x80; ++c) all += static_cast<char>(c);
  all += "\u00e9\u20ac\U0001F600";
  const std::string quoted = JsonGrammar::quoted(all);
  EXPECT_TRUE(any->accepts(quoted.substr(1, quoted.size() - 2)));
  EXPECT_FALSE(any->accepts("\\/"));
  EXPECT_FALSE(any->accepts("\\u0041"));
  EXPECT_FALSE(any->accepts("\""));
  EXPECT_FALSE(any->accepts("\\"));
  EXPECT_FALSE(any->accepts("\n"));
  EXPECT_TRUE(build("\\u001f", false, Spelling::kJsonString)->accepts("\\u001F"));
  EXPECT_TRUE(build("a\"\\\\b", false, Spelling::kJsonString)->accepts("a\\\"\\\\b"));
}

TEST(RegexTest, ErrorsSayWhat) {
  const std::pair<std::string, std::string> cases[] = {
      {"(a", "a group does not end"},
      {"a)", "unbalanced )"},
      {"[a", "a class does not end"},
      {"a\\", "ends with a backslash"},
      {"*a", "nothing to repeat"},
      {"a**", "a quantifier follows"},
      {"a{3,2}", "out of order"},
      {"[b-a]", "out of order"},
      {"(a)\\1", "'1' is not supported"},
      {"(?=a)", "look-around"},
      {"(?<!a)b", "look-around"},
      {"(?i)a", "flags"},
      {"\\bword\\b", "word boundaries"},
      {"\\p{L}", "'p' is not supported"},
      {"a^b", "at the beginning and the end only"},
      {"(a$)b", "at the beginning and the end only"},
      {"[[:alpha:]]", "POSIX"},
      {"a{20000}", "repetitions"},
      {"\\u12", "hexadecimal"},
      {"\\ud800\\u0041", "surrogate"},
      {"[]", "no text matches"},
      {"\xff", "UTF-8"},
      {std::string(kRegexBytesMax + 1, 'a'), "longer than"},
      {std::string(100, '(') + std::string(100, ')'), "nested more than"},
  };
  for (const auto& [pattern, wanted] : cases) {
    const Result<Dfa> dfa = build(pattern);
    ASSERT_FALSE(dfa.ok()) << pattern;
    EXPECT_NE(dfa.error().message.find(wanted), std::string::npos) << pattern << ": " << dfa.error().message;
  }
}

TEST(RegexTest, WhatWouldBeTooLargeIsRefused) {
  for (const char* pattern :
       {"(a|b)*a(a|b){40}", "((a{100}){100}){100}", "(((.{1,100}){1,100}){1,100}){1,100}", "(.{0,9999}x){0,9999}",
        "((((((((((a*)*)*)*)*)*)*)*)*){9000}){9000}", "(x+x+)+y{5000}(x|xx){9000}"}) {
    const Result<Dfa> dfa = build(pattern);
    if (!dfa.ok()) {
      EXPECT_EQ(dfa.error().message, "its automaton is too large") << pattern;
    }
  }
  EXPECT_FALSE(build("(a|b)*a(a|b){40}").ok());
  EXPECT_TRUE(build("(x+x+)+y").ok());
  EXPECT_TRUE(build("[a-z]{1,1000}").ok());
}

}  // namespace
}  // namespace boreas::grammar
