// Body of attention_merge: see program/ops/attention_merge.h.
#include <algorithm>
#include <cmath>

#include "exec/cpu/exp2.h"
#include "exec/cpu/state.h"

namespace boreas::cpu {
namespace {

// partials: [pieces, queries, dim + 2] of one row and head. Merges dims [first, end) of one query head.
void merge_query(const float* partials, std::span<const int32_t> pieces, int32_t queries, int32_t query, int32_t dim,
                 int32_t first, int32_t end, bf16* out) {
  const int64_t stride = dim + 2;
  const float scale = kLog2E / std::sqrt(static_cast<float>(dim));
  auto at = [&](int32_t piece) { return partials + (int64_t{piece} * queries + query) * stride; };
  float maximum = at(pieces[0])[0];
  for (int32_t piece : pieces) maximum = std::max(maximum, at(piece)[0]);
  float weights[kAttentionPieces];
  float total = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    weights[i] = exp2_exact_order((at(pieces[i])[0] - maximum) * scale);
    total += weights[i] * at(pieces[i])[1];
  }
  std::vector<float> sums(static_cast<size_t>(end - first), 0.0f);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const float* partial = at(pieces[i]) + 2 + first;
    for (size_t d = 0; d < sums.size(); ++d) sums[d] += weights[i] * partial[d];
  }
  for (size_t d = 0; d < sums.size(); ++d) out[d] = float_to_bf16(sums[d] / total);
}

}  // namespace

void run_kAttentionMerge(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  const int32_t queries = config.queries_per_kv(), dim = config.head_dim;
  const bool sliding = task.args[AttentionMergeOp::kSliding] != 0;
  const Range own{task.args[AttentionMergeOp::kFirst], task.args[AttentionMergeOp::kCount]};
  const float* payload = context.wait_payload<const float>(task);
  bf16* published = context.publish_payload<bf16>(task);
  const int32_t head_first = task.args[AttentionMergeOp::kHeadFirst];
  for (int64_t row = 0; row < context.rows(); ++row) {
    const int32_t position = context.shared.block.positions[static_cast<size_t>(row)];
    const int32_t page_first = first_visible(position, sliding, config.window) / kPagePositions;
    int32_t pieces[kAttentionPieces];
    size_t count = 0;
    for (int32_t piece = 0; piece < kAttentionPieces; ++piece)
      if (piece_has_pages(piece, page_first, position / kPagePositions)) pieces[count++] = piece;
    for (int32_t head = head_first; head < head_first + task.args[AttentionMergeOp::kHeadCount]; ++head) {
      const float* partials = payload + (row * config.kv_heads + head) * kAttentionPieces * queries * (dim + 2);
      for (int32_t first = own.first; first < own.end();) {
        const int32_t query = first / dim, end = std::min(own.end(), (query + 1) * dim);
        bf16* out = published + row * config.query_width() + int64_t{head} * queries * dim + first;
        merge_query(partials, {pieces, count}, queries, query, dim, first - query * dim, end - query * dim, out);
        first = end;
      }
    }
  }
}

}  // namespace boreas::cpu
