// The probed megakernel of shape golden on 128 workers; see probed_kernels.h.
#include "exec/cuda/megakernel.cuh"
#include "tests/gpu/probed_kernels.h"

namespace boreas {

const void* probed_golden_kernel() {
  return reinterpret_cast<const void*>(&cuda::megakernel<cuda::Probed<cuda::Cut<cuda::GoldenShape, 128>>>);
}

}  // namespace boreas
