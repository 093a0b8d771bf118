// FILTER on the device. A row's best entry of all stays in shared memory for SAMPLE, with the row's own worker; where
// the row filters, with every worker, which then publishes two words: the mass of its slice and how many entries come
// before the best, and the mass of these. Rows that don't filter publish nothing.
#pragma once

#include "exec/cuda/drawing.cuh"
#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
BOREAS_DEVICE bool row_filters(const Worker<C>& w, int32_t row) {
  const RowPlan& plan = w.params.row[row];
  return plan.sample == kSampleDraw && plan.draw.filters();
}

template <class C>
struct Body<C, Op::kFilter> {
  static BOREAS_DEVICE void run(Worker<C>& w, const Task& task) {
    if (!is_concerned(w)) return;
    const HopWait wait = task.wait();
    const uint32_t epoch = hop_epoch(w.params, wait.hop, wait.use);
    w.wait_own_publication(wait);
    find_best(w, wait, epoch);
    fence_gpu();  // partner: LM_HEAD's fence
    named_barrier(kMessengersMeet, kMessengerThreads);
    if (!weigh(w, {task.arg(FilterOp::kFirst), task.arg(FilterOp::kCount)})) return;
    named_barrier(kMessengersMeet, kMessengerThreads);
    publish(w, task);
  }

 private:
  // With whom the row's best entry must be.
  static BOREAS_DEVICE bool is_concerned(const Worker<C>& w, int32_t row) {
    return row % C::kWorkers == w.worker() || row_filters(w, row);
  }
  static BOREAS_DEVICE bool is_concerned(const Worker<C>& w) {
    bool concerned = false;
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) concerned |= is_concerned(w, row);
    return concerned;
  }

  // Of all workers, a row's best by warp.
  static BOREAS_DEVICE void find_best(const Worker<C>& w, const HopWait& wait, uint32_t epoch) {
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) {
      if (!is_concerned(w, row)) continue;
      Best best;
      gather_words<kMessengerThreads, 1>(
          w.params, w.at, w.messenger_thread(), C::kWorkers, wait.hop, epoch,
          [&](int32_t i) { return row * C::kWorkers + i; },
          [&](int32_t, int32_t, const Word& word) {
            best.merge({word.payload[0] | static_cast<uint64_t>(word.payload[1]) << 32, word.payload[2]});
          });
      warp_sync();
      merge_lanes(best);
      store_part(w, best_parts(w, row), best);
    }
  }
  // Of the own slice, by warp; whether there was anything to weigh.
  static BOREAS_DEVICE bool weigh(const Worker<C>& w, Range own) {
    bool any = false;
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) {
      if (!row_filters(w, row)) continue;
      any = true;
      const Best best = merged<Best>(best_parts(w, row));
      if (best.order == kNotFinite) continue;
      Weights weights = weigh_entries(w, row, own, Candidate(w, row, best));
      merge_lanes(weights);
      store_part(w, weight_parts(w, row), weights);
    }
    return any;
  }
  static BOREAS_DEVICE void publish(Worker<C>& w, const Task& task) {
    const Publication to = begin_publication(w, task);
    const int32_t row = w.messenger_thread();
    if (row >= w.rows() || !row_filters(w, row) || is_silent(w, task)) return;
    if (merged<Best>(best_parts(w, row)).order == kNotFinite) return;
    const Weights weights = merged<Weights>(weight_parts(w, row));
    Word* words = to.half + (row * C::kWorkers + w.worker()) * kMassWords;
    store_word(words, static_cast<uint32_t>(weights.total), static_cast<uint32_t>(weights.total >> 32), weights.count,
               to.epoch);
    store_word(words + 1, static_cast<uint32_t>(weights.before), static_cast<uint32_t>(weights.before >> 32), 0,
               to.epoch);
  }
};

}  // namespace boreas::cuda
