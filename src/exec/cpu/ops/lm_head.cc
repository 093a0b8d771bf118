// Body of lm_head: see program/ops/lm_head.h.
#include "exec/cpu/products.h"

namespace boreas::cpu {

void run_kLmHead(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  const std::vector<int32_t>& wanted = context.shared.block.logits_rows;
  const Range own{task.args[LmHeadOp::kFirst], task.args[LmHeadOp::kCount]};
  if (wanted.empty() || own.count == 0) return;
  std::vector<const float*>& x = context.worker.pointers;
  x.clear();
  for (int32_t row : wanted) x.push_back(context.worker.normed.data() + int64_t{row} * padded(config.hidden_size));
  std::vector<float>& y = context.worker.scratch_a;
  multiply_rows(context, context.shared.model->weights().at(WeightRole::kEmbedding), own, x, y);
  for (size_t i = 0; i < wanted.size(); ++i) {
    float* out = context.shared.logits.data() + i * static_cast<size_t>(config.vocab_size) + own.first;
    const float* in = y.data() + i * static_cast<size_t>(own.count);
    for (int32_t v = 0; v < own.count; ++v) out[v] = in[v] * config.logit_scale;
  }
}

}  // namespace boreas::cpu
