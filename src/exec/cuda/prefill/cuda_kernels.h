// The prefill kernels of a GPU, for cuda_device.cu.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "exec/cuda/prefill/gemm.h"
#include "exec/cuda/prefill/kernels.h"
#include "model/model.h"

namespace boreas::cuda {

// Work goes to `stream` of the current GPU, which must outlive them. Error: see PrefillProducts::make; a number of
// queries per KV head without a kernel.
Result<std::unique_ptr<prefill::PrefillKernels>> make_cuda_prefill_kernels(const ModelConfig& config, int32_t workers,
                                                                           StreamHandle stream);

}  // namespace boreas::cuda
