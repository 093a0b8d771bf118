// Body of attention: see program/ops/attention.h. Rows of one sequence attend together, page by page; what a row
// computes does not depend on the others.
#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/cpu/exp2.h"
#include "exec/cpu/state.h"

namespace boreas::cpu {
namespace {

class Attend {
 public:
  Attend(OpContext& context, const TaskDesc& task, int32_t head)
      : context_(context),
        config_(context.config()),
        task_(task),
        head_(head),
        sliding_(task.args[AttentionOp::kSliding] != 0),
        queries_(config_.queries_per_kv()),
        dim_(config_.head_dim),
        width_(padded(config_.head_dim)),
        pieces_{task.args[AttentionOp::kPieceFirst], task.args[AttentionOp::kPieceCount]} {}

  void run() {
    for (const BlockSequence& sequence : context_.shared.block.sequences) append(sequence);
    for (const BlockSequence& sequence : context_.shared.block.sequences) {
      pack_queries(sequence);
      for (int32_t piece = pieces_.first; piece < pieces_.end(); ++piece) attend_piece(sequence, piece);
    }
  }

 private:
  // This row's q heads, k and v as bf16, in the qkv slot.
  const bf16* slot_row(int32_t row) const {
    const int32_t heads = task_.args[AttentionOp::kHeadCount], local = head_ - task_.args[AttentionOp::kHeadFirst];
    return context_.worker.qkv.data() + (int64_t{row} * heads + local) * (queries_ + 2) * dim_;
  }
  int32_t position(int32_t row) const { return context_.shared.block.positions[static_cast<size_t>(row)]; }
  bf16* page_rows(const BlockSequence& sequence, int32_t page, int32_t k_or_v) const {
    const PageId id = sliding_ ? sequence.sliding_pages[static_cast<size_t>(page - sequence.sliding_first)]
                               : sequence.full_pages[static_cast<size_t>(page)];
    return context_.shared.page(sliding_, id, task_.layer, head_, k_or_v);
  }

  void append(const BlockSequence& sequence) const {
    for (int32_t row = sequence.row_first; row < sequence.row_first + sequence.row_count; ++row) {
      const int32_t page = position(row) / kPagePositions, offset = position(row) % kPagePositions;
      const int32_t piece = page % kAttentionPieces;
      if (piece < pieces_.first || piece >= pieces_.end()) continue;
      const bf16* source = slot_row(row) + int64_t{queries_} * dim_;
      std::copy_n(source, dim_, page_rows(sequence, page, 0) + int64_t{offset} * dim_);
      std::copy_n(source + dim_, dim_, page_rows(sequence, page, 1) + int64_t{offset} * dim_);
    }
  }

  void pack_queries(const BlockSequence& sequence) {
    Worker& worker = context_.worker;
    const size_t states = static_cast<size_t>(sequence.row_count) * static_cast<size_t>(queries_);
    worker.scratch_a.resize(states * static_cast<size_t>(width_));
    worker.pointers.resize(states);
    for (size_t i = 0; i < states; ++i) {
      const int32_t row = sequence.row_first + static_cast<int32_t>(i) / queries_,
                    query = static_cast<int32_t>(i) % queries_;
      float* packed_q = worker.scratch_a.data() + i * static_cast<size_t>(width_);
      context_.shared.kernels->pack(slot_row(row) + int64_t{query} * dim_, dim_, packed_q);
      worker.pointers[i] = packed_q;
    }
    worker.softmax_maximum.resize(states);
    worker.softmax_sum.resize(states);
    worker.softmax_output.resize(states * static_cast<size_t>(width_));
    worker.key_first.resize(states);
    worker.key_end.resize(states);
    worker.scratch_b.resize(static_cast<size_t>(kPagePositions) * static_cast<size_t>(width_));
    worker.scratch_c.resize(states * kPagePositions);
  }

  void attend_piece(const BlockSequence& sequence, int32_t piece) {
    const int32_t first_position = position(sequence.row_first);
    const int32_t last_position = first_position + sequence.row_count - 1;
    const int32_t page_first = first_visible(first_position, sliding_, config_.window) / kPagePositions;
    const int32_t page_last = last_position / kPagePositions;
    if (!piece_has_pages(piece, page_first, page_last)) return;
    Worker& worker = context_.worker;
    std::fill(worker.softmax_maximum.begin(), worker.softmax_maximum.end(), -std::numeric_limits<float>::infinity());
    std::fill(worker.softmax_sum.begin(), worker.softmax_sum.end(), 0.0f);
    std::fill(worker.softmax_output.begin(), worker.softmax_output.end(), 0.0f);
    const int32_t distance = (piece - page_first % kAttentionPieces + kAttentionPieces) % kAttentionPieces;
    for (int32_t page = page_first + distance; page <= page_last; page += kAttentionPieces) attend_page(sequence, page);
    publish(sequence, piece);
  }

