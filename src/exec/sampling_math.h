// Elementary functions of sampling, made of single IEEE-754 operations only (no libm, no fused multiply-add), so that
// every compiler, processor and GPU that rounds to nearest gives the same bits. sampling.cc and the CUDA megakernel
// call them; other implementations of sampling use exactly these.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/prng.h"

namespace boreas {

namespace sampling_math {

// Of a token id in a draw's order (draw_order). Weights are added as integers in units of 2^-44: a sum does not depend
// on its order or slicing, and 2^19 weights of at most 1 are 2^63 at most.
constexpr int kIdBits = 19;
constexpr int32_t kVocabularyMax = 1 << kIdBits;

constexpr float kLn2High = 0x1.62e4p-1f;         // 16 significant bits: products with exponents are exact
constexpr float kLn2Low = 0x1.7f7d1cp-20f;       // ln 2 - kLn2High
constexpr float kLog2E = 1.442695040888963407f;  // 1 / ln 2
constexpr float kRoundingShift = 0x1.8p23f;      // adding and subtracting it rounds to an integer

// log((1 + s) / (1 - s)) for |s| <= 0.1716: the series 2 (s + s^3/3 + s^5/5 + ...), relative error below 2^-23.
constexpr float log_ratio(float s) {
  const float t = s * s;
  const float tail = t * (1.0f / 3 + t * (1.0f / 5 + t * (1.0f / 7 + t * (1.0f / 9))));
  return 2.0f * (s + s * tail);
}

// Natural logarithm of a positive, finite, normal number.
constexpr float log(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int32_t exponent = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;  // mantissa lands in [sqrt(1/2), sqrt(2))
  const float mantissa = std::bit_cast<float>(bits - (static_cast<uint32_t>(exponent) << 23));
  const float ratio = log_ratio((mantissa - 1.0f) / (mantissa + 1.0f));
  const float scale = static_cast<float>(exponent);
  return scale * kLn2High + (scale * kLn2Low + ratio);
}

// e^x for x <= 0; 0 below -87. Relative error below 2^-22. The polynomial is the Taylor series to degree 7 on
// |r| <= ln(2) / 2.
constexpr float exp(float x) {
  if (!(x >= -87.0f)) return 0.0f;
  const float count = (x * kLog2E + kRoundingShift) - kRoundingShift;
  const float r = (x - count * kLn2High) - count * kLn2Low;
  const float high = 1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720 + r * (1.0f / 5040)));
  const float value = 1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * high)));
  const int32_t bits = std::bit_cast<int32_t>(value) + static_cast<int32_t>(count) * (1 << 23);
  return std::bit_cast<float>(bits);
}

// e^x, x <= 0, in units of 2^-44.
constexpr uint64_t mass(float x) { return static_cast<uint64_t>(static_cast<int64_t>(exp(x) * 0x1p44f)); }

// (bits + 0.5) * 2^-32 rounded to float and kept below 1.
constexpr float uniform(uint32_t bits) {
  const float value = static_cast<float>((static_cast<double>(bits) + 0.5) * 0x1p-32);
  return value < 1.0f ? value : 0x1.fffffep-1f;
}

// Standard Gumbel noise of a uniform u: -log(-log(1 - u)). Large noise comes from small u, where a float is finest, so
// the tail that decides rare draws is resolved down to 2^-33. Falls as u rises; never above -log(u).
constexpr float gumbel(float u) {
  const float exponential = u <= 0.25f ? log_ratio(u / (2.0f - u)) : -log(1.0f - u);
  return -log(exponential);
}
constexpr float kGumbelMax = 23.0f;  // -log(2^-33) = 22.87, rounded up

// The noise words of entries 4 * group to 4 * group + 3.
constexpr uint32_t kCounterWord = 0x426f7265u;
constexpr std::array<uint32_t, 4> noise_words(uint64_t seed, int32_t choice_index, int64_t position, uint32_t group) {
  return Philox4x32::generate(
      {group, static_cast<uint32_t>(position), static_cast<uint32_t>(choice_index), kCounterWord},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Filters look at the distance from the largest logit, in units of the temperature: at most 0.
constexpr float score(float logit, float largest, float inverse_temperature) {
  return (logit - largest) * inverse_temperature;
}

// What a draw compares: logit / T + noise, in double, where the product is exact.
constexpr double drawn_value(float logit, float inverse_temperature, uint32_t noise_word) {
  return static_cast<double>(logit) * static_cast<double>(inverse_temperature) +
         static_cast<double>(gumbel(uniform(noise_word)));
}

// Finite values and ids in one number, of which the largest wins: the value in the order of numbers, without its last
// kIdBits (33 bits of mantissa stay, more than a float's), then the lowest id.
constexpr uint64_t draw_order(double value, int32_t id) {
  const uint64_t bits = std::bit_cast<uint64_t>(value + 0.0);  // -0 equals 0
  const uint64_t ordered = bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
  return (ordered & ~uint64_t{kVocabularyMax - 1}) | static_cast<uint64_t>(kVocabularyMax - 1 - id);
}
constexpr int32_t drawn_id(uint64_t order) {
  return kVocabularyMax - 1 - static_cast<int32_t>(order & uint64_t{kVocabularyMax - 1});
}

// The mass that the shortest prefix must hold: the part top_p of `total`, rounded up, at least 1.
constexpr uint64_t mass_needed(uint64_t total, float top_p) {
  const double wanted = static_cast<double>(total) * static_cast<double>(top_p);
  uint64_t needed = static_cast<uint64_t>(wanted);
  if (static_cast<double>(needed) < wanted) ++needed;
  return needed < 1 ? 1 : needed > total ? total : needed;
}

}  // namespace sampling_math

}  // namespace boreas
