// One token behind a filled cache in doubles, from the formulas alone: what ties the cache of loud_cache.h and the
// golden of the oracle together more tightly than any executor's BF16 could. Used by long_context_golden_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "model/model.h"

namespace boreas {

// What a layer's cache holds of positions first ... , [positions][KV heads][head_dim] each, up to the token's own.
struct CachedLayer {
  int64_t first = 0;
  std::vector<bf16> keys, values;
};

struct PlainStep {
  std::vector<std::vector<float>> attention, mlp,
      residual;               // per layer [hidden]; the first two before the residual add
  std::vector<float> logits;  // [vocab_size]
};

// The cache must reach back to `window` positions in sliding layers, the token's own included, and to 0 in others.
PlainStep plain_step(const Model& model, const std::vector<CachedLayer>& cache, int32_t position, TokenId token,
                     int32_t window);

}  // namespace boreas
