// The ways in which the CUDA executor can run a step. Only numbers: apps/ names them, segments.h cuts, the device runs.
#pragma once

#include <cstdint>

namespace boreas {

// One kernel a step; or, for comparison, the same op bodies on the same task lists as many kernels in a CUDA graph,
// each of which begins when the one before is done, or (dependent launch) waits for that itself, having begun before.
enum class CudaArm : int32_t { kMegakernel, kGraph, kDependentLaunch };

// Where a step is cut into kernels: only where a task must wait for other workers (the fewest kernels there can be), or
// before every task that streams weights or pages as well (one kernel an op).
enum class KernelCut : int32_t { kLevels, kOps };

}  // namespace boreas
