// The megakernel of North-Mini-Code-1.0 on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.h"

#include "exec/cuda/megakernel.cuh"

namespace boreas::cuda {

template <>
const void* megakernel_of<Cut<NorthShape, 128>>() {
  return reinterpret_cast<const void*>(&megakernel<Cut<NorthShape, 128>>);
}

}  // namespace boreas::cuda
