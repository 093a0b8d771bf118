// Body of qkv: see program/ops/qkv.h.
#include "exec/cpu/products.h"

namespace boreas::cpu {
namespace {

// y: [rows, range.count] of one head's q, k or v, whose rows begin at `range.first` of the head. Rotates adjacent pairs
// if asked, rounds, and stores at offset `at` of the head's part of the hop.
void rotate_and_publish(OpContext& context, const TaskDesc& task, const std::vector<float>& y, Range range, bool rotate,
                        int32_t head, int32_t at) {
  const ModelConfig& config = context.config();
  const int64_t width = int64_t{config.queries_per_kv() + 2} * config.head_dim;
  bf16* payload = context.publish_payload<bf16>(task);
  const Block& block = context.shared.block;
  const int32_t pairs = config.head_dim / 2;
  for (int32_t row = 0; row < context.rows(); ++row) {
    const float* source = y.data() + int64_t{row} * range.count;
    bf16* out = payload + (int64_t{row} * config.kv_heads + head) * width + at + range.first;
    for (int32_t i = 0; i < range.count; i += 2) {
      float even = source[i], odd = source[i + 1];
      if (rotate) {
        const size_t angle =
            static_cast<size_t>(row) * static_cast<size_t>(pairs) + static_cast<size_t>((range.first + i) / 2 % pairs);
        const float cosine = block.rope_cos[angle], sine = block.rope_sin[angle];
        even = source[i] * cosine - source[i + 1] * sine;
        odd = source[i + 1] * cosine + source[i] * sine;
      }
      out[i] = float_to_bf16(even);
      out[i + 1] = float_to_bf16(odd);
    }
  }
}

}  // namespace

void run_kQkv(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  const WeightTable& weights = context.shared.model->weights();
  const int32_t* args = task.args;
  const int32_t dim = config.head_dim, queries = config.queries_per_kv() * dim;
  const bool rope = args[QkvOp::kRope] != 0;
  struct Part {
    WeightRole role;
    Range range;
    int32_t rows_per_head, at;
    bool rotate;
  };
  const Part parts[] = {
      {WeightRole::kQuery, {args[QkvOp::kQFirst], args[QkvOp::kQCount]}, queries, 0, rope},
      {WeightRole::kKey, {args[QkvOp::kKFirst], args[QkvOp::kKCount]}, dim, queries, rope},
      {WeightRole::kValue, {args[QkvOp::kVFirst], args[QkvOp::kVCount]}, dim, queries + dim, false},
  };
  std::vector<float>& y = context.worker.scratch_a;
  for (int32_t head = args[QkvOp::kHeadFirst]; head < args[QkvOp::kHeadFirst] + args[QkvOp::kHeadCount]; ++head) {
    for (const Part& part : parts) {
      const Range rows{head * part.rows_per_head + part.range.first, part.range.count};
      multiply_rows(context, weights.at(part.role, task.layer), rows, normed_rows(context), y);
      rotate_and_publish(context, task, y, part.range, part.rotate, head, part.at);
    }
  }
}

}  // namespace boreas::cpu
