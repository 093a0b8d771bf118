// QKV on the device: the unit's rows are the own q rows, then k, then v. A worker's words of a row hold them in that
// order; RoPE pairs are neighbours.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kQkv> {
  static constexpr uint32_t kHeights = C::kEvenGroups ? tile_heights(C::kQSliceMax + 2 * C::kKvSliceMax) : kAllHeights;

  static BOREAS_DEVICE Product begin(Worker<C>& w, const Task& task) {
    return {1, count_of(task), blocks_of_columns(C::kHidden), chunks_are_whole(C::kHidden, kHeights),
            rows_operand(w, Slot::kNormed)};
  }
  static BOREAS_DEVICE Outputs outputs(const Worker<C>& w, const Task& task) {
    return {w.rows(), count_of(task), C::kQkvWords};
  }
  static BOREAS_DEVICE void flush(Worker<C>& w, const Task& task, int32_t begin, int32_t rows,
                                  const Partials<C>& sums) {
    const Range q{task.arg(QkvOp::kQFirst), task.arg(QkvOp::kQCount)};
    const Range k{task.arg(QkvOp::kKFirst), task.arg(QkvOp::kKCount)};
    const int32_t turned = task.arg(QkvOp::kRope) != 0 ? q.count + k.count : 0, count = count_of(task);
    for (int32_t i = w.consumer_thread(); i < rows / 2 * w.rows(); i += kConsumerThreads) {
      const auto [pair, row] = w.by_rows(i);
      const int32_t value = begin + 2 * pair;
      float even = sums.sum(2 * pair * w.rows() + row), odd = sums.sum((2 * pair + 1) * w.rows() + row);
      if (value < turned) {
        const int32_t dim = (value < q.count ? q.first + value : k.first + value - q.count) % kHeadDim;
        const float cosine = w.params.rope[row][dim / 2][0], sine = w.params.rope[row][dim / 2][1];
        const float x = even * cosine - odd * sine;
        odd = odd * cosine + even * sine;
        even = x;
      }
      store_shared_32(w.scratch(&ScratchMap::outputs) + (row * count + value) * 2, pack_bf16(even, odd));
    }
  }

 private:
  static BOREAS_DEVICE int32_t count_of(const Task& task) {
    return task.arg(QkvOp::kQCount) + task.arg(QkvOp::kKCount) + task.arg(QkvOp::kVCount);
  }
};

}  // namespace boreas::cuda