  // The rows that see a page are contiguous: positions from the page's first on, until the window has left it behind.
  void attend_page(const BlockSequence& sequence, int32_t page) {
    Worker& worker = context_.worker;
    const int32_t base = page * kPagePositions;
    int32_t begin = sequence.row_count, end = 0;
    for (int32_t i = 0; i < sequence.row_count; ++i) {
      const int32_t at = position(sequence.row_first + i);
      const int32_t key_first = std::max(0, first_visible(at, sliding_, config_.window) - base);
      const int32_t key_end = std::min(kPagePositions, at - base + 1);
      if (key_first >= key_end) continue;
      begin = std::min(begin, i);
      end = i + 1;
      for (int32_t query = 0; query < queries_; ++query) {
        worker.key_first[static_cast<size_t>(i * queries_ + query)] = key_first;
        worker.key_end[static_cast<size_t>(i * queries_ + query)] = key_end;
      }
    }
    if (begin >= end) return;
    const bf16* values = page_rows(sequence, page, 1);
    for (int32_t key = 0; key < kPagePositions; ++key)
      context_.shared.kernels->pack(values + int64_t{key} * dim_, dim_,
                                    worker.scratch_b.data() + int64_t{key} * width_);
    const int64_t state = int64_t{begin} * queries_;
    AttendArgs args;
    args.keys = page_rows(sequence, page, 0);
    args.values = worker.scratch_b.data();
    args.head_dim = dim_;
    args.q = worker.pointers.data() + state;
    args.queries = (end - begin) * queries_;
    args.key_first = worker.key_first.data() + state;
    args.key_end = worker.key_end.data() + state;
    args.scale_log2 = kLog2E / std::sqrt(static_cast<float>(dim_));
    args.scores = worker.scratch_c.data();
    args.maximum = worker.softmax_maximum.data() + state;
    args.sum = worker.softmax_sum.data() + state;
    args.output = worker.softmax_output.data() + state * width_;
    context_.shared.kernels->attend(args);
    worker.bytes_read += int64_t{2} * kPagePositions * dim_ * static_cast<int64_t>(sizeof(bf16));
  }

  // Whether the row sees a page of the piece; the merge asks the same question, whatever the scores were.
  bool sees(int32_t row, int32_t piece) const {
    const int32_t page_first = first_visible(position(row), sliding_, config_.window) / kPagePositions;
    return piece_has_pages(piece, page_first, position(row) / kPagePositions);
  }

  // Rows that see none of this piece's pages publish nothing.
  void publish(const BlockSequence& sequence, int32_t piece) const {
    const Worker& worker = context_.worker;
    float* payload = context_.publish_payload<float>(task_);
    for (int32_t i = 0; i < sequence.row_count; ++i) {
      const int64_t row = sequence.row_first + i;
      if (!sees(sequence.row_first + i, piece)) continue;
      for (int32_t query = 0; query < queries_; ++query) {
        const size_t state = static_cast<size_t>(i * queries_ + query);
        float* out =
            payload + (((row * config_.kv_heads + head_) * kAttentionPieces + piece) * queries_ + query) * (dim_ + 2);
        out[0] = worker.softmax_maximum[state];
        out[1] = worker.softmax_sum[state];
        context_.shared.kernels->unpack(worker.softmax_output.data() + state * static_cast<size_t>(width_), dim_,
                                        out + 2);
      }
    }
  }

  OpContext& context_;
  const ModelConfig& config_;
  const TaskDesc& task_;
  int32_t head_;
  bool sliding_;
  int32_t queries_, dim_, width_;
  Range pieces_;
};

}  // namespace

void run_kAttention(OpContext& context, const TaskDesc& task) {
  const int32_t first = task.args[AttentionOp::kHeadFirst];
  for (int32_t head = first; head < first + task.args[AttentionOp::kHeadCount]; ++head)
    Attend(context, task, head).run();
}

}  // namespace boreas::cpu
