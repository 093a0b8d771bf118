// UTF-8 reading against utf8proc's reader, character classes against PCRE2's tables for every character, NFC against
// utf8proc's one-call form, and NFC's time on runs of marks.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/unicode.h"

#include <gtest/gtest.h>
#include <pcre2.h>
#include <utf8proc.h>

#include <cstdlib>
#include <functional>

#include "base/prng.h"
#include "text/pretokenizer_regex.h"

namespace boreas {
namespace {

std::string utf8(char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(length)};
}

// Calls `visit` with every scalar value.
void for_each_character(const std::function<void(char32_t)>& visit) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) visit(c);
  }
}

class CharacterRegex {
 public:
  explicit CharacterRegex(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                          &offset, nullptr);
    CHECK(code_ != nullptr);
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);
    data_ = pcre2_match_data_create(1, nullptr);
  }
  ~CharacterRegex() {
    pcre2_match_data_free(data_);
    pcre2_code_free(code_);
  }
  CharacterRegex(const CharacterRegex&) = delete;
  CharacterRegex& operator=(const CharacterRegex&) = delete;
  bool matches(char32_t c) const {
    const std::string text = utf8(c);
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data_, nullptr) >= 0;
  }

 private:
  pcre2_code* code_ = nullptr;
  pcre2_match_data* data_ = nullptr;
};

void expect_same_class(const std::string& pattern, bool (*is_member)(char32_t)) {
  const CharacterRegex member(translate_pattern(pattern).value());
  const CharacterRegex unassigned("\\p{Cn}");  // newer than PCRE2's tables: utf8proc's may know it
  for_each_character([&](char32_t c) {
    if (!unassigned.matches(c)) {
      EXPECT_EQ(member.matches(c), is_member(c)) << pattern << " U+" << std::hex << static_cast<uint32_t>(c);
    }
  });
}

TEST(Unicode, ClassesEqualTheRegexLibrary) {
  expect_same_class("\\s", is_white_space);
  expect_same_class("\\w", is_word);
  expect_same_class("\\d", is_decimal_digit);
  expect_same_class("\\p{N}", is_number);
}

TEST(Unicode, WordCharactersOfNote) {
  for (const char32_t c : {U'_', U'\u00B2', U'\u00BD', U'\u0301', U'\u203F', U'\u24B6', U'\u2160'})
    EXPECT_TRUE(is_word(c));
  for (const char32_t c : {U'\u2153', U'\u2460', U'\u200D', U' ', U'-'}) EXPECT_FALSE(is_word(c));
  EXPECT_TRUE(is_plain_word(0x200D));
  EXPECT_FALSE(is_plain_word(0xBD));
  EXPECT_FALSE(is_white_space(0x180E));
}

TEST(Unicode, ReadsWhatTheLibraryReads) {
  const uint64_t seed = 11;
  Prng prng(seed);
  for (int i = 0; i < 400000; ++i) {
    // Lead bytes and continuation bytes more often than chance would have them.
    std::string bytes;
    for (uint32_t left = 1 + prng.below(4); left > 0; --left) {
      bytes += static_cast<char>(prng.below(3) == 0 ? 0xC0 + prng.below(64) : 0x70 + prng.below(0x50));
    }
    utf8proc_int32_t wanted = -1;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()),
                                         static_cast<utf8proc_ssize_t>(bytes.size()), &wanted);
    const Utf8Sequence sequence = read_utf8(bytes);
    const bool complete = sequence.kind == Utf8Sequence::Kind::kComplete;
    ASSERT_EQ(complete, length > 0) << "seed " << seed << ", " << testing::PrintToString(bytes);
    if (!complete) continue;
    EXPECT_EQ(sequence.length, static_cast<size_t>(length));
    EXPECT_EQ(sequence.code_point, static_cast<char32_t>(wanted));
  }
}

TEST(Unicode, FindsTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8(""), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("a\u00E9\u5B57\U0001F600"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("ab\xFFg"), 2u);
  EXPECT_EQ(find_invalid_utf8("a\xC0\x80"), 1u);          // overlong
  EXPECT_EQ(find_invalid_utf8("a\xED\xA0\x80"), 1u);      // surrogate
  EXPECT_EQ(find_invalid_utf8("a\xF4\x90\x80\x80"), 1u);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("abc\xE5\xAD"), 3u);        // cut short
}

std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &result, options);
  CHECK(length >= 0);
  std::string out(reinterpret_cast<const char*>(result), static_cast<size_t>(length));
  std::free(result);
  return out;
}

TEST(Unicode, NfcEqualsTheLibraryOnEveryCharacter) {
  for_each_character([](char32_t c) {
    const std::string text = utf8(c);
    EXPECT_EQ(nfc(text), library_nfc(text)) << "U+" << std::hex << static_cast<uint32_t>(c);
    const std::string accented = "e" + text + "\u0323\u0301a";
    EXPECT_EQ(nfc(accented), library_nfc(accented)) << "U+" << std::hex << static_cast<uint32_t>(c);
  });
}

TEST(Unicode, NfcEqualsTheLibraryOnRandomSequences) {
  const uint64_t seed = 12;
  Prng prng(seed);
  constexpr char32_t kFirst[] = {'a',    0x41,   0xC0,   0x300,  0x300,  0x316, 0x1100, 0x1161,
                                 0x11A8, 0xAC00, 0x1E00, 0x3099, 0x304B, 0x93C, 0x915,  0x1D15E};
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (uint32_t left = 1 + prng.below(10); left > 0; --left) {
      text += utf8(kFirst[prng.below(std::size(kFirst))] + prng.below(24));
    }
    ASSERT_EQ(nfc(text), library_nfc(text)) << "seed " << seed << ": " << testing::PrintToString(text);
  }
}

// Marks in the wrong order: sorting by neighbour swaps would need 10^10 of them.
TEST(Unicode, NfcOfAMegabyteOfMarks) {
  constexpr size_t kEach = 250000;
  std::string text = "a";
  std::string wanted = "\u1EA1";  // a with dot below
  for (size_t i = 0; i < kEach; ++i) text += "\u0301";
  for (size_t i = 0; i < kEach; ++i) text += "\u0323";
  for (size_t i = 1; i < kEach; ++i) wanted += "\u0323";
  for (size_t i = 0; i < kEach; ++i) wanted += "\u0301";
  EXPECT_TRUE(nfc(text) == wanted);
}

}  // namespace
}  // namespace boreas
