// The megakernel for the shape of the shared goldens on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.cuh"
#include "exec/cuda/megakernel.h"

namespace boreas::cuda {

template <>
const void* megakernel_of<GoldenShape, 128>() {
  return reinterpret_cast<const void*>(&megakernel<Cut<GoldenShape, 128>>);
}

}  // namespace boreas::cuda
