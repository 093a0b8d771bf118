// The Device that is a GPU, over the CUDA runtime. Only make_cuda_executor(), and tests with kernels of their own, make
// one; the header is host C++.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "exec/cuda/device.h"
#include "exec/cuda/megakernel.h"

namespace boreas::cuda {

// Launches kernels of this table, which outlives the device. Error: no driver or one too old, no such GPU, one that is
// not Hopper, busy, or out of memory; each by name.
Result<std::unique_ptr<Device>> make_cuda_device(int32_t index,
                                                 std::span<const MegakernelEntry> kernels = megakernels());

// Bytes a second of the GPU's memory by its clock and width, as on its data sheet to 3 %; 0: the driver does not say.
double memory_bytes_per_s(int32_t index);

}  // namespace boreas::cuda
