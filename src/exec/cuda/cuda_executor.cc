#include "exec/cuda/cuda_executor.h"

#ifdef BOREAS_CUDA_BUILT
#include <algorithm>
#include <utility>

#include "exec/cuda/cuda_device.h"
#include "exec/cuda/device_executor.h"
#endif

namespace boreas {

#ifdef BOREAS_CUDA_BUILT

bool cuda_built() { return true; }

Status check_gpu(int32_t device_index) {
  const Result<std::unique_ptr<cuda::Device>> device = cuda::make_cuda_device(device_index);
  return device.ok() ? Status(Ok{}) : Status(device.error());
}

bool has_kernel_for(const ModelConfig& config) {
  const std::span<const cuda::CompiledShape> shapes = cuda::compiled_shapes();
  return std::any_of(shapes.begin(), shapes.end(), [&](const cuda::CompiledShape& shape) {
    return cuda::find_shape(config, shape.workers, shapes).ok();
  });
}

Result<std::unique_ptr<Executor>> make_cuda_executor(const std::shared_ptr<const Model>& model,
                                                     const CudaExecutorOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device, cuda::make_cuda_device(options.device_index));
  DeviceSpec spec = h200_spec();  // of any Hopper the blocks have as much shared memory, the device has checked it
  spec.name = device->name();
  spec.workers = workers_for_sms(device->processors());
  constexpr double kSlowest = 2.0e12, kFastest = 5.0e12;  // H100 PCIe; an H200 is told to have 4.9
  const double bytes_per_s = cuda::memory_bytes_per_s(options.device_index);
  spec.read_bytes_per_s = bytes_per_s > 0 && bytes_per_s <= kFastest ? bytes_per_s : kSlowest;
  return cuda::make_device_executor(std::move(device), spec, cuda::compiled_shapes(), model, options);
}

#else

bool cuda_built() { return false; }

bool has_kernel_for(const ModelConfig&) { return false; }

Status check_gpu(int32_t) { return Error{"this build has no GPU support", "device"}; }

Result<GpuReadBandwidth> measure_gpu_read_bandwidth(int32_t, int64_t) {
  return Error{"this build has no GPU support", "device"};
}

Result<double> measure_gpu_copy_bandwidth(int32_t) { return Error{"this build has no GPU support", "device"}; }

Result<std::unique_ptr<Executor>> make_cuda_executor(const std::shared_ptr<const Model>&, const CudaExecutorOptions&) {
  return Error{"this build has no GPU support; use --device cpu", "device"};
}

#endif

}  // namespace boreas
