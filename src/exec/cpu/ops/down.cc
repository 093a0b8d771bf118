// Body of down: see program/ops/down.h.
#include <algorithm>

#include "exec/cpu/products.h"

namespace boreas::cpu {
namespace {

// mlp[row, i] = sum over the row's experts, ascending, of weight * (W_down inner).
void routed(OpContext& context, const TaskDesc& task, Range own, std::vector<float>& mlp) {
  const ModelConfig& config = context.config();
  const Route& route = context.worker.routes[task.args[DownOp::kRouteSlot] == static_cast<int32_t>(Slot::kRouteOdd)];
  mlp.assign(static_cast<size_t>(context.rows()) * static_cast<size_t>(own.count), 0.0f);
  std::vector<const float*>& x = context.worker.pointers;
  std::vector<float>& y = context.worker.scratch_b;
  for (int32_t e = 0; e < config.experts; ++e) {
    const std::span<const int32_t> pairs = pairs_of_expert(route, e);
    if (pairs.empty()) continue;
    x.clear();
    for (int32_t pair : pairs) x.push_back(context.worker.inner.data() + int64_t{pair} * padded(config.expert_width));
    multiply_rows(context, context.shared.model->weights().at(WeightRole::kExpertDown, task.layer, e), own, x, y);
    for (size_t t = 0; t < pairs.size(); ++t) {
      const float weight = route.weight[static_cast<size_t>(pairs[t])];
      float* sum = mlp.data() + int64_t{pairs[t] / config.experts_per_token} * own.count;
      for (int32_t i = 0; i < own.count; ++i)
        sum[i] += weight * y[t * static_cast<size_t>(own.count) + static_cast<size_t>(i)];
    }
  }
}

// Tests: notes what this layer adds and returns the residual to go on with.
float traced(OpContext& context, int32_t layer, int32_t row, int32_t column, float attention, float mlp, float total) {
  LayerTrace& trace = *context.shared.trace;
  const size_t l = static_cast<size_t>(layer);
  const size_t at = static_cast<size_t>(context.shared.block.positions[static_cast<size_t>(row)]) *
                        static_cast<size_t>(context.config().hidden_size) +
                    static_cast<size_t>(column);
  trace.attention[l][at] = attention;
  trace.mlp[l][at] = mlp;
  trace.residual[l][at] = total;
  return trace.forced_residual != nullptr ? (*trace.forced_residual)[l][at] : total;
}

}  // namespace

void run_kDown(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  const Range own{task.args[DownOp::kFirst], task.args[DownOp::kCount]};
  std::vector<float>& mlp = context.worker.scratch_a;
  if (task.args[DownOp::kRouteSlot] >= 0) {
    routed(context, task, own, mlp);
  } else {
    const TensorView& down = context.shared.model->weights().at(WeightRole::kDenseDown, task.layer);
    multiply_rows(context, down, own, rows_of(context, context.worker.inner, config.dense_width), mlp);
  }
  bf16* published = context.publish_payload<bf16>(task);
  for (int32_t row = 0; row < context.rows(); ++row) {
    for (int32_t i = 0; i < own.count; ++i) {
      const size_t at = static_cast<size_t>(row) * static_cast<size_t>(own.count) + static_cast<size_t>(i);
      float total = (context.worker.residual[at] + context.worker.projected[at]) + mlp[at];
      if (context.shared.trace != nullptr)
        total = traced(context, task.layer, row, own.first + i, context.worker.projected[at], mlp[at], total);
      const bf16 sum = float_to_bf16(total);
      context.worker.residual[at] = bf16_to_float(sum);
      published[int64_t{row} * config.hidden_size + own.first + i] = sum;
    }
  }
}

}  // namespace boreas::cpu
