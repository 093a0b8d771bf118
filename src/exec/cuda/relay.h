// Kernels that bring weights to their places while a model loads. Called by cuda_device.cu only; relay.cu has them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/weight_layout.h"

namespace boreas::cuda {

// StagedRows; all pointers are device memory, tensor and base aligned to 16. columns: a multiple of 32.
cudaError_t launch_scatter(std::byte* base, const RowPlace* places, int32_t rows, int32_t columns,
                           const std::byte* tensor, cudaStream_t stream);
// Device::scatter_dummy for rows [first_row, first_row + rows) of a tensor; `places` is that of first_row.
cudaError_t launch_dummy(std::byte* base, const RowPlace* places, int32_t first_row, int32_t rows, int32_t columns,
                         uint64_t name_hash, int32_t exponent, cudaStream_t stream);

}  // namespace boreas::cuda
