// The probed megakernel of shape golden for one row; see probed_kernels.h.
#include "exec/cuda/megakernel.cuh"
#include "tests/gpu/probed_kernels.h"

namespace boreas {

const void* probed_golden_one_row_kernel() {
  return reinterpret_cast<const void*>(
      &cuda::megakernel<cuda::OneRow<cuda::Probed<cuda::Cut<cuda::GoldenShape, 128>>>>);
}

}  // namespace boreas
