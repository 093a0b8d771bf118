// LM_HEAD on the device: fp32 logits of the own vocabulary slice to global memory, then a word a row: the best of them
// (drawing.cuh) and the largest. All rows are computed; a row that wants no logits costs no bytes.
#pragma once

#include "exec/cuda/drawing.cuh"
#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kLmHead> {
  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const Range own{task.arg(LmHeadOp::kFirst), task.arg(LmHeadOp::kCount)};
    const int32_t row = w.consumer_thread() % kRowsMax;  // of this thread; beyond the plan's rows it has nothing to do
    stream_products<C::kHidden, 0, kHeightsOfSlices<C::kVocabulary, C::kWorkers>>(
        w, stream, 1, own.count, rows_operand(w, Slot::kNormed), [&](int32_t begin, int32_t rows, const auto& sums) {
          if (row >= w.rows()) return;
          for (int32_t i = w.consumer_thread() / kRowsMax; i < rows; i += kConsumerThreads / kRowsMax) {
            const float logit = sums.sum(i * w.rows() + row, own.count, begin + i) * w.params.logit_scale;
            w.params.logits[static_cast<int64_t>(row) * C::kVocabulary + own.first + begin + i] = logit;
          }
        });
    named_barrier(kConsumersMeet, kConsumerThreads);
    find_best(w, own);
    fence_gpu();  // partner: FILTER's fence after it has read the word
    named_barrier(kConsumersMeet, kConsumerThreads);
    publish_best(w, task);
  }

 private:
  // [rows][warps] parts.
  static BOREAS_DEVICE uint32_t part_address(const Worker<C>& w, int32_t row, int32_t warp) {
    return w.scratch(&ScratchMap::partials) + (row * kConsumerWarps + warp) * kPartBytes;
  }
  static_assert(kRowsMax * kConsumerWarps * kPartBytes <= 2 * partial_bytes(1));

  static BOREAS_DEVICE void find_best(const Worker<C>& w, Range own) {
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) {
      Best best = best_of_entries(w, row, own);
      merge_lanes(best);
      if (w.lane() == 0) best.store(part_address(w, row, w.warp()));
    }
  }

  static BOREAS_DEVICE void publish_best(Worker<C>& w, const Task& task) {
    const int32_t row = w.consumer_thread();
    const Publication to = begin_publication(w, task);
    if (row >= w.rows() || is_silent(w, task)) return;
    Best best;
    for (int32_t warp = 0; warp < kConsumerWarps; ++warp) best.merge(Best::load(part_address(w, row, warp)));
    store_word(to.half + row * C::kWorkers + w.worker(), static_cast<uint32_t>(best.order),
               static_cast<uint32_t>(best.order >> 32), best.largest, to.epoch);
  }
};

}  // namespace boreas::cuda
