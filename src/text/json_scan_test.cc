// JsonValueScanner against Boost.JSON's opinion of validity, its ends in broken text, and string decoding.
#include "text/json_scan.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/prng.h"

namespace boreas {
namespace {

struct Scan {
  size_t bytes;
  bool done;
  bool valid;
};

Scan scan(std::string_view text, size_t piece) {
  JsonValueScanner scanner;
  size_t used = 0;
  while (used < text.size() && !scanner.done()) {
    const std::string_view next = text.substr(used, piece);
    used += scanner.feed(next);
  }
  return {used, scanner.done(), scanner.valid()};
}

std::string decode(std::string_view text, size_t piece, bool* done = nullptr) {
  JsonStringDecoder decoder;
  std::string out;
  size_t used = 0;
  while (used < text.size() && !decoder.done()) used += decoder.feed(text.substr(used, piece), out);
  if (done != nullptr) *done = decoder.done();
  return out;
}

TEST(JsonValueScanner, EndsOfValues) {
  const auto end_of = [](std::string_view text) { return scan(text, text.size()).bytes; };
  EXPECT_EQ(end_of("{\"a\": [1, {}]} x"), 14u);
  EXPECT_EQ(end_of("  [1]]"), 5u);
  EXPECT_EQ(end_of("\"a\\\"}b\", 1"), 7u);
  EXPECT_EQ(end_of("12.5}"), 4u);
  EXPECT_EQ(end_of("true, 1"), 4u);
  EXPECT_EQ(end_of("{\"a\": [1, 2} x"), 12u);  // `}` closes the array as well
  EXPECT_EQ(end_of("[1, 2} x"), 5u);           // `}` belongs to what surrounds the value
  EXPECT_EQ(end_of("{\"a\": 1] } x"), 10u);    // `]` is passed over
}

TEST(JsonValueScanner, AgreesWithAParserOnValidity) {
  const std::string_view parts[] = {"{",       "}",  "[",       "]",       ",",   ":",  "\"a\"", "\"\\u00e9\\n\"",
                                    "\"\\x\"", "1",  "-0.5e+3", "01",      "-",   "1.", "true",  "nul",
                                    " ",       "\n", "\"",      "{\"k\":", "[1,", "{}", "[]"};
  int valid_count = 0;
  for (uint64_t seed = 1; seed <= 30000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    std::string text = prng.below(2) == 0 ? "{" : "[";
    for (uint32_t left = prng.below(8); left > 0; --left) text += parts[prng.below(std::size(parts))];
    text += text[0] == '{' ? '}' : ']';
    const Scan whole = scan(text, text.size());
    boost::system::error_code error;
    boost::json::parse(text, error);
    const bool valid = whole.done && whole.valid && whole.bytes == text.size();
    ASSERT_EQ(valid, !error) << text;
    valid_count += valid ? 1 : 0;
    const Scan cut = scan(text, 1 + prng.below(3));
    ASSERT_EQ(cut.bytes, whole.bytes) << text;
    ASSERT_EQ(cut.done, whole.done) << text;
    ASSERT_EQ(cut.valid, whole.valid) << text;
  }
  EXPECT_GT(valid_count, 500);
}

TEST(JsonValueScanner, DepthIsBoundedButTheEndIsFound) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const Scan result = scan(deep + "x", 1000);
  EXPECT_EQ(result.bytes, deep.size());
  EXPECT_TRUE(result.done);
  EXPECT_FALSE(result.valid);
  const std::string allowed = std::string(1000, '[') + std::string(1000, ']');
  EXPECT_TRUE(scan(allowed, 1).valid);
}

TEST(JsonStringDecoder, Escapes) {
  for (const size_t piece : {1, 2, 3, 100}) {
    bool done = false;
    EXPECT_EQ(decode("a\\n\\t\\\"\\\\\\/\\b\\f\\r\\u0041\" rest", piece, &done), "a\n\t\"\\/\b\f\rA");
    EXPECT_TRUE(done);
    EXPECT_EQ(decode("\\u00e9\\u20ac\\ud83d\\ude00\"", piece), "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    EXPECT_EQ(decode("\\ud83dx\\ude00\\ud83d\\ud83d\\ude00\\ud800\"", piece),
              "\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x98\x80\xEF\xBF\xBD");
    EXPECT_EQ(decode("\\x\\u12g\\u\\u1\"", piece, &done), "\\x\\u12g\\u\\u1");
    EXPECT_TRUE(done);
    EXPECT_EQ(decode("open\\u00", piece, &done), "open");
    EXPECT_FALSE(done);
  }
}

}  // namespace
}  // namespace boreas
