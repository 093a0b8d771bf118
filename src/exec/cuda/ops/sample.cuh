// SAMPLE on the device: worker r mod workers ends row r, with the token that the plan forces, or the best entry that
// the row's filters let through. Mostly that is the best of all (with top-p in a part top_p of all steps); else the
// worker goes through the logits itself, as often as it takes. What the plan leaves to the host, the host draws from
// the logits when the launch is done.
#pragma once

#include "exec/cuda/drawing.cuh"
#include "exec/cuda/ops/filter.cuh"
#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kSample> {
  static BOREAS_DEVICE void run(Worker<C>& w, const Task& task) {
    const HopWait wait = task.wait();
    const uint32_t epoch = hop_epoch(w.params, wait.hop, wait.use);
    named_barrier(kMessengersMeet, kMessengerThreads);  // FILTER has left its rows' best entries
    BOREAS_NO_UNROLL
    for (int32_t row = w.worker(); row < w.rows(); row += C::kWorkers) {
      Best best = merged<Best>(best_parts(w, row));
      if (row_filters(w, row) && best.order != kNotFinite) best = inside_filters(w, row, best, wait, epoch);
      if (w.messenger_thread() == 0) finish(w, row, best);
    }
  }

 private:
  static constexpr Range kVocabulary{0, C::kVocabulary};

  // Ends: each round's entry comes before the last one's in the order that filters cut. There is such an entry as long
  // as one is refused: the first of all is inside every filter.
  static BOREAS_DEVICE Best inside_filters(const Worker<C>& w, int32_t row, Best best, const HopWait& wait,
                                           uint32_t epoch) {
    Weights weights;
    gather_words<kMessengerThreads, 1>(
        w.params, w.at, w.messenger_thread(), kMassWords * C::kWorkers, wait.hop, epoch,
        [&](int32_t i) { return row * kMassWords * C::kWorkers + i; },
        [&](int32_t i, int32_t, const Word& word) {
          const uint64_t mass = word.payload[0] | static_cast<uint64_t>(word.payload[1]) << 32;
          const bool total = i % kMassWords == 0;
          weights.merge({total ? mass : 0, total ? 0 : mass, word.payload[2]});
        });
    warp_sync();
    merge_messengers(w, weight_parts(w, row), weights);
    const DrawPlan& draw = w.params.row[row].draw;
    const uint64_t needed = sampling_math::mass_needed(weights.total, draw.top_p);
    const uint32_t largest = best.largest;
    while (true) {
      const Candidate candidate(w, row, best);
      const bool within_top_p = draw.top_p >= 1 || weights.before < needed;
      if (candidate.score >= draw.score_min && within_top_p && weights.count < static_cast<uint32_t>(draw.top_k))
        return best;
      best = best_before(w, row, candidate);
      merge_messengers(w, weight_parts(w, row), best);
      best.largest = largest;
      weights = weigh_entries(w, row, kVocabulary, Candidate(w, row, best));
      merge_messengers(w, weight_parts(w, row), weights);
    }
  }

  static BOREAS_DEVICE void finish(const Worker<C>& w, int32_t row, const Best& best) {
    const RowPlan& plan = w.params.row[row];
    RowOutcome* outcome = w.params.outcomes + row;
    const bool corrupted = best.order == kNotFinite;
    int32_t token = -1;
    if (plan.sample == kSampleForced) token = plan.forced_token;
    else if ((plan.sample == kSampleGreedy || plan.sample == kSampleDraw) && !corrupted)
      token = sampling_math::drawn_id(best.order);
    if (plan.sample != kSampleNone && plan.sample != kSampleHost)
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
