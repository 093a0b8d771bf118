// The tokenizer against Hugging Face's own library, id for id: real vocabularies and one with North's expected
// pre-tokenizer. Skipped where the oracle is not installed. tokenizer_full_test.cc is the long form.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "compare.h"
#include "oracle.h"
#include "random_text.h"

namespace boreas {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// This repository's own sources; one of them with CRLF line ends.
std::vector<std::string> source_texts() {
  std::vector<std::string> texts;
  for (const std::string folder : {"src/base", "src/text", "tests/golden/tokenizer", "cmake"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(BOREAS_SOURCE_DIR) / folder)) {
      if (entry.is_regular_file() && entry.file_size() < 40000) texts.push_back(read(entry.path()));
    }
  }
  std::string crlf;
  for (const char c : texts.front()) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  texts.push_back(crlf);
  return texts;
}

std::vector<std::string> language_texts() {
  return {
      "",
      "Grüße aus Köln! Größe: 12½ km², 3³ = 27, ¾ voll.",
      "東京都の人口は1400万人です。プログラミング言語「C++」を使う。ﾊﾝｶｸ",
      "我们今天学习如何写一个分词器。它必须与参考实现完全一致！",
      "한국어 문장도 있습니다. 조합형: \u1112\u1161\u11AB\u1100\u1173\u11AF",
      "Привет, мир! Ёлка й и\u0306",
      "مرحبا بالعالم ١٢٣٤ שלום עולם",
      "नमस्ते दुनिया १२३४५६७ ไทยภาษา",
      "👩‍🔬👨‍👩‍👧‍👦🏳️‍🌈🇩🇪🇫🇷👍🏽 1️⃣ ©️",
      "e\u0301 a\u0308\u0323 \u1E69 s\u0323\u0307 s\u0307\u0323 \u212B \u2126 \uFB01 \u0344 \u0958",
      "line one\r\nline two\r\n\r\n\tindented\r\n   \r\nend\r",
      "a  b   \n\n  c \t d\u00A0e\u2003f\u3000g\u180Eh\u0085i",
      "don't DON'T we'll I'D they'Ve it'\u017F o'clock 'tis",
      "1234567 abc1234 x 1234abc 3333_x  123 12345; 1,234,567.89 v1.2345 0xFF12 i32 1000000u64",
  };
}

// Digits of every length behind and before every kind of neighbour.
std::vector<std::string> digit_texts() {
  std::vector<std::string> texts;
  for (const std::string before : {"", " ", "a", "_", ".", "\n", "é", "½", "字", "-"}) {
    for (const std::string after : {"", " ", "a", "_", ".", "\n", "\u0301", "½", "⅓", "字", "\u203F", "\u200D", "Ⅷ"}) {
      for (size_t length = 1; length <= 10; ++length) {
        texts.push_back(before + std::string("1234567890").substr(0, length) + after);
      }
    }
  }
  return texts;
}

class TokenizerGolden : public testing::TestWithParam<TestVocabulary> {
 protected:
  void SetUp() override {
    const std::string reason = oracle::unavailable_reason();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_P(TokenizerGolden, SourceCodeLanguagesAndDigits) {
  std::vector<std::string> texts = source_texts();
  for (const auto& more : {language_texts(), digit_texts()}) texts.insert(texts.end(), more.begin(), more.end());
  expect_same_ids(GetParam(), texts);
}

TEST_P(TokenizerGolden, RandomText) { expect_same_on_random_text(GetParam(), 20261129, 5000); }

TEST_P(TokenizerGolden, DecodesRandomIds) { expect_same_decoding(GetParam(), 20261130, 3000); }

std::string regex_split(std::string_view regex) {
  return boost::json::serialize(boost::json::object{
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}});
}

// Patterns of other models, and ones that use what the translator rewrites.
TEST(PreTokenizerGolden, OtherPatterns) {
  const std::string reason = oracle::unavailable_reason();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const std::string patterns[] = {
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
      R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+)"
      R"(|\s*+[\r\n]|\s+(?!\S)|\s)",
      R"(\b\w+\b|[^\w\s]+)",
      R"(\w+(?=\s)|\S)",
      R"(\d{1,4}(?=(?:\d{4})*\b))",
      R"([\s\d]+?(?!\d)|[^\s\p{P}\p{^L}]{2,5})",
  };
  for (const std::string& pattern : patterns) expect_same_pieces(regex_split(pattern), 20261201, 2000);
  const std::string byte_level =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  for (const std::string individual : {"true", "false"}) {
    expect_same_pieces(R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":)" + individual +
                           "}," + byte_level + "]}",
                       20261202, 2000);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenizerGolden, testing::ValuesIn(test_vocabularies()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace boreas
