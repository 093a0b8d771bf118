// The megakernel of the shared goldens' checkpoint on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.h"

#include "exec/cuda/megakernel.cuh"

namespace boreas::cuda {

template <>
const void* megakernel_of<Cut<GoldenShape, 128>>() {
  return reinterpret_cast<const void*>(&megakernel<Cut<GoldenShape, 128>>);
}

}  // namespace boreas::cuda
