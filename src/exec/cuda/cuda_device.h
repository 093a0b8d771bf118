// The Device that is a GPU, over the CUDA runtime. Only make_cuda_executor() makes one; the header is host C++.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "exec/cuda/device.h"

namespace boreas::cuda {

// Error: no driver or one too old, no such GPU, one that is not Hopper, busy, or out of memory; each by name.
Result<std::unique_ptr<Device>> make_cuda_device(int32_t index);

}  // namespace boreas::cuda
