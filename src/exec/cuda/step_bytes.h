// Bytes that a launch must read from device memory, for StepResult: weights that every step streams, the experts that
// were really hit (counted by the device), KV rows in sight, embedding rows.
#pragma once

#include <cstdint>

#include "exec/cuda/step_builder.h"
#include "model/model.h"

namespace boreas::cuda {

class StepBytes {
 public:
  StepBytes() = default;
  explicit StepBytes(const ModelConfig& config);
  // distinct_experts: summed over layers. Rows of one sequence read its KV rows once. 0: the device did not count the
  // experts, though it must have hit some.
  int64_t of(const LaunchPlan& launch, int32_t distinct_experts) const;
  // If no two rows hit the same expert.
  int64_t most(const LaunchPlan& launch) const;
  // Of the weights alone, for so many tokens that hit as many experts as they can.
  int64_t weights_of(int64_t tokens) const;

 private:
  int64_t experts_max(int64_t tokens) const;  // distinct ones, summed over layers

  int64_t fixed_ = 0, expert_ = 0, hidden_row_ = 0;
  int64_t kv_row_ = 0;  // of one layer: K and V of one position
  int32_t full_layers_ = 0, sliding_layers_ = 0, moe_layers_ = 0, window_ = 0;
  int32_t experts_ = 0, experts_per_token_ = 0;
};

}  // namespace boreas::cuda
