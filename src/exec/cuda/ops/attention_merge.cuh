// ATTENTION_MERGE on the device: lane p of a warp holds piece p, so all pieces of a value are one warp's lanes. Sums
// run over a fixed tree of lanes in which absent pieces are exact zeros.
#pragma once

#include "exec/cuda/ops/attention.cuh"
#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

static_assert(kAttentionPieces == 32, "a piece a lane");

BOREAS_DEVICE float sum_of_lanes(float value) {
  BOREAS_UNROLL
  for (int32_t step = 16; step > 0; step /= 2) value += shuffle_xor(value, step);
  return value;
}
BOREAS_DEVICE float maximum_of_lanes(float value) {
  BOREAS_UNROLL
  for (int32_t step = 16; step > 0; step /= 2) {
    const float other = shuffle_xor(value, step);
    value = other > value ? other : value;
  }
  return value;
}

template <class C>
struct Body<C, Op::kAttentionMerge> {
  static BOREAS_DEVICE void run(Worker<C>& w, const Task& task) {
    const bool sliding = task.arg(AttentionMergeOp::kSliding) != 0;
    const Range own{task.arg(AttentionMergeOp::kFirst), task.arg(AttentionMergeOp::kCount)};
    const HopWait wait = task.wait();
    const uint32_t epoch = hop_epoch(w.params, wait.hop, wait.use);
    const Word* half = hop_half(w.params, wait.hop, epoch);
    const Publication to = begin_publication(w, task);
    if (own.count == 0) return;
    w.wait_own_publication(wait);
    const int32_t thread = w.messenger_thread();
    for (int32_t row = 0; row < w.rows(); ++row) {
      merge_row(w, row, sliding, own, half, epoch);
      named_barrier(kMessengersMeet, kMessengerThreads);
      for (int32_t word = thread; word < words_of_halves(own.count); word += kMessengerThreads)
        publish_halves(to.half + (row * C::kWorkers + w.worker()) * C::kAttentionWords + word,
                       w.scratch(&ScratchMap::merged), word * kWordHalves, own.count, to.epoch);
      named_barrier(kMessengersMeet, kMessengerThreads);
    }
  }

 private:
  static BOREAS_DEVICE void merge_row(Worker<C>& w, int32_t row, bool sliding, Range own, const Word* half,
                                      uint32_t epoch) {
    const bool present = w.pages_of(row, w.lane(), sliding).count > 0;
    const int32_t warp = w.warp() - kConsumerWarps;
    for (int32_t first = own.first; first < own.end();) {
      const int32_t query = first / kHeadDim, next = (query + 1) * kHeadDim, end = next < own.end() ? next : own.end();
      const Word* words =
          half + (((row * C::kKvHeads + w.group().head) * kAttentionPieces + w.lane()) * C::kQueries + query) *
                     C::kPartialWords;
      merge_query(w, words, present, epoch, warp, first - query * kHeadDim, end - query * kHeadDim, first - own.first);
      first = end;
    }
  }

  // Dims [first, end) of a query; `at`: of the first one among the own outputs.
  static BOREAS_DEVICE void merge_query(Worker<C>& w, const Word* words, bool present, uint32_t epoch, int32_t warp,
                                        int32_t first, int32_t end, int32_t at) {
    const Word head = present ? wait_word(w, words, epoch) : Word{};
    warp_sync();
    const float own_maximum = present ? float_of(head.payload[0]) : kMinusInfinity;
    const float factor = softmax_weight(own_maximum, maximum_of_lanes(own_maximum));
    const float total = sum_of_lanes(present ? factor * float_of(head.payload[1]) : 0.0f);
    const int32_t word_first = (2 + first) / kWordFloats, word_end = (2 + end - 1) / kWordFloats + 1;
    BOREAS_NO_UNROLL
    for (int32_t word = word_first + warp; word < word_end; word += kMessengerWarps) {
      const Word part = present ? wait_word(w, words + word, epoch) : Word{};
      warp_sync();
      BOREAS_UNROLL
      for (int32_t i = 0; i < kWordFloats; ++i) {
        const int32_t dim = word * kWordFloats + i - 2;
        if (dim < first || dim >= end) continue;  // the same for all lanes
        const float sum = sum_of_lanes(present ? factor * float_of(part.payload[i]) : 0.0f);
        if (w.lane() == 0)
          store_shared_16(w.scratch(&ScratchMap::merged) + (at + dim - first) * 2,
                          pack_bf16(sum / total, 0.0f) & 0xffffu);
      }
    }
  }

  static BOREAS_DEVICE Word wait_word(Worker<C>& w, const Word* from, uint32_t epoch) {
    Word word = load_word(from);
    if (word.epoch == epoch) return word;
    Deadline deadline(w.params, w.at);
    while (word.epoch != epoch) {
      deadline.miss(kWaitHop, static_cast<int32_t>(Hop::kPartial), epoch, word.epoch);
      pause_clocks(w.params.poll_pause);
      word = load_word(from);
    }
    return word;
  }
};

}  // namespace boreas::cuda
