// The probed megakernel of shape north for one row; see probed_kernels.h.
#include "exec/cuda/megakernel.cuh"
#include "tests/gpu/probed_kernels.h"

namespace boreas {

const void* probed_north_one_row_kernel() {
  return reinterpret_cast<const void*>(&cuda::megakernel<cuda::OneRow<cuda::Probed<cuda::Cut<cuda::NorthShape, 128>>>>);
}

}  // namespace boreas
