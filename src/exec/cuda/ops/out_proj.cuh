// OUT_PROJ on the device: into the slot projected, [rows][own hidden slice] fp32.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kOutProj> {
  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t count = task.arg(OutProjOp::kCount);
    const uint32_t projected = w.slot(Slot::kProjected);
    stream_products<C::kQueryWidth, C::even_slice(C::kHidden), kHeightsOfSlices<C::kHidden, C::kWorkers>>(
        w, stream, 1, count, rows_operand(w, Slot::kAttention), [&](int32_t begin, int32_t rows, const auto& sums) {
          for (int32_t i = w.consumer_thread(); i < rows * w.rows(); i += kConsumerThreads) {
            const auto [column, row] = w.by_rows(i);
            store_shared_float(projected + (row * count + begin + column) * 4, sums.sum(i, count, begin + column));
          }
        });
  }
};

}  // namespace boreas::cuda
