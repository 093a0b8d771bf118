// The kernels of this build, for cuda_device.cu to launch: four instances a line of BOREAS_CUDA_SHAPES, each in a file
// of its own, megakernel_<shape>[_one_row][_traced].cu, since they take long to compile; megakernel.cu makes the table.
// Some shapes have those of the comparison arms too: megakernel_<shape>[_one_row]_sliced.cu.
#pragma once

#include <cstdint>
#include <span>

#include "exec/cuda/shape.h"
#include "exec/cuda/step_params.h"

namespace boreas::cuda {

// __global__ void (const __grid_constant__ SegmentParams), kThreads threads a block; a null kernel: there is none.
struct SlicedKernel {
  const void* kernel = nullptr;
  const void* step = nullptr;  // the __constant__ StepParams that it reads, for cudaMemcpyToSymbolAsync
};

struct MegakernelEntry {
  const char* shape;  // Shape::kName
  int32_t workers;    // blocks
  // __global__ void (const __grid_constant__ StepParams), kThreads threads a block.
  struct Kernels {
    const void* any_rows;
    const void* one_row;  // the same bits, sooner
    const void* of(const StepParams& params) const {
      return params.rows == 1 && params.any_rows_kernel == 0 ? one_row : any_rows;
    }
  };
  Kernels plain, traced;  // traced: for launches with StepParams::task_times
  SlicedKernel sliced_any_rows, sliced_one_row;
  SlicedKernel sliced_of(int32_t rows) const {
    return rows == 1 && sliced_one_row.kernel != nullptr ? sliced_one_row : sliced_any_rows;
  }
};
std::span<const MegakernelEntry> megakernels();

// C: Cut<Shape, workers>, also as OneRow and Traced (shape.h). Specialised in those files.
template <class C>
const void* megakernel_of();
#define BOREAS_DECLARE_KERNEL(shape, workers)               \
  template <>                                               \
  const void* megakernel_of<Cut<shape, workers>>();         \
  template <>                                               \
  const void* megakernel_of<OneRow<Cut<shape, workers>>>(); \
  template <>                                               \
  const void* megakernel_of<Traced<Cut<shape, workers>>>(); \
  template <>                                               \
  const void* megakernel_of<Traced<OneRow<Cut<shape, workers>>>>();
BOREAS_CUDA_SHAPES(BOREAS_DECLARE_KERNEL)
#undef BOREAS_DECLARE_KERNEL

template <class C>
SlicedKernel sliced_kernel_of() {
  return {};
}
template <>
SlicedKernel sliced_kernel_of<Cut<NorthShape, 128>>();
template <>
SlicedKernel sliced_kernel_of<OneRow<Cut<NorthShape, 128>>>();
template <>
SlicedKernel sliced_kernel_of<Cut<GoldenShape, 128>>();

}  // namespace boreas::cuda
