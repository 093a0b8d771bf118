// Splits: golden ones of the pattern pair that North is expected to have (checked with Hugging Face's library), the
// hand-written digit scanner against the regex it replaces, limits, and what the loader refuses.
#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/prng.h"
#include "text/unicode.h"

namespace boreas {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

json::object split_of(std::string_view regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json::object byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

json::object sequence(json::array stages) { return {{"type", "Sequence"}, {"pretokenizers", std::move(stages)}}; }

PreTokenizer north() {
  return PreTokenizer::from_json(sequence({split_of(kDigitGroupPattern), split_of(kWordPattern), byte_level(false)}))
      .value();
}

std::string joined(const PreTokenizer& pre_tokenizer, std::string_view text) {
  std::string out;
  const auto pieces = pre_tokenizer.split(text).value();
  for (const std::string_view piece : pieces) {
    if (!out.empty()) out += "|";
    out += piece;
  }
  return out;
}

TEST(PreTokenizer, GoldenSplits) {
  const PreTokenizer pre_tokenizer = north();
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"1234567", "1|234|567"},
      {"abc1234 x", "abc|1|234| x"},
      {"1234abc", "123|4|abc"},
      {"3333_x", "333|3|_x"},
      {" 123", " |123"},
      {"x = 12345;", "x| =| |12|345|;"},
      {"1,234,567.89", "1|,|234|,|567|.|89"},
      {"v1.2345\n\n  foo", "v|1|.|2|345|\n\n| | foo"},
      {"HTMLParser don't", "HTMLParser| don't"},
      {"\u00BD1\u00B2", "\u00BD1\u00B2"},
      {"12\u2153", "12|\u2153"},
      {"0xFF12", "0|x|FF|12"},
      {"i32 1000000u64", "i|32| |100|000|0|u|64"},
      {"a  b   ", "a| | b|   "},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(joined(pre_tokenizer, text), wanted);
}

TEST(PreTokenizer, DigitsAndByteLevel) {
  const auto one_by_one = PreTokenizer::from_json(
      sequence({json::object{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}));
  EXPECT_EQ(joined(*one_by_one, "ab 12\u00BD, it's  x"), "ab| |1|2|\u00BD|,| it|'s| | x");
  const auto runs = PreTokenizer::from_json(
      sequence({json::object{{"type", "Digits"}, {"individual_digits", false}}, byte_level(false)}));
  EXPECT_EQ(joined(*runs, "ab 12\u00BD, x3"), "ab |12\u00BD|, x|3");
}

TEST(PreTokenizer, DigitScannerEqualsItsRegex) {
  const auto regex = SplitRegex::compile(kDigitGroupPattern);
  ASSERT_TRUE(regex.ok()) << regex.error().message;
  const std::vector<std::string> parts = {"1",      "23",     "456",    "7890123", "\u0661",     "\uFF11", "a",
                                          "_",      " ",      ".",      "\u0301",  "\u00BD",     "\u2153", "\u5B57",
                                          "\u200D", "\u24B6", "\u203F", "\n",      "\U0001D7CE", "\u2460"};
  const uint64_t seed = 41;
  Prng prng(seed);
  RegexScratch scratch;
  for (int round = 0; round < 50000; ++round) {
    std::string text;
    for (uint32_t left = 1 + prng.below(8); left > 0; --left)
      text += parts[prng.below(static_cast<uint32_t>(parts.size()))];
    std::vector<std::string_view> wanted;
    ASSERT_TRUE(regex->split(text, scratch, wanted).ok());
    std::vector<std::string_view> found;
    split_digit_groups(text, found);
    ASSERT_EQ(found, wanted) << "seed " << seed << ": " << text;
  }
}

// A megabyte of what makes backtracking engines quadratic, for every pattern that runs without a limit.
TEST(PreTokenizer, LinearOnAMegabyteOfAnything) {
  constexpr size_t kBytes = 1 << 20;
  const auto repeated = [](std::string_view unit) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    return text;
  };
  const auto qwen = PreTokenizer::from_json(
      sequence({split_of(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                         R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"),
                byte_level(false)}));
  const PreTokenizer pre_tokenizers[] = {north(), PreTokenizer::from_json(byte_level(true)).value(), qwen.value()};
  for (const std::string unit : {"1",
                                 "12345678",
                                 " ",
                                 "\n",
                                 "\r\n",
                                 "a",
                                 "A",
                                 "aA",
                                 "\u0301",
                                 "\u5B57",
                                 "!",
                                 "_",
                                 "'",
                                 "'s",
                                 "'l",
                                 " \n",
                                 "\t",
                                 "\u00BD",
                                 "\u0661",
                                 "1a",
                                 "/",
                                 "<",
                                 "\U0001F469\u200D",
                                 " !",
                                 "! ",
                                 "\u01C5"}) {
    for (const std::string tail : {"", "_"}) {
      const std::string text = repeated(unit) + tail;
      for (const PreTokenizer& pre_tokenizer : pre_tokenizers) {
        const auto pieces = pre_tokenizer.split(text);
        ASSERT_TRUE(pieces.ok()) << unit << ": " << pieces.error().message;
        size_t bytes = 0;
        for (const std::string_view piece : *pieces) bytes += piece.size();
        ASSERT_EQ(bytes, text.size());
      }
    }
  }
}

TEST(PreTokenizer, UnknownPatternsAreBounded) {
  const auto quadratic = PreTokenizer::from_json(sequence({split_of(R"(\d{1,4}(?=(?:\d{4})*\b))"), byte_level(false)}));
  ASSERT_TRUE(quadratic.ok()) << quadratic.error().message;
  EXPECT_EQ(joined(*quadratic, "12345678901"), "123|4567|8901");
  EXPECT_TRUE(quadratic->split(std::string(kDigitRunMax, '7')).ok());
  const auto refused = quadratic->split(std::string(kDigitRunMax + 1, '7'));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("digits in a row"));
  // Exponential: PCRE2's limit ends it, and the caller hears of it.
  const auto exponential = PreTokenizer::from_json(sequence({split_of(R"((?:a+)+[bc])"), byte_level(false)}));
  const auto too_hard = exponential->split(std::string(60, 'a') + "d");
  ASSERT_FALSE(too_hard.ok());
  EXPECT_THAT(too_hard.error().message, HasSubstr("too hard"));
}

TEST(PreTokenizer, TranslatesTheDifferences) {
  EXPECT_EQ(translate_pattern(R"(\d+[\s\d])").value(), R"(\p{Nd}+[\t-\r\x20\x{85}\p{Z}\p{Nd}])");
  EXPECT_EQ(translate_pattern(R"((a|b)\S)").value(), R"((?:a|b)[^\t-\r\x20\x{85}\p{Z}])");
  EXPECT_EQ(translate_pattern(R"([^\r\n\p{L}]?\P{^Lu}++a{2,3}?\.)").value(), R"([^\r\n\p{L}]?\P{^Lu}++a{2,3}?\.)");
}

TEST(PreTokenizer, RefusesRegexConstructsByName) {
  const std::pair<std::string, std::string> cases[] = {
      {"a.b", "'.'"},
      {"^a", "'^'"},
      {"a$", "'$'"},
      {"(?<=a)b", "(?<="},
      {"(?<n>a)", "(?<n"},
      {R"((a)\1)", R"(\1)"},
      {R"(\Ga)", R"(\G)"},
      {"[a[b]]", "'[b'"},
      {"[a&&b]", "'&&'"},
      {"[[:alpha:]]", "'[:'"},
      {R"(\p{Han})", "Han"},
      {"a{2}+", "'{2}+'"},
      {"a{,2}", "'{,2}'"},
      {"[abc", "closed"},
      {R"([\S])", R"(\S)"},
      {"(?>a)", "(?>a"},
      {"(*UTF)a", "(*UT"},
      {R"(a\)", R"('\')"},
      {"(a", "regex:"},
      {"a*", "empty string"},
      {"", "empty string"},
      {"a{", "'{'"},
      {"[]", "empty character class"},
      {std::string(5000, 'a'), "at most"},
  };
  for (const auto& [pattern, part] : cases) {
    const auto loaded = PreTokenizer::from_json(sequence({split_of(pattern), byte_level(false)}));
    ASSERT_FALSE(loaded.ok()) << pattern;
    EXPECT_THAT(loaded.error().message, HasSubstr(part)) << pattern;
    EXPECT_THAT(loaded.error().message, HasSubstr("pre_tokenizer.pretokenizers.0.pattern"));
  }
}

TEST(PreTokenizer, RefusesOtherPreTokenizersByName) {
  json::object removed = split_of("a");
  removed["behavior"] = "Removed";
  json::object inverted = split_of("a");
  inverted["invert"] = true;
  json::object plain = split_of("a");
  plain["pattern"] = {{"String", " "}};
  json::object prefixed = byte_level(true);
  prefixed["add_prefix_space"] = true;
  json::object nested = byte_level(false);
  for (int i = 0; i < 10; ++i) nested = sequence({nested});
  const std::pair<json::value, std::string> cases[] = {
      {nullptr, "an object is expected"},
      {json::array{}, "an object is expected"},
      {json::object{}, "pre_tokenizer.type"},
      {json::object{{"type", 3}}, "a string is expected"},
      {json::object{{"type", "Metaspace"}}, "'Metaspace'"},
      {json::object{{"type", "Sequence"}}, "pretokenizers"},
      {sequence({}), "ByteLevel is missing"},
      {split_of("a"), "ByteLevel is missing"},
      {sequence({byte_level(true), split_of("a")}), "nothing may follow"},
      {sequence({removed, byte_level(false)}), "'Removed'"},
      {sequence({inverted, byte_level(false)}), "invert"},
      {sequence({plain, byte_level(false)}), "only Regex"},
      {sequence({json::object{{"type", "Digits"}}, byte_level(false)}), "individual_digits"},
      {prefixed, "add_prefix_space"},
      {nested, "nested too deep"},
      {sequence(json::array(100, json::value(split_of("a")))), "too many"},
  };
  for (const auto& [value, part] : cases) {
    const auto loaded = PreTokenizer::from_json(value);
    ASSERT_FALSE(loaded.ok()) << part;
    EXPECT_THAT(loaded.error().message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace boreas
