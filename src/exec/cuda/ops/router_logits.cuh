// ROUTER_LOGITS on the device. A word of hop logit holds one expert's logits of six rows.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kRouterLogits> {
  using Pieces = TilePieces<1, C::kHidden>;
  // A worker has one expert, in one chunk.
  static constexpr bool kOneChunk = C::even_slice(C::kExperts) == 1 && Pieces::kCount <= kPiecesPerChunk &&
                                    (Pieces::kCount == 1 || Pieces::kRest == 0);

  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t first = task.arg(RouterLogitsOp::kFirst), count = task.arg(RouterLogitsOp::kCount);
    if (count == 0) return;
    const Publication to = begin_publication(w, task);
    const bool silent = is_silent(w, task);
    if constexpr (kOneChunk) {
      // One group has it all; the other one goes on.
      if (stream.takes_even_chunks()) one_expert(w, stream, to, first, silent);
      stream.end_item(w.params, w.at, Pieces::kCount);
    } else {
      stream_products<C::kHidden, C::even_slice(C::kExperts), kHeightsOfSlices<C::kExperts, C::kWorkers>>(
          w, stream, 1, count, rows_operand(w, Slot::kNormed), [&](int32_t begin, int32_t rows, const auto& sums) {
            const int32_t sixths = words_of_halves(w.rows());
            for (int32_t i = w.consumer_thread(); i < rows * sixths; i += kConsumerThreads) {
              const int32_t expert = sixths == 1 ? i : i >> 1, sixth = i - expert * sixths;
              if (silent) continue;
              publish(w, to, first + begin + expert, sixth,
                      [&](int32_t row) { return sums.sum(expert * w.rows() + row, count, begin + expert); });
            }
          });
    }
  }

 private:
  // logit(row) of rows 6 * sixth to 6 * sixth + 5, as far as there are so many.
  template <class Logit>
  static BOREAS_DEVICE void publish(const Worker<C>& w, const Publication& to, int32_t expert, int32_t sixth,
                                    Logit logit) {
    uint32_t payload[3];
    BOREAS_UNROLL
    for (int32_t k = 0; k < 3; ++k) {
      const int32_t row = sixth * kWordHalves + 2 * k;
      payload[k] = pack_bf16(row < w.rows() ? logit(row) : 0.0f, row + 1 < w.rows() ? logit(row + 1) : 0.0f);
    }
    store_word(to.half + sixth * C::kExperts + expert, payload[0], payload[1], payload[2], to.epoch);
  }

  // By the four warps of a group, each with the whole expert for every fourth row. A row's logit is the sum of the
  // tile's parts that stream_products would make.
  static BOREAS_DEVICE void one_expert(Worker<C>& w, StreamTaker& stream, const Publication& to, int32_t expert,
                                       bool silent) {
    constexpr int32_t kBlocks = Pieces::kCount == 1 ? Pieces::kBlocks : Pieces::kEach, kShares = 2 * Pieces::kCount;
    using Share = ShortShare<1, kBlocks>;
    const int32_t warp = w.warp() % kGroupWarps, lane = w.lane();
    const RowsOperand x = rows_operand(w, Slot::kNormed);
    Share own[kShares];
    const uint32_t from = stream.begin_chunk(w.params, w.at) + static_cast<uint32_t>(lane * 16);
    BOREAS_UNROLL
    for (int32_t i = 0; i < kShares; ++i)
      own[i].load(from + i / 2 * piece_bytes(1) + i % 2 * Share::kGroupBytes, i % 2, lane);
    stream.end_chunk(w.params);
    const auto logit_of = [&](int32_t row) {
      float part[4] = {};
      BOREAS_UNROLL
      for (int32_t i = 0; i < kShares; ++i) {
        Vector here = x.of(row);
        here.address += static_cast<uint32_t>(i / 2 * kBlocks) * x.step;
        part[i] = own[i].multiply(here, x.step, i % 2, lane);
      }
      return ((part[0] + part[1]) + (part[2] + part[3])) + 0.0f;  // absent parts count as +0
    };
    if constexpr (C::kOneRow) {
      if (warp != 0) return;
      const float logit = logit_of(0);
      if (lane == 0 && !silent) publish(w, to, expert, 0, [logit](int32_t) { return logit; });
    } else {
      const uint32_t logits = w.scratch(&ScratchMap::logits);
      BOREAS_NO_UNROLL
      for (int32_t row = warp; row < w.rows(); row += kGroupWarps) {
        const float logit = logit_of(row);
        if (lane == 0) store_shared_float(logits + row * 4, logit);
      }
      named_barrier(kGroupsMeet + w.warp() / kGroupWarps, kGroupThreads);
      const int32_t sixth = w.consumer_thread() % kGroupThreads;
      if (sixth < words_of_halves(w.rows()) && !silent)
        publish(w, to, expert, sixth, [logits](int32_t row) { return load_shared_float(logits + row * 4); });
    }
  }
};

}  // namespace boreas::cuda
