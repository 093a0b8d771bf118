// The traced megakernel for the bundled checkpoint on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.cuh"
#include "exec/cuda/megakernel.h"

namespace boreas::cuda {

template <>
const void* traced_megakernel_of<DemoShape, 128>() {
  return reinterpret_cast<const void*>(&megakernel<Traced<Cut<DemoShape, 128>>>);
}

}  // namespace boreas::cuda
