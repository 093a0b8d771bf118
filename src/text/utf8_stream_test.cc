// Utf8Stream: ill-formed bytes, genuine U+FFFD, and the same output however the bytes are cut.
#include "text/utf8_stream.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "text/unicode.h"

namespace boreas {
namespace {

std::string whole(std::string_view bytes) {
  Utf8Stream stream;
  std::string out = stream.push(bytes);
  return out + stream.finish();
}

TEST(Utf8Stream, HoldsBackUntilACharacterIsComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_TRUE(stream.pending());
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80z"), "\U0001F600z");
  EXPECT_FALSE(stream.pending());
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, FinishReplacesTheTailOnce) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0\x9F\x98"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_FALSE(stream.pending());
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("ok"), "ok");
}

TEST(Utf8Stream, GenuineReplacementCharacterPasses) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xEF\xBF"), "");
  EXPECT_EQ(stream.push("\xBD!"), "\uFFFD!");
  EXPECT_FALSE(stream.pending());
}

// The table of "U+FFFD for maximal subparts" (Unicode Standard, section 3.9), and its relatives.
TEST(Utf8Stream, ReplacesMaximalSubparts) {
  EXPECT_EQ(whole("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(whole("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(whole("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  EXPECT_EQ(whole("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(whole("\xE1\x80"), "\uFFFD");
}

TEST(Utf8Stream, AnyCutGivesTheSameText) {
  const uint64_t seed = 21;
  Prng prng(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (uint32_t left = prng.below(12); left > 0; --left) {
      bytes += static_cast<char>(prng.below(2) == 0 ? 0x80 + prng.below(128) : 0x80 + prng.below(64));
      if (prng.below(4) == 0) bytes += "\xE5\xAD\x97";
    }
    const std::string wanted = whole(bytes);
    EXPECT_EQ(find_invalid_utf8(wanted), std::string_view::npos);
    Utf8Stream stream;
    std::string out;
    for (std::string_view rest = bytes; !rest.empty();) {
      const size_t length = std::min<size_t>(prng.below(5), rest.size());
      const std::string piece = stream.push(rest.substr(0, length));
      EXPECT_EQ(find_invalid_utf8(piece), std::string_view::npos);
      out += piece;
      rest.remove_prefix(length);
    }
    out += stream.finish();
    ASSERT_EQ(out, wanted) << "seed " << seed << ", round " << round;
  }
}

TEST(Utf8Stream, ValidTextIsUnchanged) {
  const std::string text = "a\u00E9\u5B57\U0001F469\u200D\U0001F52C\uFFFD\U0010FFFF";
  Utf8Stream stream;
  std::string out;
  for (const char c : text) out += stream.push({&c, 1});
  EXPECT_EQ(out, text);
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace boreas
