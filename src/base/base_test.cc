#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/prng.h"
#include "base/result.h"

namespace boreas {
namespace {

// Known answers of the Random123 distribution for Philox4x32-10.
TEST(Philox, KnownAnswers) {
  const std::array<uint32_t, 4> zero = Philox4x32::generate({0, 0, 0, 0}, {0, 0});
  EXPECT_EQ(zero, (std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  const uint32_t f = 0xffffffffu;
  const std::array<uint32_t, 4> ones = Philox4x32::generate({f, f, f, f}, {f, f});
  EXPECT_EQ(ones, (std::array<uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(1.0f + 0x1p-8f), 0x3f80);      // tie, goes to even
  EXPECT_EQ(float_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);  // tie, goes to even
  EXPECT_EQ(float_to_bf16(std::nextafter(1.0f + 0x1p-8f, 2.0f)), 0x3f81);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    ASSERT_EQ(float_to_bf16(bf16_to_float(static_cast<bf16>(bits))), bits);
  }
}

Result<int> half(int value) {
  if (value % 2) return Error{"odd", "value"};
  return value / 2;
}
Result<int> quarter(int value) {
  ASSIGN_OR_RETURN(const int once, half(value));
  return half(once);
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(7).error().param, "value");
}

TEST(Prng, SameSeedSameSequence) {
  Prng a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint32_t value = a.next_u32();
    EXPECT_EQ(value, b.next_u32());
    differs |= value != c.next_u32();
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace boreas
