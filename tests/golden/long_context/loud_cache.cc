// See loud_cache.h: gains by position, and where a page's elements lie.
#include "tests/golden/long_context/loud_cache.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "program/weight_tiles.h"
#include "tests/gpu/seeded_pages.h"

namespace boreas {
namespace {

constexpr int32_t kKeyGain = 5;
constexpr int32_t kSlidingGain = 10, kEdgeGain = 4;
constexpr int32_t kFullGain = 16, kEndGain = 5;

// log2
int32_t value_gain(const ModelConfig& config, int32_t position, bool sliding, int64_t at) {
  if (sliding) {
    const int64_t oldest = position - (config.window - 1);
    return kSlidingGain + (at == oldest || at == oldest - 1 ? kEdgeGain : 0);
  }
  const int64_t page = at / kPagePositions;
  return kFullGain + (page == 0 || page == position / kPagePositions ? kEndGain : 0);
}

// In elements from the start of one layer and head's part of a page; `row` is the position in the page.
int32_t element_place(PageLayout layout, const ModelConfig& config, bool value, int32_t row, int32_t dim) {
  if (layout == PageLayout::kTiles) return (value ? v_offset(row, dim) : k_offset(row, dim)) / 2;
  return ((value ? kPagePositions : 0) + row) * config.head_dim + dim;
}

// Positions first ... of one layer and all its heads.
void place_layer(const ModelConfig& config, bool value, int64_t first, PageLayout layout, std::span<const bf16> values,
                 bf16* out) {
  const int32_t head_elements = 2 * kPagePositions * config.head_dim;
  const int32_t rows = static_cast<int32_t>(values.size()) / config.kv_width();
  size_t next = 0;
  for (int32_t i = 0; i < rows; ++i) {
    const int32_t row = static_cast<int32_t>((first + i) % kPagePositions);
    for (int32_t head = 0; head < config.kv_heads; ++head)
      for (int32_t dim = 0; dim < config.head_dim; ++dim)
        out[head * head_elements + element_place(layout, config, value, row, dim)] = values[next++];
  }
}

}  // namespace

std::vector<bf16> loud_kv(const ModelConfig& config, int32_t position, int32_t layer, bool value, int64_t first,
                          int64_t count) {
  const bool sliding = config.layers[static_cast<size_t>(layer)].sliding;
  std::vector<bf16> values = seeded_kv(config, layer, value, first, count);
  const size_t width = static_cast<size_t>(config.kv_width());
  for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
    const int64_t at = first + static_cast<int64_t>(row);
    const int32_t gain = value ? value_gain(config, position, sliding, at) : kKeyGain;
    // No element is zero, so a factor of 2^gain is a step of the exponent.
    for (size_t i = row * width; i < (row + 1) * width; ++i) values[i] = static_cast<bf16>(values[i] + (gain << 7));
  }
  return values;
}

void fill_loud_page(const ModelConfig& config, int32_t position, PagePoolKind pool, int32_t page, PageLayout layout,
                    std::span<std::byte> out) {
  CHECK(layout == PageLayout::kRows || config.head_dim == kKvHeadDim);
  std::memset(out.data(), 0xff, out.size());
  const bool sliding = pool == PagePoolKind::kSliding;
  const int64_t oldest = sliding ? std::max(0, position - config.window) : 0;
  const int64_t first = std::max(oldest, int64_t{page} * kPagePositions);
  const int64_t end = std::min<int64_t>(position, (int64_t{page} + 1) * kPagePositions);
  const size_t layer_bytes = static_cast<size_t>(config.kv_width()) * 2 * kPagePositions * sizeof(bf16);
  size_t at = 0;
  for (int32_t layer = 0; layer < config.layer_count(); ++layer) {
    if (config.layers[static_cast<size_t>(layer)].sliding != sliding) continue;
    CHECK(at + layer_bytes <= out.size());
    for (const bool value : {false, true}) {
      if (first >= end) break;
      const std::vector<bf16> values = loud_kv(config, position, layer, value, first, end - first);
      place_layer(config, value, first, layout, values, reinterpret_cast<bf16*>(out.data() + at));
    }
    at += layer_bytes;
  }
  CHECK(at == out.size());
}

}  // namespace boreas
