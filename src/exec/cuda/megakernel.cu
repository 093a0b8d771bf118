// The table of megakernel.h.
#include "exec/cuda/megakernel.h"

namespace boreas::cuda {

std::span<const MegakernelEntry> megakernels() {
#define BOREAS_KERNEL_ENTRY(shape, workers) \
  {shape::kName, workers, megakernel_of<shape, workers>(), traced_megakernel_of<shape, workers>()},
  static const MegakernelEntry entries[] = {BOREAS_CUDA_SHAPES(BOREAS_KERNEL_ENTRY)};
#undef BOREAS_KERNEL_ENTRY
  return entries;
}

}  // namespace boreas::cuda
