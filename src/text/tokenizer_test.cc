// Tokenizer on small made-up files: encoding, added tokens, the marker guard, decoding, and long inputs.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "text/tokenizer_test_json.h"

namespace boreas {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<TokenId>;

Tokenizer parsed(const TestTokenizerJson& file) {
  auto tokenizer = Tokenizer::parse(file.text());
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.error().message;
  return std::move(tokenizer).value();
}

Ids ids_of(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  auto ids = tokenizer.encode(text, options);
  if (!ids.ok()) ADD_FAILURE() << ids.error().message;
  return std::move(ids).value();
}

std::string added(int id, const std::string& content, const std::string& flags = "") {
  return "{\"id\":" + std::to_string(id) + ",\"content\":\"" + content + "\"" + flags + "}";
}

TEST(Tokenizer, MergesWithinPiecesInBothForms) {
  TestTokenizerJson file;
  file.merges = {{"a", "b"}, {"\u0120", "c"}, {"ab", "\u0120c"}, {"b", "b"}};
  for (const bool as_pairs : {true, false}) {
    file.merges_as_pairs = as_pairs;
    const Tokenizer tokenizer = parsed(file);
    // "ab" and " c" are two pieces, so the third merge never applies.
    EXPECT_THAT(ids_of(tokenizer, "ab c abb"), ElementsAre(256, 257, ' ', 256, 'b'));
    EXPECT_EQ(tokenizer.vocab_size(), 260);
    EXPECT_EQ(tokenizer.token_bytes(257), " c");
    EXPECT_EQ(tokenizer.token_id("\u0120c"), 257);
    EXPECT_EQ(tokenizer.token_id(" c"), std::nullopt);
    EXPECT_EQ(tokenizer.token_bytes(-1), "");
    EXPECT_EQ(tokenizer.token_bytes(260), "");
  }
}

TEST(Tokenizer, IgnoreMergesTakesWholePieces) {
  TestTokenizerJson file;
  file.merges = {{"b", "c"}};
  file.vocab_extra = ",\"abc\":300";
  EXPECT_THAT(ids_of(parsed(file), "abc"), ElementsAre('a', 256));
  file.model_extra = "\"ignore_merges\":true,";
  EXPECT_THAT(ids_of(parsed(file), "abc"), ElementsAre(300));
  EXPECT_THAT(ids_of(parsed(file), "abcb"), ElementsAre('a', 256, 'b'));
}

TEST(Tokenizer, AddedTokensLongestThenLeftmost) {
  TestTokenizerJson file;
  file.added_tokens =
      "[" + added(256, "<a>") + "," + added(257, "<a><b>") + "," + added(258, "a><", ",\"special\":true") + "]";
  const Tokenizer tokenizer = parsed(file);
  EXPECT_THAT(ids_of(tokenizer, "<a><b>"), ElementsAre(257));
  EXPECT_THAT(ids_of(tokenizer, "<a><c"), ElementsAre(256, '<', 'c'));
  EXPECT_THAT(ids_of(tokenizer, "xa><b>"), ElementsAre('x', 258, 'b', '>'));
  EXPECT_TRUE(tokenizer.is_added(257));
  EXPECT_FALSE(tokenizer.is_special(257));
  EXPECT_TRUE(tokenizer.is_special(258));
  EXPECT_FALSE(tokenizer.is_added('a'));
  EXPECT_EQ(tokenizer.decode(Ids{258, 'x', 256, 9999}, false), "a><x<a>");
  EXPECT_EQ(tokenizer.decode(Ids{258, 'x', 256, -1}, true), "x<a>");
}

TEST(Tokenizer, MarkersStayTextWhenAsked) {
  TestTokenizerJson file;
  file.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  // Even where merges lead to the marker's own id, or a whole piece is the marker, plain text must not become it.
  file.merges = {{"<", "a"}, {"<a", ">"}};
  file.added_tokens = "[" + added(257, "<a>") + "," + added(258, "<z>") + "]";
  for (const std::string extra : {"", "\"ignore_merges\":true,"}) {
    file.model_extra = extra;
    const Tokenizer tokenizer = parsed(file);
    EXPECT_THAT(ids_of(tokenizer, "<a>"), ElementsAre(257));
    EXPECT_THAT(ids_of(tokenizer, "<a>", {.add_bos = false, .parse_added_tokens = false}), ElementsAre(256, '>'));
    EXPECT_THAT(ids_of(tokenizer, "<z>", {.add_bos = false, .parse_added_tokens = false}), ElementsAre('<', 'z', '>'));
  }
}

TEST(Tokenizer, WhiteSpaceAndWordFlags) {
  TestTokenizerJson file;
  file.added_tokens = "[" + added(256, "<l>", ",\"lstrip\":true") + "," + added(257, "<r>", ",\"rstrip\":true") + "," +
                      added(258, "word", ",\"single_word\":true") + "]";
  const Tokenizer tokenizer = parsed(file);
  EXPECT_THAT(ids_of(tokenizer, "a \u3000\n<l> b"), ElementsAre('a', 256, ' ', 'b'));
  EXPECT_THAT(ids_of(tokenizer, "<r> \u2003b"), ElementsAre(257, 'b'));
  EXPECT_THAT(ids_of(tokenizer, "<r>  <l>"), ElementsAre(257, 256));
  EXPECT_THAT(ids_of(tokenizer, "word"), ElementsAre(258));
  EXPECT_EQ(ids_of(tokenizer, "sword").size(), 5u);
  EXPECT_EQ(ids_of(tokenizer, "word_").size(), 5u);
  EXPECT_THAT(ids_of(tokenizer, "-word."), ElementsAre('-', 258, '.'));
}

TEST(Tokenizer, NormalizationAndAddedTokens) {
  TestTokenizerJson file;
  file.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"}]})";
  file.added_tokens = "[" + added(256, "e\u0301", ",\"normalized\":true") + "," + added(257, "o\u0301") + "]";
  const Tokenizer tokenizer = parsed(file);
  EXPECT_THAT(ids_of(tokenizer, "\u00E9e\u0301"), ElementsAre(256, 256));
  EXPECT_THAT(ids_of(tokenizer, "o\u0301\u00F3"), ElementsAre(257, 0xC3, 0xB3));  // matched on the text as given
  EXPECT_THAT(ids_of(tokenizer, "a\u0301"), ElementsAre(0xC3, 0xA1));
  file.normalizer = "null";
  EXPECT_THAT(ids_of(parsed(file), "a\u0301"), ElementsAre('a', 0xCC, 0x81));
}

TEST(Tokenizer, BosOnlyWhenAsked) {
  TestTokenizerJson file;
  EXPECT_EQ(parsed(file).bos_token_id(), std::nullopt);
  EXPECT_THAT(ids_of(parsed(file), "a", {.add_bos = true}), ElementsAre('a'));
  file.added_tokens = "[" + added(256, "<BOS_TOKEN>", ",\"special\":true") + "]";
  const Tokenizer tokenizer = parsed(file);
  EXPECT_EQ(tokenizer.bos_token_id(), 256);
  EXPECT_THAT(ids_of(tokenizer, "a", {.add_bos = true}), ElementsAre(256, 'a'));
  EXPECT_THAT(ids_of(tokenizer, "", {.add_bos = true}), ElementsAre(256));
  EXPECT_THAT(ids_of(tokenizer, "<BOS_TOKEN>a"), ElementsAre(256, 'a'));
}

TEST(Tokenizer, RefusesInvalidUtf8) {
  const Tokenizer tokenizer = parsed({});
  for (const std::string text : {"ab\xFF", "ab\xC3", "ab\xED\xA0\x80"}) {
    for (const bool parse_added_tokens : {true, false}) {
      const auto ids = tokenizer.encode(text, {.add_bos = false, .parse_added_tokens = parse_added_tokens});
      ASSERT_FALSE(ids.ok());
      EXPECT_THAT(ids.error().message, HasSubstr("invalid UTF-8 at byte 2"));
    }
  }
}

TEST(Tokenizer, DecodeReplacesWhatIsNotUtf8) {
  const Tokenizer tokenizer = parsed({});
  EXPECT_EQ(tokenizer.decode(Ids{0xE5, 0xAD, 0x97, 'a', 0xE5, 'b', 0xE5, 0xAD}, false), "\u5B57a\uFFFDb\uFFFD");
  EXPECT_EQ(tokenizer.decode({}, true), "");
}

TEST(Tokenizer, RoundTripOfRandomText) {
  TestTokenizerJson file;
  file.merges = {{"\u0120", "\u0120"}, {"a", "a"}, {"1", "2"}, {"\u00C3", "\u00A9"}};
  const Tokenizer tokenizer = parsed(file);
  const uint64_t seed = 51;
  Prng prng(seed);
  const std::vector<std::string> parts = {
      "a", " ", "12", "\u00E9", "\u5B57", "\U0001F600", "\n", "\r\n", "'s", "\u0301", std::string(1, '\0')};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (uint32_t left = prng.below(30); left > 0; --left)
      text += parts[prng.below(static_cast<uint32_t>(parts.size()))];
    ASSERT_EQ(tokenizer.decode(ids_of(tokenizer, text), false), text) << "seed " << seed << ", round " << round;
  }
}

