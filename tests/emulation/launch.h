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

// A block a worker, all of the host's memory open to them. Error: what the device found wrong.
template <class Cut, class Block>
Status launch_blocks(GridOptions options, size_t shared_bytes, const Block& block) {
  forget_memory();
  register_memory(reinterpret_cast<const void*>(4096), uint64_t{1} << 47, "all memory");
  options.blocks = Cut::kWorkers;
  options.threads = cuda::kThreads;
  options.shared_bytes = static_cast<uint32_t>(shared_bytes);
  const GridResult result = run_grid(options, block);
  if (result.outcome == Outcome::kFinished) return Ok{};
  return Error{result.message};
}

// `seed` orders what the device leaves open.
template <class Cut>
Status launch_kernel(size_t shared_bytes, const cuda::StepParams& params, uint64_t seed) {
  GridOptions options;
  options.seed = seed;
  return launch_blocks<Cut>(options, shared_bytes, [&] { run_block<Cut>(params); });
}

}  // namespace boreas::emulation
