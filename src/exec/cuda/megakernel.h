// The kernels of this build, for cuda_device.cu to launch: two instances a line of BOREAS_CUDA_SHAPES, each in a file
// of its own (megakernel_<shape>.cu, megakernel_<shape>_traced.cu: they take long to compile); megakernel.cu makes the
// table.
#pragma once

#include <cstdint>
#include <span>

#include "exec/cuda/shape.h"

namespace boreas::cuda {

struct MegakernelEntry {
  const char* shape;   // Shape::kName
  int32_t workers;     // blocks
  const void* kernel;  // __global__ void (const __grid_constant__ StepParams), kThreads threads a block
  const void* traced;  // the same, for launches with StepParams::task_times
};
std::span<const MegakernelEntry> megakernels();

// Specialised in megakernel_<shape>.cu and megakernel_<shape>_traced.cu.
template <class Shape, int32_t kWorkers>
const void* megakernel_of();
template <class Shape, int32_t kWorkers>
const void* traced_megakernel_of();
#define BOREAS_DECLARE_KERNEL(shape, workers)  \
  template <>                                  \
  const void* megakernel_of<shape, workers>(); \
  template <>                                  \
  const void* traced_megakernel_of<shape, workers>();
BOREAS_CUDA_SHAPES(BOREAS_DECLARE_KERNEL)
#undef BOREAS_DECLARE_KERNEL

}  // namespace boreas::cuda
