// The comparison arms' kernel for any number of rows of North-Mini-Code-1.0 on 128 workers; see megakernel.h.
#include "exec/cuda/megakernel.h"
#include "exec/cuda/sliced.cuh"

namespace boreas::cuda {

template <>
SlicedKernel sliced_kernel_of<Cut<NorthShape, 128>>() {
  return {reinterpret_cast<const void*>(&megakernel_sliced<Sliced<Cut<NorthShape, 128>>>), step_of_segments};
}

}  // namespace boreas::cuda
