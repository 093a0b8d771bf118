// A KV cache that two implementations can fill alike: key and value of a position, head and dim are the dummy weights'
// recipe (model/dummy_weights.h) for a tensor [positions, KV heads, head_dim] named "kv.layer.<L>.key" or
// "kv.layer.<L>.value", with exponent 13: mean 0, standard deviation 0.009. Keys are as after the rotation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "exec/executor.h"
#include "model/model.h"

namespace boreas {

// Positions [first, first + count) of a layer: [count][KV heads][head_dim].
std::vector<bf16> seeded_kv(const ModelConfig& config, int32_t layer, bool value, int64_t first, int64_t count);

// The content of page `page` (positions 64 page ...) of a cache of `context` positions, as the CUDA executor lays it
// out; sliding layers hold the last window - 1 of them. All else is NaN, which must not show.
void fill_seeded_page(const ModelConfig& config, PagePoolKind pool, int32_t page, int32_t context,
                      std::span<std::byte> out);

}  // namespace boreas
