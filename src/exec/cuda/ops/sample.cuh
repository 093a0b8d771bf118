// SAMPLE on the device: worker r mod workers ends row r. The largest logit, or the token that the plan forces; other
// kinds of sampling are the host's (it reads the logits when the launch is done).
#pragma once

#include "exec/cuda/ops/lm_head.cuh"
#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kSample> {
  static BOREAS_DEVICE void run(Worker<C>& w, const Task& task) {
    const HopWait wait = task.wait();
    const uint32_t epoch = hop_epoch(w.params, wait.hop, wait.use);
    const int32_t warp = w.warp() - kConsumerWarps;
    if (warp != 0) return;
    for (int32_t row = w.worker(); row < w.rows(); row += C::kWorkers) {
      BestLogit best;
      gather_words<32, 4>(
          w.params, w.at, w.lane(), C::kWorkers, wait.hop, epoch, [&](int32_t i) { return row * C::kWorkers + i; },
          [&](int32_t, int32_t, const Word& word) {
            // The third one is zero; but a word must be used whole (signal.cuh).
            best.offer(word.payload[0], static_cast<int32_t>(word.payload[1] | word.payload[2]));
          });
      warp_sync();
      for (int32_t step = 16; step > 0; step /= 2) {
        const uint32_t order = shuffle_xor(best.order, step);
        const uint32_t id = shuffle_xor(static_cast<uint32_t>(best.id), step);
        best.offer(order, static_cast<int32_t>(id));
      }
      fence_gpu();  // partner: LM_HEAD's fence; the host reads the logits behind this outcome
      if (w.lane() == 0) finish(w, row, best);
    }
  }

 private:
  static BOREAS_DEVICE void finish(const Worker<C>& w, int32_t row, const BestLogit& best) {
    const RowPlan& plan = w.params.row[row];
    RowOutcome* outcome = w.params.outcomes + row;
    const bool corrupted = best.order == kNotFinite;
    int32_t token = -1;
    if (plan.sample == kSampleForced) token = plan.forced_token;
    else if (plan.sample == kSampleGreedy && !corrupted) token = best.id;
    if (plan.sample == kSampleForced || plan.sample == kSampleGreedy)
      w.params.slot_tokens[plan.slot] =
          token < 0 ? 0 : token;  // a corrupted row goes on with some token until it is stopped
    outcome->token = corrupted ? -1 : token;
    outcome->logprob = 0;
    // The router has counted the last layer long ago: the final norm waited for what the consumer made of its routes.
    if (row == 0) outcome->distinct_experts = static_cast<int32_t>(load_shared_32(w.scratch(&ScratchMap::experts)));
    store_release_system(&outcome->step, w.params.step);
  }
};

}  // namespace boreas::cuda
