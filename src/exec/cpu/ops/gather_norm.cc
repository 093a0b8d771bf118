// Body of gather_norm: see program/ops/gather_norm.h. The sum of squares is a canonical dot product; y = (x * rstd) * w
// rounds twice in fp32, then once to bf16.
#include <cmath>

#include "exec/cpu/state.h"

namespace boreas::cpu {

void run_kGatherNorm(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  const int32_t hidden = config.hidden_size;
  const WeightTable& weights = context.shared.model->weights();
  const TensorView& norm =
      task.layer < 0 ? weights.at(WeightRole::kFinalNorm) : weights.at(WeightRole::kInputNorm, task.layer);
  const bf16* weight = norm.bf16_row(0);
  const bf16* gathered = context.wait_payload<const bf16>(task);
  std::vector<bf16> normed(static_cast<size_t>(hidden));
  for (int32_t row = 0; row < context.rows(); ++row) {
    const bf16* x = gathered + int64_t{row} * hidden;
    const float mean = context.shared.kernels->sum_squares(x, hidden) / static_cast<float>(hidden);
    const float rstd = 1.0f / std::sqrt(mean + config.rms_norm_eps);
    for (int32_t i = 0; i < hidden; ++i)
      normed[static_cast<size_t>(i)] = float_to_bf16((bf16_to_float(x[i]) * rstd) * bf16_to_float(weight[i]));
    context.shared.kernels->pack(normed.data(), hidden, context.worker.normed.data() + int64_t{row} * padded(hidden));
  }
}

}  // namespace boreas::cpu
