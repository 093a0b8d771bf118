// QKV on the device: the unit's rows are the own q rows, then k, then v. A worker's words of a row hold them in that
// order; RoPE pairs are neighbours.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kQkv> {
  static constexpr uint32_t kHeights = C::kEvenGroups ? tile_heights(C::kQSliceMax + 2 * C::kKvSliceMax) : kAllHeights;

  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const Range q{task.arg(QkvOp::kQFirst), task.arg(QkvOp::kQCount)};
    const Range k{task.arg(QkvOp::kKFirst), task.arg(QkvOp::kKCount)};
    const int32_t count = q.count + k.count + task.arg(QkvOp::kVCount);
    const bool rope = task.arg(QkvOp::kRope) != 0;
    if (count == 0) return;
    stream_products<C::kHidden, 0, kHeights>(
        w, stream, 1, count, rows_operand(w, Slot::kNormed), [&](int32_t begin, int32_t rows, const auto& sums) {
          for (int32_t i = w.consumer_thread(); i < rows / 2 * w.rows(); i += kConsumerThreads) {
            const auto [pair, row] = w.by_rows(i);
            const int32_t value = begin + 2 * pair;
            float even = sums.sum(2 * pair * w.rows() + row, count, value);
            float odd = sums.sum((2 * pair + 1) * w.rows() + row, count, value + 1);
            if (rope && value < q.count + k.count) {
              const int32_t dim = (value < q.count ? q.first + value : k.first + value - q.count) % kHeadDim;
              const float cosine = w.params.rope[row][dim / 2][0], sine = w.params.rope[row][dim / 2][1];
              const float turned = even * cosine - odd * sine;
              odd = odd * cosine + even * sine;
              even = turned;
            }
            store_shared_32(w.scratch(&ScratchMap::outputs) + (row * count + value) * 2, pack_bf16(even, odd));
          }
        });
    publish_outputs<C::kEvenGroups ? C::kQSliceMax + 2 * C::kKvSliceMax : 0, true>(w, task, w.rows(), count,
                                                                                   C::kQkvWords);
  }
};

}  // namespace boreas::cuda
