// The traced megakernel for one row of the demo checkpoint on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.h"

#include "exec/cuda/megakernel.cuh"

namespace boreas::cuda {

template <>
const void* megakernel_of<Traced<OneRow<Cut<DemoShape, 128>>>>() {
  return reinterpret_cast<const void*>(&megakernel<Traced<OneRow<Cut<DemoShape, 128>>>>);
}

}  // namespace boreas::cuda
