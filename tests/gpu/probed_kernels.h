// Probed instances of the megakernel (Probed in exec/cuda/shape.h), as a table for make_cuda_device(). Each is compiled
// in a file of its own, since that takes long; the product has none of them.
#pragma once

#include <span>

#include "exec/cuda/megakernel.h"

namespace boreas {

std::span<const cuda::MegakernelEntry> probed_megakernels();

const void* probed_north_kernel();
const void* probed_north_one_row_kernel();
const void* probed_golden_kernel();
const void* probed_golden_one_row_kernel();

}  // namespace boreas
