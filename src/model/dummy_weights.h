// Weights that are a pure function of their names: the published shape can be run, and its speed measured, without the
// checkpoint. Every producer (this code, a GPU kernel, integer operations in another framework) makes the same bits.
//
// The recipe, to the bit. For element `index` (row-major, from 0) of a tensor:
//   hash  = FNV-1a 64 of the tensor's published name (published_tensor_name)
//   key   = {low 32 bits of hash, high 32 bits of hash}
//   block = index / 16
//   words = Philox4x32-10 with counter {low 32 bits of block, high 32 bits of block, 0, 0} and that key (base/prng.h)
//   byte  = bits 8*(index % 4) .. 8*(index % 4) + 7 of words[index % 16 / 4]: the 16 bytes in little-endian order
// and then
//   norms:  value = 0.25 + k * 2^-9 with k = (byte * 49 >> 8) - 24, so k is in -24..24
//   others: value = s * 2^-e with s = the signed 8-bit number (byte | 1), odd, in -127..127, and e by role:
//             10: router   11: query, key, down (dense and expert)
//             12: embedding, value, output, gate and up (dense and expert)
// Either has at most 8 significant bits, so it is exact in BF16. The standard deviation of s is 73.9; with these e the
// deviations are 0.072 (10), 0.036 (11) and 0.018 (12), each within a factor of two of what the published layer 1 has
// (query 0.0307, key 0.0505, value 0.0132, output 0.0206, router 0.0839, gate 0.0219, up 0.0214, down 0.0268; its norm
// has mean 0.241 and deviation 0.047, ours 0.25 and 0.028). The embedding's deviation is not published; 0.018 is the
// nearest to the family's initializer_range of 0.02.
//
// Called by load_model.cc; exec/* and tests may check single elements.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "base/prng.h"
#include "base/result.h"
#include "model/model.h"

namespace boreas {

struct LoadedWeights;

constexpr uint64_t dummy_name_hash(std::string_view published_name) {
  return fnv1a_64(published_name.data(), published_name.size());
}

// e of the recipe; -1 for norms.
constexpr int dummy_exponent(WeightRole role) {
  switch (role) {
    case WeightRole::kFinalNorm:
    case WeightRole::kInputNorm:
      return -1;
    case WeightRole::kRouter:
      return 10;
    case WeightRole::kQuery:
    case WeightRole::kKey:
    case WeightRole::kExpertDown:
    case WeightRole::kDenseDown:
      return 11;
    default:
      return 12;
  }
}

// One element, straight from the recipe.
bf16 dummy_value(uint64_t name_hash, WeightRole role, uint64_t index);

// Elements first .. first + out.size() of the tensor; first is a multiple of 16. The same bits as dummy_value.
void fill_dummy(uint64_t name_hash, WeightRole role, uint64_t first, std::span<bf16> out);

// All weights of a config in one buffer, each tensor at a multiple of 64 bytes, filled by all cores. Error if the
// machine has too little memory.
Result<LoadedWeights> make_dummy_weights(const ModelConfig& config, const LoadProgress& progress);

}  // namespace boreas
