#include "tests/gpu/seeded_pages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/check.h"
#include "model/dummy_weights.h"
#include "program/weight_tiles.h"

namespace boreas {
namespace {

constexpr int32_t kPageElements = kPagePositions * kKvHeadDim;

// Of element (position, dim) of a page, in elements.
std::array<int32_t, kPageElements> page_places(bool value) {
  std::array<int32_t, kPageElements> places{};
  for (int32_t i = 0; i < kPageElements; ++i) {
    const int32_t position = i / kKvHeadDim, dim = i % kKvHeadDim;
    places[static_cast<size_t>(i)] = (value ? v_offset(position, dim) : k_offset(position, dim)) / 2;
  }
  return places;
}

// Positions [first, end) of the page, of one layer and of all its heads.
void place_kv(const ModelConfig& config, int32_t layer, bool value, int64_t first, int64_t end, bf16* out) {
  static const std::array<int32_t, kPageElements> key_places = page_places(false), value_places = page_places(true);
  const auto& places = value ? value_places : key_places;
  const std::vector<bf16> values = seeded_kv(config, layer, value, first, end - first);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / kKvHeadDim;  // (position, head)
    const int64_t position = (first + row / config.kv_heads) % kPagePositions, head = row % config.kv_heads;
    const size_t element = static_cast<size_t>(position) * kKvHeadDim + i % kKvHeadDim;
    out[head * (kKvPageHeadBytes / 2) + places[element]] = values[i];
  }
}

}  // namespace

std::vector<bf16> seeded_kv(const ModelConfig& config, int32_t layer, bool value, int64_t first, int64_t count) {
  const std::string name = "kv.layer." + std::to_string(layer) + (value ? ".value" : ".key");
  std::vector<bf16> values(static_cast<size_t>(count * config.kv_width()));
  constexpr WeightRole kTwice = WeightRole::kValue;
  static_assert(dummy_exponent(kTwice) == 12);
  fill_dummy(dummy_name_hash(name), kTwice, static_cast<uint64_t>(first * config.kv_width()), values);
  for (bf16& bits : values) bits = static_cast<bf16>(bits - 0x80);  // half of it: s * 2^-13, s odd
  return values;
}

void fill_seeded_page(const ModelConfig& config, PagePoolKind pool, int32_t page, int32_t context,
                      std::span<std::byte> out) {
  CHECK(config.head_dim == kKvHeadDim);
  std::memset(out.data(), 0xff, out.size());
  const bool sliding = pool == PagePoolKind::kSliding;
  const int64_t oldest = sliding ? std::max(0, context - (config.window - 1)) : 0;
  const int64_t first = std::max(oldest, int64_t{page} * kPagePositions);
  const int64_t end = std::min<int64_t>(context, (int64_t{page} + 1) * kPagePositions);
  if (first >= end) return;
  const size_t layer_bytes = static_cast<size_t>(config.kv_heads) * kKvPageHeadBytes;
  size_t at = 0;
  for (int32_t layer = 0; layer < config.layer_count(); ++layer) {
    if (config.layers[static_cast<size_t>(layer)].sliding != sliding) continue;
    for (const bool value : {false, true})
      place_kv(config, layer, value, first, end, reinterpret_cast<bf16*>(out.data() + at));
    at += layer_bytes;
  }
  CHECK(at == out.size());
}

}  // namespace boreas
