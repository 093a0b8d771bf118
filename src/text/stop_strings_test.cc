// StopMatcher against a naive search, for any cut of the text, and its limits.
#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"

namespace boreas {
namespace {

struct Found {
  std::string visible;
  std::string stop;
  bool matched = false;
};

// Feeds the text in pieces of the sizes `next` gives.
template <class Next>
Found search(const std::vector<std::string>& stops, std::string_view text, Next next) {
  StopMatcher matcher(stops);
  Found found;
  while (!text.empty()) {
    const size_t bytes = std::min<size_t>(next(), text.size());
    found.visible += matcher.push(text.substr(0, bytes), found.matched);
    text.remove_prefix(bytes);
  }
  found.visible += matcher.finish();
  found.stop = matcher.matched_stop();
  EXPECT_EQ(found.matched, matcher.matched());
  return found;
}

// The first end of any stop string, the longest that ends there.
Found naive(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops) {
      const bool ends_here = stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (ends_here && stop.size() > best.size()) best = stop;
    }
    if (!best.empty()) return {text.substr(0, end - best.size()), best, true};
  }
  return {text, "", false};
}

TEST(StopMatcher, HoldsBackOnlyAProperPrefix) {
  StopMatcher matcher({"stop"});
  bool matched = false;
  EXPECT_EQ(matcher.push("a st", matched), "a ");
  EXPECT_EQ(matcher.held_bytes(), 2u);
  EXPECT_EQ(matcher.push("st", matched), "st");
  EXPECT_EQ(matcher.push("op x", matched), "");
  EXPECT_TRUE(matched);
  EXPECT_EQ(matcher.matched_stop(), "stop");
  matched = false;
  EXPECT_EQ(matcher.push("more", matched), "");
  EXPECT_TRUE(matched);
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, TheMatchThatEndsFirstWins) {
  bool matched = false;
  StopMatcher inner({"abcd", "bc"});
  EXPECT_EQ(inner.push("xabcd", matched), "xa");
  EXPECT_EQ(inner.matched_stop(), "bc");
  StopMatcher longest({"c", "abc", "bc"});
  EXPECT_EQ(longest.push("xabc", matched), "x");
  EXPECT_EQ(longest.matched_stop(), "abc");
}

TEST(StopMatcher, WithoutStopsEverythingPasses) {
  StopMatcher none({"", ""});
  bool matched = false;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.push("text", matched), "text");
  EXPECT_FALSE(matched);
}

TEST(StopMatcher, EqualsNaiveSearchForAnyCut) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const auto word = [&prng](uint32_t longest) {
      std::string text;
      for (uint32_t left = prng.below(longest + 1); left > 0; --left) text += static_cast<char>('a' + prng.below(2));
      return text;
    };
    std::vector<std::string> stops;
    for (uint32_t left = prng.below(5); left > 0; --left) stops.push_back(word(6));
    const std::string text = word(40);
    const Found expected = naive(stops, text);
    const Found whole = search(stops, text, [] { return size_t{1000}; });
    const Found cut = search(stops, text, [&prng] { return size_t{1} + prng.below(4); });
    ASSERT_EQ(whole.visible, expected.visible);
    ASSERT_EQ(whole.stop, expected.stop);
    ASSERT_EQ(cut.visible, expected.visible);
    ASSERT_EQ(cut.stop, expected.stop);
  }
}

TEST(StopMatcher, TenThousandStopsAndAMegabyte) {
  std::vector<std::string> stops;
  for (int i = 0; i < 10000; ++i) stops.push_back("aaaaaaaaaaaaaaaa" + std::to_string(i) + "b");
  stops.push_back(std::string(4095, 'a') + "b");
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(search(stops, text, [] { return size_t{1}; }).visible, text);
}

}  // namespace
}  // namespace boreas
