// Body of up_gate: see program/ops/up_gate.h.
#include "exec/cpu/exp2.h"
#include "exec/cpu/products.h"

namespace boreas::cpu {
namespace {

// inner = silu(gate) * up, one rounding.
bf16 swiglu(float gate, float up) { return float_to_bf16((gate * sigmoid(gate)) * up); }

// gate and up: [tokens, count]; token i's result goes to row pairs[i] (or i) of the hop's [.., width].
void publish(bf16* payload, int32_t width, Range own, const std::vector<float>& gate, const std::vector<float>& up,
             std::span<const int32_t> pairs, int32_t tokens) {
  for (int32_t t = 0; t < tokens; ++t) {
    bf16* out = payload + int64_t{pairs.empty() ? t : pairs[static_cast<size_t>(t)]} * width + own.first;
    for (int32_t i = 0; i < own.count; ++i) {
      const size_t at = static_cast<size_t>(t) * static_cast<size_t>(own.count) + static_cast<size_t>(i);
      out[i] = swiglu(gate[at], up[at]);
    }
  }
}

}  // namespace

void run_kUpGate(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  const WeightTable& weights = context.shared.model->weights();
  const Range own{task.args[UpGateOp::kFirst], task.args[UpGateOp::kCount]};
  bf16* payload = context.publish_payload<bf16>(task);
  std::vector<float>&gate = context.worker.scratch_a, &up = context.worker.scratch_b;
  if (task.args[UpGateOp::kRouteSlot] < 0) {
    multiply_rows(context, weights.at(WeightRole::kDenseGate, task.layer), own, normed_rows(context), gate);
    multiply_rows(context, weights.at(WeightRole::kDenseUp, task.layer), own, normed_rows(context), up);
    publish(payload, config.dense_width, own, gate, up, {}, context.rows());
    return;
  }
  const Route& route = context.worker.routes[task.args[UpGateOp::kRouteSlot] == static_cast<int32_t>(Slot::kRouteOdd)];
  std::vector<const float*>& x = context.worker.pointers;
  for (int32_t e = 0; e < config.experts; ++e) {
    const std::span<const int32_t> pairs = pairs_of_expert(route, e);
    if (pairs.empty()) continue;
    x.clear();
    for (int32_t pair : pairs)
      x.push_back(context.worker.normed.data() + int64_t{pair / config.experts_per_token} * padded(config.hidden_size));
    multiply_rows(context, weights.at(WeightRole::kExpertGate, task.layer, e), own, x, gate);
    multiply_rows(context, weights.at(WeightRole::kExpertUp, task.layer, e), own, x, up);
    publish(payload, config.expert_width, own, gate, up, pairs, static_cast<int32_t>(pairs.size()));
  }
}

}  // namespace boreas::cpu
