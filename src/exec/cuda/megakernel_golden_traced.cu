// The traced megakernel for the goldens on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.cuh"
#include "exec/cuda/megakernel.h"

namespace boreas::cuda {

template <>
const void* traced_megakernel_of<GoldenShape, 128>() {
  return reinterpret_cast<const void*>(&megakernel<Traced<Cut<GoldenShape, 128>>>);
}

}  // namespace boreas::cuda
