// A launch of the megakernel on the emulated device, with the host's memory all open to it: what stands behind the CUDA
// executor in its tests without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "exec/cuda/megakernel.cuh"
#include "grid.h"

namespace boreas::emulation {

// A block's part of a step, by the kernel that a GPU would run.
template <class Cut>
void run_block(const cuda::StepParams& params) {
  if (params.rows == 1 && params.any_rows_kernel == 0) cuda::run_worker<cuda::OneRow<Cut>>(params);
  else cuda::run_worker<Cut>(params);
}

// Most tests run this cut, so it is compiled once, in four_workers.cc.
using FourWorkers = cuda::Cut<cuda::GoldenShape, 4>;
extern template void run_block<FourWorkers>(const cuda::StepParams& params);

// `seed` orders what the device leaves open. Error: what the device found wrong.
template <class Cut>
Status launch_kernel(size_t shared_bytes, const cuda::StepParams& params, uint64_t seed) {
  forget_memory();
  register_memory(reinterpret_cast<const void*>(4096), uint64_t{1} << 47, "all memory");
  GridOptions options;
  options.blocks = Cut::kWorkers;
  options.threads = cuda::kThreads;
  options.shared_bytes = static_cast<uint32_t>(shared_bytes);
  options.seed = seed;
  const GridResult result = run_grid(options, [&] { run_block<Cut>(params); });
  if (result.outcome == Outcome::kFinished) return Ok{};
  return Error{result.message};
}

}  // namespace boreas::emulation
