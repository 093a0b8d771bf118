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

// Sums of eight values over all lanes with nine shuffles: lane 4 i + k ends with the sum of values[i].
BOREAS_DEVICE float sums_of_lanes(float (&values)[8], int32_t lane) {
  BOREAS_UNROLL
  for (int32_t count = 4; count > 0; count /= 2) {
    const bool upper = (lane & 4 * count) != 0;  // keeps the upper half of the values
    BOREAS_UNROLL
    for (int32_t i = 0; i < count; ++i) {
      const float kept = upper ? values[i + count] : values[i], given = upper ? values[i] : values[i + count];
      values[i] = kept + shuffle_xor(given, 4 * count);
    }
  }
  values[0] += shuffle_xor(values[0], 2);
  return values[0] + shuffle_xor(values[0], 1);
}

template <class C>
struct Body<C, Op::kAttentionMerge> {
  static constexpr int32_t kMergeDims = 32, kQueryBlocks = kHeadDim / kMergeDims;
  static constexpr int32_t kBlockWords = 8 * C::kPartialLaneWords;  // of a pair of queries
  static constexpr int32_t kWords = 6;                              // that a lane merges

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
    const Word* piece =
        half + ((row * C::kKvHeads + w.group().head) * kAttentionPieces + w.lane()) * C::kQueryPairs * C::kPartialWords;
    // Blocks of 32 dims, each of one query.
    BOREAS_NO_UNROLL
    for (int32_t block = own.first / kMergeDims; block * kMergeDims < own.end(); ++block) {
      const int32_t query = block / kQueryBlocks;
      const Word* words = piece + query / 2 * C::kPartialWords + block % kQueryBlocks * kBlockWords;
      merge_block(w, words, query % 2, present, epoch, block * kMergeDims, own);
    }
  }

  // Dims first .. first + 31 of the head's queries, as far as they are own; `second`: the query is the pair's second. A
  // warp has dims g and g + 4, and each 8, 16 and 24 further.
  static BOREAS_DEVICE void merge_block(Worker<C>& w, const Word* words, int32_t second, bool present, uint32_t epoch,
                                        int32_t first, Range own) {
    const int32_t g = w.warp() - kConsumerWarps;
    static_assert(kMessengerWarps == 4);
    // m, l; the two words with outputs of dim g and of dim g + 4.
    const int32_t place[kWords] = {2 * second * 3 + 2, (2 * second + 1) * 3 + 2, g * 3 + second,
                                   g * 3 + second + 1, (g + 4) * 3 + second,     (g + 4) * 3 + second + 1};
    Word word[kWords] = {};
    if (present)
      await_words(w.params, w.at, word, static_cast<int32_t>(Hop::kPartial), epoch,
                  [&](int32_t i) { return words + place[i]; });
    warp_sync();
    const float own_maximum = present ? float_of(word[0].payload[2]) : kMinusInfinity;
    const float factor = softmax_weight(own_maximum, maximum_of_lanes(own_maximum));
    const float total = sum_of_lanes(present ? factor * float_of(word[1].payload[2]) : 0.0f);
    float values[8];
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      const Word &a = word[2 + 2 * i], &b = word[3 + 2 * i];
      values[4 * i] = factor * float_of(second ? a.payload[1] : a.payload[0]);
      values[4 * i + 1] = factor * float_of(second ? a.payload[2] : a.payload[1]);
      values[4 * i + 2] = factor * float_of(second ? b.payload[0] : a.payload[2]);
      values[4 * i + 3] = factor * float_of(second ? b.payload[1] : b.payload[0]);
    }
    const float sum = sums_of_lanes(values, w.lane());
    const int32_t which = w.lane() / 4, dim = first + g + which / 4 * 4 + which % 4 * 8;
    if (w.lane() % 4 == 0 && dim >= own.first && dim < own.end())
      store_shared_16(w.scratch(&ScratchMap::merged) + (dim - own.first) * 2, pack_bf16(sum / total, 0.0f) & 0xffffu);
  }
};

}  // namespace boreas::cuda
