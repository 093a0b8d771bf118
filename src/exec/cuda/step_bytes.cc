#include "exec/cuda/step_bytes.h"

#include <algorithm>

#include "program/compile.h"

namespace boreas::cuda {
namespace {

constexpr int64_t kBytesBf16 = 2;

}  // namespace

StepBytes::StepBytes(const ModelConfig& config)
    : expert_(int64_t{3} * config.expert_width * config.hidden_size * kBytesBf16),
      hidden_row_(config.hidden_size * kBytesBf16),
      kv_row_(int64_t{2} * config.kv_width() * kBytesBf16),
      full_layers_(config.full_layers()),
      sliding_layers_(config.sliding_layers()),
      window_(config.window),
      experts_(config.experts),
      experts_per_token_(config.experts_per_token) {
  fixed_ = weight_bytes(config);
  moe_layers_ = config.moe_layers();
  fixed_ -= int64_t{moe_layers_} * config.experts * expert_;
}

int64_t StepBytes::of(const LaunchPlan& launch, int32_t distinct_experts) const {
  if (distinct_experts == 0 && moe_layers_ > 0) return 0;
  int64_t bytes = fixed_ + distinct_experts * expert_ + launch.rows * hidden_row_;
  for (int32_t i = 0; i < launch.rows; ++i) {
    const RowPlan& row = launch.row[static_cast<size_t>(i)];
    const bool last_of_group = i + 1 == launch.rows || launch.row[static_cast<size_t>(i) + 1].group_first == i + 1;
    if (!last_of_group) continue;
    const int32_t first_position = launch.row[static_cast<size_t>(row.group_first)].position;
    const int64_t sliding = row.position + 1 - first_visible(first_position, true, window_);
    bytes += kv_row_ * (full_layers_ * (int64_t{row.position} + 1) + sliding_layers_ * sliding);
  }
  return bytes;
}

int64_t StepBytes::most(const LaunchPlan& launch) const {
  return of(launch, static_cast<int32_t>(experts_max(launch.rows)));
}

int64_t StepBytes::weights_of(int64_t tokens) const { return fixed_ + experts_max(tokens) * expert_; }

int64_t StepBytes::experts_max(int64_t tokens) const {
  return moe_layers_ * std::min<int64_t>(experts_, tokens * experts_per_token_);
}

}  // namespace boreas::cuda
