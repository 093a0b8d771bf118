// NOP on the device.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kNop> {
  static BOREAS_DEVICE void run(Worker<C>&, StreamTaker&, const Task&) {}
};

}  // namespace boreas::cuda
