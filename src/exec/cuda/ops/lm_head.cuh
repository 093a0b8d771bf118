// LM_HEAD on the device: fp32 logits of the own vocabulary slice to global memory, and a word a row: the largest one
// and its id, or a mark that some logit is not finite. All rows are computed; a row that wants no logits costs no
// bytes.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

// A total order of floats as unsigned numbers; what is not finite comes first of all.
BOREAS_DEVICE uint32_t ordered_logit(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return ~0u;
  if (bits == 0x80000000u) bits = 0;  // -0 equals 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
constexpr uint32_t kNotFinite = ~0u;

struct BestLogit {
  uint32_t order = 0;
  int32_t id = 0x7fffffff;
  BOREAS_DEVICE void offer(uint32_t its_order, int32_t its_id) {
    if (its_order < order || (its_order == order && its_id >= id)) return;
    order = its_order;
    id = its_id;
  }
};

template <class C>
struct Body<C, Op::kLmHead> {
  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t first = task.arg(LmHeadOp::kFirst), count = task.arg(LmHeadOp::kCount);
    const int32_t row = w.consumer_thread() % kRowsMax;  // of this thread; beyond the plan's rows it has nothing to do
    BestLogit best;
    stream_products<C::kHidden, 0, kHeightsOfSlices<C::kVocabulary, C::kWorkers>>(
        w, stream, 1, count, rows_operand(w, Slot::kNormed), [&](int32_t begin, int32_t rows, const auto& sums) {
          if (row >= w.rows()) return;
          for (int32_t i = w.consumer_thread() / kRowsMax; i < rows; i += kConsumerThreads / kRowsMax) {
            const float logit = sums.sum(i * w.rows() + row, count, begin + i) * w.params.logit_scale;
            const int32_t id = first + begin + i;
            w.params.logits[static_cast<int64_t>(row) * C::kVocabulary + id] = logit;
            best.offer(ordered_logit(logit), id);
          }
        });
    fence_gpu();  // partner: SAMPLE's fence after it has read the word
    reduce_and_publish(w, task, best);
  }

 private:
  static BOREAS_DEVICE void reduce_and_publish(Worker<C>& w, const Task& task, BestLogit& best) {
    BOREAS_UNROLL
    for (int32_t step = kRowsMax; step < 32; step *= 2) {
      const uint32_t order = shuffle_xor(best.order, step);
      best.offer(order, static_cast<int32_t>(shuffle_xor(static_cast<uint32_t>(best.id), step)));
    }
    const uint32_t scratch = w.scratch(&ScratchMap::partials);  // [warps][kRowsMax] {order, id}
    named_barrier(kConsumersMeet, kConsumerThreads);
    if (w.lane() < kRowsMax) {
      const uint32_t at = scratch + (w.warp() * kRowsMax + w.lane()) * 8;
      store_shared_32(at, best.order);
      store_shared_32(at + 4, static_cast<uint32_t>(best.id));
    }
    named_barrier(kConsumersMeet, kConsumerThreads);
    const int32_t row = w.consumer_thread();
    const Publication to = begin_publication(w, task);
    if (row >= w.rows() || is_silent(w, task)) return;
    BestLogit all;
    for (int32_t warp = 0; warp < kConsumerWarps; ++warp) {
      const Vec2 other = load_shared_64(scratch + (warp * kRowsMax + row) * 8);
      all.offer(other.x, static_cast<int32_t>(other.y));
    }
    store_word(to.half + row * C::kWorkers + w.worker(), all.order, static_cast<uint32_t>(all.id), 0, to.epoch);
  }
};

}  // namespace boreas::cuda
