// The cache of the long-context golden: the seeded keys and values of tests/gpu/seeded_pages.h, louder by powers of two
// so that each part of it shows in the logits of the one token that reads it. tools/make_golden/long_context.py has the
// same recipe; plain_step.cc and the pages of the executors under test are filled by it.
//
//   keys                                          2^5   scores have an rms of about 0.4
//   values, full layers                           2^16  a softmax over 65,536 keys weighs each about 2^-16
//           their first page, and the token's own 2^21  64 positions, loud by 2^5 = sqrt(65536 / 64), weigh as much in
//                                                       a sum of random signs as all the others together
//   values, sliding layers                        2^10
//           oldest visible position, one before   2^14  2^4 > sqrt(128), the window: likewise
//
// The token stands at `position`; positions before it are cached.
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
std::vector<bf16> loud_kv(const ModelConfig& config, int32_t position, int32_t layer, bool value, int64_t first,
                          int64_t count);

// How an executor lays out a page's part of one layer and KV head.
enum class PageLayout {
  kRows,   // exec/cpu: [K|V][64][head_dim]
  kTiles,  // exec/cuda: program/weight_tiles.h
};

// The content of page `page` (positions 64 page ...). Of sliding layers it holds what the token sees and one position
// more, which must not show in the logits; all else is NaN.
void fill_loud_page(const ModelConfig& config, int32_t position, PagePoolKind pool, int32_t page, PageLayout layout,
                    std::span<std::byte> out);

}  // namespace boreas
