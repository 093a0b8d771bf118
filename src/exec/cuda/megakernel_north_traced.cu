// The traced megakernel for North-Mini-Code-1.0 on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.cuh"
#include "exec/cuda/megakernel.h"

namespace boreas::cuda {

template <>
const void* traced_megakernel_of<NorthShape, 128>() {
  return reinterpret_cast<const void*>(&megakernel<Traced<Cut<NorthShape, 128>>>);
}

}  // namespace boreas::cuda
