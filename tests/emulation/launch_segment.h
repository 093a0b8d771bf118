// A launch of a comparison arm's kernel on the emulated device: one segment of a step (exec/cuda/segments.h). Tests of
// the arms put segments together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "exec/cuda/sliced.cuh"
#include "launch.h"

namespace boreas::emulation {

// A block's part of a segment, by the kernel that a GPU would run.
template <class Cut>
void run_segment_block(const cuda::StepParams& params, const cuda::SegmentParams& segment) {
  if (params.rows == 1) cuda::run_segment<cuda::Sliced<cuda::OneRow<Cut>>>(params, segment);
  else cuda::run_segment<cuda::Sliced<Cut>>(params, segment);
}
// Compiled in four_workers_sliced.cc.
extern template void run_segment_block<FourWorkers>(const cuda::StepParams& params, const cuda::SegmentParams& segment);

// As launch_kernel(). check_races: shared accesses that nothing orders are errors.
template <class Cut>
Status launch_segment(size_t shared_bytes, const cuda::StepParams& params, const cuda::SegmentParams& segment,
                      uint64_t seed, bool check_races) {
  GridOptions options;
  options.seed = seed;
  options.check_races = check_races;
  options.polled_words = {params.scratch.arrived};
  return launch_blocks<Cut>(options, shared_bytes, [&] { run_segment_block<Cut>(params, segment); });
}

}  // namespace boreas::emulation
