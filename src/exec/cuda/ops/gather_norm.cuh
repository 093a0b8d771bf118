// GATHER_NORM on the device. A thread always takes the same words of a row, whatever the batch: the order of the sum of
// squares is the shape's. Norm weights are fetched before the words are awaited, and some rows' words at once.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kGatherNorm> {
  static constexpr int32_t kWords = C::kWorkers * C::kResidualWords;  // of a row
  static constexpr int32_t kRounds = static_cast<int32_t>(ceil_div(kWords, kMessengerThreads));
  static constexpr bool kEven = C::kHidden % (2 * C::kWorkers) == 0;
  static constexpr bool kAll = C::even_slice(C::kHidden) > 0 && kWords == kRounds* kMessengerThreads;  // have words
  static constexpr int32_t kCountMin = (C::kHiddenSliceMax - 1) % kWordHalves + 1;  // values of a word
  static constexpr int32_t kTogether = C::kOneRow ? 1 : kNormRowsTogether;

  static BOREAS_DEVICE void run(Worker<C>& w, const Task& task) {
    const HopWait wait = task.wait();
    const uint32_t epoch = hop_epoch(w.params, wait.hop, wait.use);
    const int32_t layer = task.layer(), thread = w.messenger_thread();
    const uint16_t* norm = w.params.norms + (layer < 0 ? w.params.layer_count : layer) * C::kHidden;
    const auto word_of = [&](int32_t k) { return thread + k % kRounds * kMessengerThreads; };
    uint32_t weights[kRounds][3];
    BOREAS_UNROLL
    for (int32_t round = 0; round < kRounds; ++round) load_weights(norm, word_of(round), weights[round]);
    w.wait_own_publication(wait);
    const Word* half = hop_half(w.params, wait.hop, epoch);
    const int32_t last = w.rows() - 1;
    BOREAS_NO_UNROLL
    for (int32_t row = 0, turn = 0; row <= last; row += kTogether, turn ^= 1) {
      Word words[kTogether * kRounds];
      const auto row_of = [&](int32_t k) { return row + k / kRounds < last ? row + k / kRounds : last; };
      await_words(w.params, w.at, words, wait.hop, epoch, [&](int32_t k) -> const Word* {
        return kAll || values_of(word_of(k)).count > 0 ? half + row_of(k) * kWords + word_of(k) : nullptr;
      });
      w.at.mark(Moment::kGot);
      float squares[kTogether] = {};
      BOREAS_UNROLL
      for (int32_t k = 0; k < kTogether * kRounds; ++k)
        squares[k / kRounds] = add_squares(word_of(k), words[k], squares[k / kRounds]);
      totals(w, turn, squares);
      BOREAS_UNROLL
      for (int32_t k = 0; k < kTogether * kRounds; ++k) {
        if (row + k / kRounds > last) break;
        const float mean = squares[k / kRounds] / static_cast<float>(C::kHidden);
        const float scale = reciprocal_square_root(mean + w.params.rms_norm_eps);
        BOREAS_UNROLL
        for (int32_t pair = 0; pair < 3; ++pair)
          words[k].payload[pair] = normed_pair(w, words[k].payload[pair], weights[k % kRounds][pair], scale);
        put_values(w, row + k / kRounds, word_of(k), words[k]);
      }
    }
  }

 private:
  // Columns of word i of a row; none beyond a writer's slice.
  static BOREAS_DEVICE Range values_of(int32_t i) {
    if (i >= kWords) return {};
    const Range slice = C::slice_of(C::kHidden, i / C::kResidualWords);
    const int32_t first = i % C::kResidualWords * kWordHalves;
    const int32_t left = slice.count - first;
    return {slice.first + first, left < 0 ? 0 : left < kWordHalves ? left : kWordHalves};
  }
  static BOREAS_DEVICE void load_weights(const uint16_t* norm, int32_t i, uint32_t (&weights)[3]) {
    const Range values = values_of(i);
    BOREAS_UNROLL
    for (int32_t k = 0; k < 3; ++k) {
      weights[k] = 0;
      if (2 * k >= values.count) continue;
      const uint16_t* at = norm + values.first + 2 * k;
      if (kEven) weights[k] = load_constant_32(at);
      else weights[k] = at[0] | static_cast<uint32_t>(2 * k + 1 < values.count ? at[1] : 0) << 16;
    }
  }
  static BOREAS_DEVICE float add_squares(int32_t i, const Word& word, float squares) {
    // Even slices end in pairs of zeros, where every thread has a word.
    const int32_t count = kEven && kWords % kMessengerThreads == 0 ? kWordHalves : values_of(i).count;
    BOREAS_UNROLL
    for (int32_t k = 0; k < kWordHalves; ++k) {
      const float value = k % 2 == 0 ? low_half(word.payload[k / 2]) : high_half(word.payload[k / 2]);
      if (k < count) squares = multiply_add(value, value, squares);
    }
    return squares;
  }
  // Of each row over all threads; two turns' scratch, so that one barrier a turn suffices.
  static BOREAS_DEVICE void totals(const Worker<C>& w, int32_t turn, float (&values)[kTogether]) {
    const uint32_t sums = w.scratch(&ScratchMap::sums) + turn * kNormRowsTogether * kMessengerWarps * 4;
    BOREAS_UNROLL
    for (int32_t i = 0; i < kTogether; ++i) {
      BOREAS_UNROLL
      for (int32_t step = 16; step > 0; step /= 2) values[i] += shuffle_xor(values[i], step);
      if (w.lane() == 0) store_shared_float(sums + (i * kMessengerWarps + w.warp() - kConsumerWarps) * 4, values[i]);
    }
    named_barrier(kMessengersMeet, kMessengerThreads);
    BOREAS_UNROLL
    for (int32_t i = 0; i < kTogether; ++i) {
      const Vec4 all = load_shared_128(sums + i * kMessengerWarps * 4);
      values[i] = (float_of(all.x) + float_of(all.y)) + (float_of(all.z) + float_of(all.w));
    }
  }
  static BOREAS_DEVICE uint32_t normed_pair(const Worker<C>& w, uint32_t pair, uint32_t weights, float scale) {
    if (C::kProbed && w.params.probe.norm_roundings == 2) {
      const uint32_t scaled = pack_bf16(low_half(pair) * scale, high_half(pair) * scale);
      return pack_bf16(low_half(scaled) * low_half(weights), high_half(scaled) * high_half(weights));
    }
    return pack_bf16(low_half(pair) * scale * low_half(weights), high_half(pair) * scale * high_half(weights));
  }
  // Where slices are even, pairs of columns stay together; where they divide a block, words do.
  static BOREAS_DEVICE void put_values(const Worker<C>& w, int32_t row, int32_t i, const Word& word) {
    const Range values = values_of(i);
    const uint32_t slot = w.slot(Slot::kNormed);
    if constexpr (kEven && kBlockColumns % C::kHiddenSliceMax == 0) {
      const uint32_t to = slot + activation_offset(w.rows(), row, values.first);
      BOREAS_UNROLL
      for (int32_t k = 0; k < 3; ++k) {
        if (kAll && 2 * k < kCountMin) store_shared_32(to + 4 * k, word.payload[k]);
        else store_shared_32_if(2 * k < values.count, to + 4 * k, word.payload[k]);
      }
    } else if (values.count > 0) {
      store_activations<C::even_slice(C::kHidden)>(slot, w.rows(), row, values.first, values.count, word);
    }
  }
};

}  // namespace boreas::cuda
