// The table of megakernel.h.
#include "exec/cuda/megakernel.h"

namespace boreas::cuda {

std::span<const MegakernelEntry> megakernels() {
#define BOREAS_KERNEL_ENTRY(shape, workers)                                                              \
  {shape::kName,                                                                                         \
   workers,                                                                                              \
   {megakernel_of<Cut<shape, workers>>(), megakernel_of<OneRow<Cut<shape, workers>>>()},                 \
   {megakernel_of<Traced<Cut<shape, workers>>>(), megakernel_of<Traced<OneRow<Cut<shape, workers>>>>()}, \
   sliced_kernel_of<Cut<shape, workers>>(),                                                              \
   sliced_kernel_of<OneRow<Cut<shape, workers>>>()},
  static const MegakernelEntry entries[] = {BOREAS_CUDA_SHAPES(BOREAS_KERNEL_ENTRY)};
#undef BOREAS_KERNEL_ENTRY
  return entries;
}

}  // namespace boreas::cuda
