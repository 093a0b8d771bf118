// UP_GATE on the device. A unit's rows are gate 0, up 0, gate 1, up 1, ...: a tile always holds both of a pair. Words
// of hop inner: [row][choice][worker][..] of routed layers, [row][worker][..] of dense ones. Those that make the first
// part of inner vectors come as soon as their experts are done: when the last worker gets to the end of all, only the
// second part is missing, which nobody wants before DOWN has done the first.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

// silu(gate) * up.
BOREAS_DEVICE float swiglu(float gate, float up) { return gate / (1.0f + exp2_approximate(-gate * kLog2E)) * up; }

template <class C>
struct Body<C, Op::kUpGate> {
  static constexpr int32_t kExpertSlice = C::even_slice(C::kExpertWidth);

  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t route_slot = task.arg(UpGateOp::kRouteSlot), count = task.arg(UpGateOp::kCount);
    if (count == 0) return;
    if (route_slot >= 0) return stream_routed(w, stream, task, w.route_parity(route_slot), count);
    stream_dense(w, stream, count);
    publish_outputs<C::even_slice(C::kDenseWidth)>(w, task, w.rows(), count, C::kDenseWords);
  }

 private:
  // Outputs are vectors of row * choices + choice.
  struct PublishedParts {
    Worker<C>& w;
    const Task& task;
    int32_t parity, count, cut;

    BOREAS_DEVICE void end_part(int32_t begin, int32_t end) const {
      if constexpr (C::kOneRow) named_barrier(kConsumersMeet, kConsumerThreads);  // with more rows they have just met
      publish_vectors<kExpertSlice, false>(w, task, end - begin, count, C::kExpertWords, [&](int32_t i) {
        return C::kOneRow ? i : w.sorted_choice(parity, begin + i);
      });
    }
  };

  static BOREAS_DEVICE void stream_routed(Worker<C>& w, StreamTaker& stream, const Task& task, int32_t parity,
                                          int32_t count) {
    ExpertOperand<kBlockRowBytes, C> x{w, parity, w.slot(Slot::kNormed),
                                       static_cast<uint32_t>(w.rows() * kBlockRowBytes)};
    const PublishedParts parts{w, task, parity, count,
                               C::kOneRow || w.params.whole_inner != 0 ? 0 : task.arg(UpGateOp::kFirstVectors)};
    stream_experts<C::kHidden, 2 * kExpertSlice, kHeightsOfSlices<C::kExpertWidth, C::kWorkers, 2>>(
        w, stream, parity, 2 * count, x, parts, [&](const RoutedRun& run, const auto& sums) {
          const int32_t rows = unit_fits(2 * kExpertSlice) ? 2 * kExpertSlice : run.rows;
          for (int32_t i = w.consumer_thread(); i < run.choices * (rows / 2); i += kConsumerThreads) {
            const int32_t column = i / (rows / 2), pair = i - column * (rows / 2);
            const int32_t entry = column * rows + 2 * pair, row = run.first_row + 2 * pair;
            const float gate = sums.sum(entry, 2 * count, row), up = sums.sum(entry + 1, 2 * count, row + 1);
            put_output(w, w.sorted_choice(parity, run.first_choice + column), count, row / 2, swiglu(gate, up));
          }
        });
  }
  static BOREAS_DEVICE void stream_dense(Worker<C>& w, StreamTaker& stream, int32_t count) {
    stream_products<C::kHidden, 0, kHeightsOfSlices<C::kDenseWidth, C::kWorkers, 2>>(
        w, stream, 1, 2 * count, rows_operand(w, Slot::kNormed), [&](int32_t begin, int32_t rows, const auto& sums) {
          for (int32_t i = w.consumer_thread(); i < rows / 2 * w.rows(); i += kConsumerThreads) {
            const auto [pair, row] = w.by_rows(i);
            const float gate = sums.sum(2 * pair * w.rows() + row, 2 * count, begin + 2 * pair);
            const float up = sums.sum((2 * pair + 1) * w.rows() + row, 2 * count, begin + 2 * pair + 1);
            put_output(w, row, count, begin / 2 + pair, swiglu(gate, up));
          }
        });
  }
};

}  // namespace boreas::cuda
