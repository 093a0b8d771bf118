// The CUDA executor over any Device: all of it but the GPU. make_cuda_executor() and tests call it.
#pragma once

#include <memory>
#include <span>

#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/device.h"
#include "program/compile.h"

namespace boreas::cuda {

// spec: the machine that programs are compiled for; its workers are the kernel's blocks. shapes: what launch_step() of
// this device can run. Errors and contract: cuda_executor.h.
Result<std::unique_ptr<Executor>> make_device_executor(std::unique_ptr<Device> device, const DeviceSpec& spec,
                                                       std::span<const CompiledShape> shapes,
                                                       const std::shared_ptr<const Model>& model,
                                                       const CudaExecutorOptions& options);

}  // namespace boreas::cuda
