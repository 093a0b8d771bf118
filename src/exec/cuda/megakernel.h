// The kernels of this build, for cuda_device.cu to launch: one instance a line of BOREAS_CUDA_SHAPES. megakernel.cu
// makes the table.
#pragma once

#include <cstdint>
#include <span>

namespace boreas::cuda {

struct MegakernelEntry {
  const char* shape;   // Shape::kName
  int32_t workers;     // blocks
  const void* kernel;  // __global__ void (const __grid_constant__ StepParams), kThreads threads a block
};
std::span<const MegakernelEntry> megakernels();

}  // namespace boreas::cuda
