// The CUDA executor on the emulated device, and the CPU executor it is compared with: both of one small size. Tests of
// whole executors use them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "exec/cpu/cpu_executor.h"
#include "exec/cuda/device_executor.h"
#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/shape.h"

namespace boreas::emulation {

constexpr int32_t kExecutorWorkers = 4, kExecutorPages = 24, kExecutorContext = 512;
using ExecutorCut = cuda::Cut<cuda::GoldenShape, kExecutorWorkers>;

// Runs a step's kernel; launch_kernel() with the cuts that a test needs. `seed` differs from launch to launch.
using LaunchStep = Status (*)(size_t shared_bytes, const cuda::StepParams& params, uint64_t seed);

// Null, and a failure of the test, if it cannot be made. Sizes in `options` are overwritten by those above.
inline std::unique_ptr<Executor> emulated_executor(LaunchStep launch, std::shared_ptr<const Model> model,
                                                   CudaExecutorOptions options,
                                                   const cuda::HostDeviceOptions& device_options = {}) {
  DeviceSpec spec = h200_spec();
  spec.workers = kExecutorWorkers;
  spec.scratch_fixed_bytes = 16 * 1024;
  options.pages_full = options.pages_sliding = kExecutorPages;
  options.sequence_slots = 4;
  options.context_max = kExecutorContext;
  auto seed = std::make_shared<uint64_t>(0);
  cuda::HostKernel kernel = [launch, seed](const std::string&, int32_t, size_t bytes, const cuda::StepParams& params) {
    return launch(bytes, params, (*seed)++);
  };
  static const cuda::CompiledShape shapes[] = {cuda::compiled_shape<cuda::GoldenShape, kExecutorWorkers>()};
  auto device =
      std::make_unique<cuda::HostDevice>(device_options, std::move(kernel), std::make_shared<cuda::HostDeviceLog>());
  auto executor = cuda::make_device_executor(std::move(device), spec, shapes, std::move(model), options);
  EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
  return executor.ok() ? std::move(executor).value() : nullptr;
}

inline std::unique_ptr<Executor> cpu_executor_like_it(std::shared_ptr<const Model> model) {
  CpuExecutorOptions options;
  options.threads = 1;
  options.pages_full = options.pages_sliding = kExecutorPages;
  options.context_max = kExecutorContext;
  auto executor = make_cpu_executor(std::move(model), options);
  return executor.ok() ? std::move(executor).value() : nullptr;
}

}  // namespace boreas::emulation
