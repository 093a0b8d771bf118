// Which weights a config has, their shapes, and the table that holds a view of each. Called through the door (model.h).
//
// Table layout: [embedding, final norm] then per layer [9 single tensors | 3 x experts]; a layer keeps empty views for
// the MLP kind it does not have.
#include "base/check.h"
#include "model/model.h"

namespace boreas {
namespace {

constexpr size_t kGlobalTensors = 2;
constexpr size_t kSinglesPerLayer = 9;

// Position of a per-layer role among the single tensors of a layer, or -1.
constexpr int single_index(WeightRole role) {
  switch (role) {
    case WeightRole::kInputNorm:
      return 0;
    case WeightRole::kQuery:
      return 1;
    case WeightRole::kKey:
      return 2;
    case WeightRole::kValue:
      return 3;
    case WeightRole::kOutput:
      return 4;
    case WeightRole::kRouter:
      return 5;
    case WeightRole::kDenseGate:
      return 6;
    case WeightRole::kDenseUp:
      return 7;
    case WeightRole::kDenseDown:
      return 8;
    default:
      return -1;
  }
}

constexpr int expert_role_index(WeightRole role) {
  if (role == WeightRole::kExpertGate) return 0;
  if (role == WeightRole::kExpertUp) return 1;
  return role == WeightRole::kExpertDown ? 2 : -1;
}

}  // namespace

WeightTable::WeightTable(const ModelConfig& config) : layers_(config.layer_count()), experts_(config.experts) {
  CHECK(layers_ >= 0 && experts_ >= 0);
  views_.resize(kGlobalTensors + static_cast<size_t>(layers_) * (kSinglesPerLayer + 3 * static_cast<size_t>(experts_)));
}

size_t WeightTable::index(WeightRole role, int32_t layer, int32_t expert) const {
  if (role == WeightRole::kEmbedding) return 0;
  if (role == WeightRole::kFinalNorm) return 1;
  CHECK(layer >= 0 && layer < layers_);
  const size_t experts = static_cast<size_t>(experts_);
  const size_t base = kGlobalTensors + static_cast<size_t>(layer) * (kSinglesPerLayer + 3 * experts);
  const int single = single_index(role);
  if (single >= 0) return base + static_cast<size_t>(single);
  CHECK(expert >= 0 && expert < experts_);
  const int part = expert_role_index(role);
  CHECK(part >= 0);
  return base + kSinglesPerLayer + static_cast<size_t>(expert) * 3 + static_cast<size_t>(part);
}

const TensorView& WeightTable::at(WeightRole role, int32_t layer, int32_t expert) const {
  return views_[index(role, layer, expert)];
}

void WeightTable::set(WeightRole role, int32_t layer, int32_t expert, const TensorView& view) {
  views_[index(role, layer, expert)] = view;
}

int64_t WeightTable::total_bytes() const {
  int64_t bytes = 0;
  for (const TensorView& view : views_) {
    if (!view.empty()) bytes += static_cast<int64_t>(view.bytes());
  }
  return bytes;
}

WeightShape weight_shape(const ModelConfig& config, WeightRole role) {
  const int64_t hidden = config.hidden_size;
  switch (role) {
    case WeightRole::kEmbedding:
      return {config.vocab_size, hidden};
    case WeightRole::kFinalNorm:
    case WeightRole::kInputNorm:
      return {1, hidden};
    case WeightRole::kQuery:
      return {config.query_width(), hidden};
    case WeightRole::kKey:
    case WeightRole::kValue:
      return {config.kv_width(), hidden};
    case WeightRole::kOutput:
      return {hidden, config.query_width()};
    case WeightRole::kRouter:
      return {config.experts, hidden};
    case WeightRole::kExpertGate:
    case WeightRole::kExpertUp:
      return {config.expert_width, hidden};
    case WeightRole::kExpertDown:
      return {hidden, config.expert_width};
    case WeightRole::kDenseGate:
    case WeightRole::kDenseUp:
      return {config.dense_width, hidden};
    case WeightRole::kDenseDown:
      return {hidden, config.dense_width};
  }
  CHECK(false);
  return {};
}

std::vector<WeightKey> weight_keys(const ModelConfig& config) {
  std::vector<WeightKey> keys;
  keys.push_back({WeightRole::kEmbedding, 0, 0});
  for (int32_t layer = 0; layer < config.layer_count(); ++layer) {
    for (const WeightRole role :
         {WeightRole::kInputNorm, WeightRole::kQuery, WeightRole::kKey, WeightRole::kValue, WeightRole::kOutput}) {
      keys.push_back({role, layer, 0});
    }
    if (!config.is_moe(layer)) {
      for (const WeightRole role : {WeightRole::kDenseGate, WeightRole::kDenseUp, WeightRole::kDenseDown}) {
        keys.push_back({role, layer, 0});
      }
      continue;
    }
    keys.push_back({WeightRole::kRouter, layer, 0});
    for (int32_t expert = 0; expert < config.experts; ++expert) {
      for (const WeightRole role : {WeightRole::kExpertGate, WeightRole::kExpertUp, WeightRole::kExpertDown}) {
        keys.push_back({role, layer, expert});
      }
    }
  }
  keys.push_back({WeightRole::kFinalNorm, 0, 0});
  return keys;
}

}  // namespace boreas
