// The traced megakernel of the demo checkpoint on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.h"

#include "exec/cuda/megakernel.cuh"

namespace boreas::cuda {

template <>
const void* megakernel_of<Traced<Cut<DemoShape, 128>>>() {
  return reinterpret_cast<const void*>(&megakernel<Traced<Cut<DemoShape, 128>>>);
}

}  // namespace boreas::cuda
