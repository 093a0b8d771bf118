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

  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t route_slot = task.arg(UpGateOp::kRouteSlot), count = task.arg(UpGateOp::kCount);
    if (count == 0) return;
    if (route_slot >= 0)
      stream_all<true, 2 * kExpertSlice, kHeightsOfSlices<C::kExpertWidth, C::kWorkers, 2>>(w, stream, route_slot,
                                                                                            count);
    else stream_all<false, 0, kHeightsOfSlices<C::kDenseWidth, C::kWorkers, 2>>(w, stream, route_slot, count);
    const int32_t vectors = route_slot >= 0 ? w.rows() * C::kExpertsPerToken : w.rows();  // row * choices + choice
    if (route_slot >= 0) publish_outputs<kExpertSlice>(w, task, vectors, count, C::kExpertWords);
    else publish_outputs<C::even_slice(C::kDenseWidth)>(w, task, vectors, count, C::kDenseWords);
  }

 private:
  template <bool kRouted, int32_t kRows, uint32_t kHeights>
  static BOREAS_DEVICE void stream_all(Worker<C>& w, StreamTaker& stream, int32_t route_slot, int32_t count) {
    const int32_t parity = w.route_parity(route_slot), units = kRouted ? w.experts_hit(parity) : 1;
    const int32_t stride = kRouted ? C::kExpertsPerToken * count : count;
    stream_products<C::kHidden, kRows, kHeights>(
        w, stream, units, 2 * count, rows_operand(w, Slot::kNormed),
        [&](int32_t begin, int32_t rows, const auto& sums) {
          for (int32_t i = w.consumer_thread(); i < rows / 2 * w.rows(); i += kConsumerThreads) {
            const auto [pair, row] = w.by_rows(i);
            const int32_t all = begin / 2 + pair, unit = all / (kRows > 0 ? kRows / 2 : count);
            const int32_t choice = kRouted ? w.choice_of(parity, unit, row) : 0;
            if (choice < 0) continue;
            const int32_t own = all - unit * count;
            const float gate = sums.sum(2 * pair * w.rows() + row, 2 * count, 2 * own);
            const float up = sums.sum((2 * pair + 1) * w.rows() + row, 2 * count, 2 * own + 1);
            put_output(w, row, stride, choice * count + own, swiglu(gate, up));
          }
        });
  }
};

}  // namespace boreas::cuda
