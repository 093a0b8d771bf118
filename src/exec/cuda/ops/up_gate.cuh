// UP_GATE on the device. A unit's rows are gate 0, up 0, gate 1, up 1, ...: a tile always holds both of a pair. Words
// of hop inner: [row][choice][worker][..] of routed layers, [row][worker][..] of dense ones.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

// silu(gate) * up.
BOREAS_DEVICE float swiglu(float gate, float up) { return gate / (1.0f + exp2_approximate(-gate * kLog2E)) * up; }

template <class C>
struct Body<C, Op::kUpGate> {
  static constexpr int32_t kExpertSlice = C::even_slice(C::kExpertWidth);
  static constexpr bool kWholeRouted = chunks_are_whole(C::kHidden, kHeightsOfSlices<C::kExpertWidth, C::kWorkers, 2>);
  static constexpr bool kWholeDense = chunks_are_whole(C::kHidden, kHeightsOfSlices<C::kDenseWidth, C::kWorkers, 2>);

  static BOREAS_DEVICE Product begin(Worker<C>& w, const Task& task) {
    const int32_t route_slot = task.arg(UpGateOp::kRouteSlot);
    const bool routed = route_slot >= 0;
    return {routed ? w.experts_hit(w.route_parity(route_slot)) : 1, 2 * task.arg(UpGateOp::kCount),
            blocks_of_columns(C::kHidden), routed ? kWholeRouted : kWholeDense, rows_operand(w, Slot::kNormed)};
  }
  static BOREAS_DEVICE Outputs outputs(const Worker<C>& w, const Task& task) {
    const bool routed = task.arg(UpGateOp::kRouteSlot) >= 0;
    return {routed ? w.rows() * C::kExpertsPerToken : w.rows(),  // row * choices + choice
            task.arg(UpGateOp::kCount), routed ? C::kExpertWords : C::kDenseWords};
  }
  static BOREAS_DEVICE void flush(Worker<C>& w, const Task& task, int32_t begin, int32_t rows,
                                  const Partials<C>& sums) {
    const int32_t route_slot = task.arg(UpGateOp::kRouteSlot), count = task.arg(UpGateOp::kCount);
    const bool routed = route_slot >= 0;
    const int32_t parity = w.route_parity(route_slot), stride = routed ? C::kExpertsPerToken * count : count;
    for (int32_t i = w.consumer_thread(); i < rows / 2 * w.rows(); i += kConsumerThreads) {
      const auto [pair, row] = w.by_rows(i);
      const int32_t all = begin / 2 + pair, unit = all / (kExpertSlice > 0 && routed ? kExpertSlice : count);
      const int32_t choice = routed ? w.choice_of(parity, unit, row) : 0;
      if (choice < 0) continue;
      const float gate = sums.sum(2 * pair * w.rows() + row), up = sums.sum((2 * pair + 1) * w.rows() + row);
      put_output(w, row, stride, choice * count + all - unit * count, swiglu(gate, up));
    }
  }
};

}  // namespace boreas::cuda
