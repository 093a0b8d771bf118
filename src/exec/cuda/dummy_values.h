// The arithmetic of dummy weights (the recipe is in model/dummy_weights.h) as constexpr code for host and device: the
// GPU's generator runs it, dummy_values_test.cc compares it with the host's generator.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"
#include "base/prng.h"

namespace boreas::cuda {

constexpr int32_t kDummyBlock = 16;  // elements of one Philox call

// exponent < 0: norms.
constexpr bf16 dummy_element(int32_t exponent, uint32_t byte) {
  if (exponent < 0) {
    const int32_t k = static_cast<int32_t>(byte * 49 >> 8) - 24;
    return float_to_bf16(static_cast<float>(128 + k) * (1.0f / 512));
  }
  const int32_t s = static_cast<int8_t>(byte | 1u);
  return float_to_bf16(static_cast<float>(s) / static_cast<float>(1 << exponent));
}

// The bytes of elements 16 block .. 16 block + 15, four a word, little end first.
constexpr std::array<uint32_t, 4> dummy_bytes(uint64_t name_hash, uint64_t block) {
  return Philox4x32::generate({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                              {static_cast<uint32_t>(name_hash), static_cast<uint32_t>(name_hash >> 32)});
}

// Two neighbours of one word, the first in the low half: bytes 2 pair and 2 pair + 1.
constexpr uint32_t dummy_pair(int32_t exponent, uint32_t word, int32_t pair) {
  const uint32_t first = word >> (16 * pair) & 255u, second = word >> (16 * pair + 8) & 255u;
  return dummy_element(exponent, first) | static_cast<uint32_t>(dummy_element(exponent, second)) << 16;
}

}  // namespace boreas::cuda
