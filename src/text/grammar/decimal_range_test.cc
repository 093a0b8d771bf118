#include "text/grammar/decimal_range.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.h"

namespace boreas::grammar {
namespace {

// A decimal with two digits behind the point, as its hundredfold.
std::string text_of(int64_t hundredths, int digits) {
  std::string out = hundredths < 0 ? "-" : "";
  const int64_t magnitude = std::abs(hundredths);
  out += std::to_string(magnitude / 100);
  if (digits > 0) out += '.' + std::to_string(magnitude % 100 / 10);
  if (digits > 1) out += std::to_string(magnitude % 10);
  return out;
}

DecimalBound bound_of(int64_t hundredths, bool exclusive) {
  return {decimal_of(static_cast<double>(hundredths) / 100), exclusive};
}

TEST(DecimalRangeTest, HoldsTheNumbersBetweenItsBounds) {
  constexpr uint64_t kSeed = 31;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  for (int round = 0; round < 400; ++round) {
    const int64_t reach = prng.below(2) ? 300 : 120'000;
    std::optional<int64_t> low, high;
    DecimalRange range;
    range.integer = prng.below(2);
    const int64_t grain = prng.below(2) ? 100 : 1;
    if (prng.below(4)) low = prng.between(-reach, reach) / grain * grain;
    if (prng.below(4) || !low) high = prng.between(-reach, reach) / grain * grain;
    if (low) range.low = bound_of(*low, prng.below(2));
    if (high) range.high = bound_of(*high, prng.below(2));
    WorkBudget budget;
    const Dfa dfa = *number_automaton(range, budget);
    for (int i = 0; i < 300; ++i) {
      int64_t value = prng.between(-reach - 200, reach + 200);
      if (i < 12) value = (i % 2 ? low : high).value_or(0) + (i / 2 - 3) * (prng.below(2) ? 1 : 100);
      const int digits = value % 100 == 0 ? static_cast<int>(prng.below(3)) : value % 10 == 0 ? 1 + prng.below(2) : 2;
      bool wanted = !range.integer || digits == 0;
      if (low) wanted = wanted && (value > *low || (value == *low && !range.low->exclusive));
      if (high) wanted = wanted && (value < *high || (value == *high && !range.high->exclusive));
      const std::string text = text_of(value, digits);
      ASSERT_EQ(dfa.accepts(text), wanted)
          << text << " in " << low.value_or(-1) << ".." << high.value_or(-1) << " integer " << range.integer;
    }
  }
}

TEST(DecimalRangeTest, SpellingIsThatOfJson) {
  WorkBudget budget;
  DecimalRange range;
  const Dfa number = *number_automaton(range, budget);
  for (const char* text : {"0", "-0.5", "12", "1.25e10", "1E-9", "-3.0", "123456789012345678"}) {
    EXPECT_TRUE(number.accepts(text)) << text;
  }
  for (const char* text : {"", "-", "01", "+1", ".5", "1.", "1e", "1e+", "1e100", "0x1", "1234567890123456789", "1 "}) {
    EXPECT_FALSE(number.accepts(text)) << text;
  }
  range.integer = true;
  const Dfa integer = *number_automaton(range, budget);
  for (const char* text : {"0", "-7", "999999999999999999"}) EXPECT_TRUE(integer.accepts(text)) << text;
  for (const char* text : {"-0", "1.0", "1e3", "00", ""}) EXPECT_FALSE(integer.accepts(text)) << text;
  range.low = DecimalBound{decimal_of(int64_t{0}), false};
  const Dfa natural = *number_automaton(range, budget);
  for (const char* text : {"0", "1", "100"}) EXPECT_TRUE(natural.accepts(text)) << text;
  for (const char* text : {"-0", "-1", "01"}) EXPECT_FALSE(natural.accepts(text)) << text;
}

TEST(DecimalRangeTest, ExtremeBounds) {
  const auto numbers = [](std::optional<double> low, std::optional<double> high, bool integer) {
    DecimalRange range;
    range.integer = integer;
    if (low) range.low = DecimalBound{decimal_of(*low), false};
    if (high) range.high = DecimalBound{decimal_of(*high), false};
    WorkBudget budget;
    return *number_automaton(range, budget);
  };
  EXPECT_TRUE(numbers(1e300, std::nullopt, true).empty());
  EXPECT_TRUE(numbers(5, 4, true).empty());
  EXPECT_TRUE(numbers(0.25, 0.75, true).empty());
  EXPECT_TRUE(numbers(0.25, 0.75, false).accepts("0.5"));
  EXPECT_TRUE(numbers(-1e300, 1e300, true).accepts("-123"));
  EXPECT_TRUE(numbers(1e-300, std::nullopt, false).accepts("0.000000000000000001"));
  EXPECT_FALSE(numbers(1e-300, std::nullopt, false).accepts("0.0"));
  EXPECT_EQ(decimal_of(uint64_t{18446744073709551615u}).whole, "18446744073709551615");
  EXPECT_TRUE(less(decimal_of(-0.5), decimal_of(0.0)));
  EXPECT_FALSE(less(decimal_of(-0.0), decimal_of(0.0)));
}

}  // namespace
}  // namespace boreas::grammar
