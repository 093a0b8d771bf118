// Body of embed: see program/ops/embed.h.
#include "exec/cpu/state.h"

namespace boreas::cpu {

void run_kEmbed(OpContext& context, const TaskDesc& task) {
  const int32_t first = task.args[EmbedOp::kFirst], count = task.args[EmbedOp::kCount];
  const int32_t hidden = context.config().hidden_size;
  const TensorView& embedding = context.shared.model->weights().at(WeightRole::kEmbedding);
  bf16* published = context.publish_payload<bf16>(task);
  float* residual = context.worker.residual.data();
  for (int32_t row = 0; row < context.rows(); ++row) {
    const bf16* source = embedding.bf16_row(context.shared.block.tokens[static_cast<size_t>(row)]) + first;
    for (int32_t i = 0; i < count; ++i) {
      residual[int64_t{row} * count + i] = bf16_to_float(source[i]);
      published[int64_t{row} * hidden + first + i] = source[i];
    }
  }
}

}  // namespace boreas::cpu
