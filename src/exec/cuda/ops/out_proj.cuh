// OUT_PROJ on the device: into the slot projected, [rows][own hidden slice] fp32.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kOutProj> {
  static BOREAS_DEVICE Product begin(Worker<C>& w, const Task& task) {
    return {1, task.arg(OutProjOp::kCount), blocks_of_columns(C::kQueryWidth),
            chunks_are_whole(C::kQueryWidth, kHeightsOfSlices<C::kHidden, C::kWorkers>),
            rows_operand(w, Slot::kAttention)};
  }
  static BOREAS_DEVICE Outputs outputs(const Worker<C>&, const Task&) { return {}; }
  static BOREAS_DEVICE void flush(Worker<C>& w, const Task& task, int32_t begin, int32_t rows,
                                  const Partials<C>& sums) {
    const int32_t count = task.arg(OutProjOp::kCount);
    for (int32_t i = w.consumer_thread(); i < rows * w.rows(); i += kConsumerThreads) {
      const auto [column, row] = w.by_rows(i);
      store_shared_float(w.slot(Slot::kProjected) + (row * count + begin + column) * 4, sums.sum(i));
    }
  }
};

}  // namespace boreas::cuda
