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
    const HopWait wait = task.wait();
    const uint32_t epoch = hop_epoch(w.params, wait.hop, wait.use);
    bool looked = false;
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) {
      if (!row_filters(w, row) && row % C::kWorkers != w.worker()) continue;
      if (!looked) w.wait_own_publication(wait);
      looked = true;
      const Best best = best_of_all(w, row, wait, epoch);
      if (w.messenger_thread() == 0) best.store(best_address(w, row));
    }
    if (!looked) return;
    named_barrier(kMessengersMeet, kMessengerThreads);
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) {
      if (!row_filters(w, row)) continue;
      const Best best = Best::load(best_address(w, row));
      if (best.order != kNotFinite) publish_weights(w, task, row, best);
    }
  }

 private:
  static BOREAS_DEVICE Best best_of_all(const Worker<C>& w, int32_t row, const HopWait& wait, uint32_t epoch) {
    Best best;
    gather_words<kMessengerThreads, 1>(
        w.params, w.at, w.messenger_thread(), C::kWorkers, wait.hop, epoch,
        [&](int32_t i) { return row * C::kWorkers + i; },
        [&](int32_t, int32_t, const Word& word) {
          best.merge({word.payload[0] | static_cast<uint64_t>(word.payload[1]) << 32, word.payload[2]});
        });
    fence_gpu();  // partner: LM_HEAD's fence
    warp_sync();
    merge_messengers(w, best);
    return best;
  }

  static BOREAS_DEVICE void publish_weights(Worker<C>& w, const Task& task, int32_t row, const Best& best) {
    const Range own{task.arg(FilterOp::kFirst), task.arg(FilterOp::kCount)};
    Weights weights = weigh_entries(w, row, own, Candidate(w, row, best));
    merge_messengers(w, weights);
    const Publication to = begin_publication(w, task);
    if (w.messenger_thread() != 0 || is_silent(w, task)) return;
    Word* words = to.half + (row * C::kWorkers + w.worker()) * kMassWords;
    store_word(words, static_cast<uint32_t>(weights.total), static_cast<uint32_t>(weights.total >> 32), weights.count,
               to.epoch);
    store_word(words + 1, static_cast<uint32_t>(weights.before), static_cast<uint32_t>(weights.before >> 32), 0,
               to.epoch);
  }
};

}  // namespace boreas::cuda
