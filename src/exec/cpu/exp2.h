// 2^x for x <= 0 and a little above, with the same roundings at every SIMD level and on every compiler: no libm, no
// fused operations. Internal linkage, and nothing from the library that would not have it: files for different
// instruction sets include this, and the linker must not pick one of their copies for all.
#pragma once

#include <cstdint>

namespace boreas::cpu {

// 2^f on [-1/2, 1/2] as the Taylor series of e^(f ln 2); the first term left out is below 6e-9 relative.
constexpr float kExp2Coefficients[8] = {1.0f,           0x1.62e43p-1f,   0x1.ebfbep-3f,   0x1.c6b08ep-5f,
                                        0x1.3b2ab6p-7f, 0x1.5d87fep-10f, 0x1.430912p-13f, 0x1.ffcbfcp-17f};
constexpr float kExp2RoundMagic = 0x1.8p23f;  // adding it rounds to an integer that then sits in the low mantissa bits
constexpr float kExp2Lowest =
    -126.0f;  // below, the result is treated as 2^-126, which no bf16 probability can tell from 0

constexpr float kLog2E = 0x1.715476p0f;

// x in [-infinity, 127]; NaN gives NaN, so that broken weights show in the logits.
static inline float exp2_exact_order(float x) {
  x = x < kExp2Lowest ? kExp2Lowest : x;
  const float shifted = x + kExp2RoundMagic;
  const float fraction = x - (shifted - kExp2RoundMagic);
  float power = kExp2Coefficients[7];
  for (int i = 6; i >= 0; --i) power = power * fraction + kExp2Coefficients[i];
  const uint32_t scale = (__builtin_bit_cast(uint32_t, shifted) << 23) + 0x3f800000u;
  return power * __builtin_bit_cast(float, scale);
}

// 1 / (1 + e^-x); |x| up to any size, NaN gives NaN.
[[maybe_unused]] static inline float sigmoid(float x) {
  const float exponent = x > 0 ? -x * kLog2E : x * kLog2E;
  const float power = exp2_exact_order(exponent);
  return x > 0 ? 1.0f / (1.0f + power) : power / (1.0f + power);
}

}  // namespace boreas::cpu
