// The kernels of this build, for cuda_device.cu to launch: one instance a line of BOREAS_CUDA_SHAPES, each in a file of
// its own (megakernel_<shape>.cu: they take long to compile); megakernel.cu makes the table.
#pragma once

#include <cstdint>
#include <span>

#include "exec/cuda/shape.h"

namespace boreas::cuda {

struct MegakernelEntry {
  const char* shape;   // Shape::kName
  int32_t workers;     // blocks
  const void* kernel;  // __global__ void (const __grid_constant__ StepParams), kThreads threads a block
};
std::span<const MegakernelEntry> megakernels();

// Specialised in megakernel_<shape>.cu.
template <class Shape, int32_t kWorkers>
const void* megakernel_of();
#define BOREAS_DECLARE_KERNEL(shape, workers) \
  template <>                                 \
  const void* megakernel_of<shape, workers>();
BOREAS_CUDA_SHAPES(BOREAS_DECLARE_KERNEL)
#undef BOREAS_DECLARE_KERNEL

}  // namespace boreas::cuda
