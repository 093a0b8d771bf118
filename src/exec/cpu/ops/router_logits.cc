// Body of router_logits: see program/ops/router_logits.h.
#include "exec/cpu/products.h"

namespace boreas::cpu {

void run_kRouterLogits(OpContext& context, const TaskDesc& task) {
  const int32_t first = task.args[RouterLogitsOp::kFirst], count = task.args[RouterLogitsOp::kCount];
  const int32_t experts = context.config().experts;
  float* logits = context.publish_payload<float>(task);  // [rows, experts], bf16 values
  const TensorView& router = context.shared.model->weights().at(WeightRole::kRouter, task.layer);
  std::vector<float>& y = context.worker.scratch_a;
  multiply_rows(context, router, {first, count}, normed_rows(context), y);
  for (int32_t row = 0; row < context.rows(); ++row)
    for (int32_t i = 0; i < count; ++i)
      logits[int64_t{row} * experts + first + i] = round_to_bf16(y[static_cast<size_t>(int64_t{row} * count + i)]);
}

}  // namespace boreas::cpu