TEST(Tokenizer, CopiesShareAndMove) {
  const auto make = [] {
    TestTokenizerJson file;
    file.merges = {{"a", "b"}};
    return parsed(file);
  };
  Tokenizer first = make();
  const Tokenizer second = first;
  const Tokenizer third = std::move(first);
  EXPECT_EQ(ids_of(second, "ab"), ids_of(third, "ab"));
  EXPECT_EQ(second.token_bytes(256).data(), third.token_bytes(256).data());
}

// A megabyte as one piece, and a megabyte of beginnings of markers.
TEST(Tokenizer, AMegabyteOfAnything) {
  TestTokenizerJson file;
  file.normalizer = R"({"type":"NFC"})";
  file.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  file.merges = {{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"\u0120", "\u0120"}, {"a", "b"}, {"b", "a"}, {"1", "1"}};
  file.added_tokens =
      "[" + added(400, "<|START_OF_TURN_TOKEN|>") + "," + added(401, "\\n\\n", ",\"lstrip\":true") + "]";
  const Tokenizer tokenizer = parsed(file);
  constexpr size_t kBytes = 1 << 20;
  for (const std::string unit : {"a", "ab", " ", "1", "<", "<|START_OF_TURN_TOKEN", "\n", " \n", "\u0301", "\u5B57",
                                 "e\u0301", "\u0301\u0323"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    const auto ids = tokenizer.encode(text, {});
    ASSERT_TRUE(ids.ok()) << unit;
    EXPECT_FALSE(ids->empty());
  }
}

}  // namespace
}  // namespace boreas
