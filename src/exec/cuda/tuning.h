// What only measurements can say about the megakernel on a machine. Any values are correct; they cost or gain time.
// Passed with each launch, so a tuner can walk over them without a build.
#pragma once

#include <array>
#include <cstdint>

#include "exec/cuda/arm.h"
#include "exec/cuda/step_params.h"
#include "program/op_list.h"
#include "program/ops/all.h"
#include "program/task.h"

namespace boreas::cuda {

struct CudaTuning {
  using Credits = std::array<int32_t, kStreams>;
  // Chunks on their way at most, by LoadOp::Stream; a ring with fewer stages caps them. More keep the memory busier,
  // fewer let hop words through sooner. Found by `boreas bench tune` on an H200 (North, 8K context, one and eight
  // rows); tuned at 2, 4 and 5 rows, steps were less than 0.5 % shorter.
  Credits credits{6, 2, 3, 3, 5, 3, 4, 7, 9};
  Credits credits_of_many{6, 2, 4, 4, 5, 2, 4, 7, 9};
  static constexpr int32_t kManyRows = 6;
  Credits& credits_for(int32_t rows) { return rows < kManyRows ? credits : credits_of_many; }
  const Credits& credits_for(int32_t rows) const { return rows < kManyRows ? credits : credits_of_many; }
  // Clocks from a worker's own publication to its first look at the others', by Hop; the same measurement. Nothing is
  // gained by looking before the others can be done.
  using Delays = std::array<uint32_t, kHops>;
  Delays poll_delay{200, 0, 200, 2000, 2800, 3700, 200, 0, 0};
  uint32_t poll_pause = 100;  // clocks between looks; 0 to 500 measured equal
  // Less of the design than there is, to see what it buys (`boreas bench parts`).
  int32_t ring_chunks_max = kStagesMax;       // stages of the ring that are used, at least the smallest ring's
  int32_t producers_max = kProducerWarpsMax;  // warps that fill it
  bool one_row_kernel = true;                 // false: one row runs in the megakernel's instance for any rows
  bool early_inner = true;                    // false: words of inner vectors come at once, in the end
  bool traced = true;                         // with a trace sink: whether launches use it
};

// What an arm begins with. In the kernels of a cut step few words are on their way beside the stream, so every stream
// starts with LM_HEAD's credits, where the megakernel has none either; `boreas bench tune --arm` looks for better ones.
inline CudaTuning tuning_of(CudaArm arm) {
  CudaTuning tuning;
  if (arm != CudaArm::kMegakernel) {
    const int32_t most = tuning.credits[LoadOp::kLmHead];
    tuning.credits.fill(most);
    tuning.credits_of_many.fill(most);
  }
  return tuning;
}

}  // namespace boreas::cuda
