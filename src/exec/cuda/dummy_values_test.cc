// The arithmetic that the GPU's generator runs gives the bits of the host's.
#include "exec/cuda/dummy_values.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "model/dummy_weights.h"

namespace boreas::cuda {
namespace {

TEST(DummyValues, EqualToTheHostsGenerator) {
  const uint64_t seed = 20251129;
  std::cout << "seed " << seed << "\n";
  Prng prng(seed);
  for (int32_t role_number = 0; role_number <= static_cast<int32_t>(WeightRole::kDenseDown); ++role_number) {
    const WeightRole role = static_cast<WeightRole>(role_number);
    const uint64_t hash = dummy_name_hash(published_tensor_name(role, 3, 5));
    for (int32_t i = 0; i < 200; ++i) {
      const uint64_t index = prng.next_u64() >> (i % 40);
      const uint64_t block = index / kDummyBlock;
      const int32_t in_block = static_cast<int32_t>(index % kDummyBlock);
      const uint32_t word = dummy_bytes(hash, block)[static_cast<size_t>(in_block) / 4];
      const uint32_t pair = dummy_pair(dummy_exponent(role), word, in_block % 4 / 2);
      EXPECT_EQ(static_cast<bf16>(in_block % 2 == 0 ? pair : pair >> 16), dummy_value(hash, role, index))
          << "role " << role_number << ", element " << index;
    }
  }
}

TEST(DummyValues, EveryByteIsExact) {
  for (const int32_t exponent : {-1, 10, 11, 12}) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const float value = bf16_to_float(dummy_element(exponent, byte));
      const float scaled = value * static_cast<float>(1 << (exponent < 0 ? 9 : exponent));
      EXPECT_EQ(scaled, static_cast<float>(static_cast<int32_t>(scaled)));
      if (exponent < 0) continue;
      EXPECT_EQ(static_cast<int32_t>(scaled), static_cast<int32_t>(static_cast<int8_t>(byte | 1)));
    }
  }
}

}  // namespace
}  // namespace boreas::cuda
