// The CUDA executor: the whole step as one persistent kernel on a Hopper GPU. This header is what apps/ see; it can be
// included, and its functions called, in builds without CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exec/cuda/arm.h"
#include "exec/cuda/trace.h"
#include "exec/cuda/tuning.h"
#include "exec/executor.h"
#include "model/model.h"

namespace boreas {

struct DeviceSpec;  // program/compile.h

struct CudaExecutorOptions {
  int32_t device_index = 0;
  int32_t sequence_slots = 64;
  int32_t rows_max = 8;       // of one plan; more than 8 take several launches
  int32_t tokens_max = 8192;  // of one plan; what prefill does best
  int32_t context_max = 0;    // 0: the model's
  int64_t kv_bytes = 0;       // both page pools together; 0: what the device has left but reserve_bytes
  int64_t reserve_bytes = int64_t{1} << 30;
  int32_t pages_full = 0;  // > 0 (both): exactly so many instead
  int32_t pages_sliding = 0;
  // Called when all memory is allocated, before weights are read.
  std::function<void(const ExecutorInfo&)> planned;
  LoadProgress progress;  // of the weights
  // How decode steps run: the megakernel, or what it is compared with, which gives the same bits and knows no traces.
  CudaArm arm = CudaArm::kMegakernel;
  KernelCut cut = KernelCut::kLevels;
  // Called when a launch is done with when its tasks ran. Those launches run one at a time.
  cuda::TraceSink trace;
  cuda::CudaTuning tuning;
  std::shared_ptr<const cuda::CudaTuning> live_tuning;  // if set, looked at before every launch instead
  // Of everybody who waits for a launch before it is a fault (deadlines.h). A sanitizer needs more.
  double deadline_scale = 1;
  // Tests.
  bool decode_only = false;  // prompts run through the decode kernel too: one arithmetic, but slow
  uint32_t first_step = 0;   // where epochs begin
  uint32_t delay_seed = 0;   // random pauses in the kernel
  int32_t silent_task = -1;  // worker 0's consumer task of that number publishes nothing
};

// Whether this build can run on a GPU at all.
bool cuda_built();

// Whether GPU `device_index` can be used now. Error: no CUDA in this build, no driver or one too old, no such GPU, not
// Hopper, busy.
Status check_gpu(int32_t device_index);

// Whether this build has a kernel for the model's shape.
bool has_kernel_for(const ModelConfig& config);

// What an executor of this model takes of a GPU with spec.memory_bytes free, and what fits then: `memory`, pages and
// context_max of its info. Needs neither a GPU nor CUDA in the build. Error: no kernel for the shape, an option out of
// range; or it does not fit: how much of what, and which flag helps.
Result<ExecutorInfo> plan_cuda_memory(const ModelConfig& config, const DeviceSpec& spec,
                                      const CudaExecutorOptions& options);

// How fast a GPU can be read: the yardstick beside decode figures.
struct GpuReadBandwidth {
  double gb_s = 0;      // 1e9 bytes a second, best of all patterns, each the best of several passes
  std::string pattern;  // which one that was
};
// Reads `bytes` of device memory, which it allocates for the time of the call. Error: no CUDA in this build, no usable
// GPU, too little free memory.
Result<GpuReadBandwidth> measure_gpu_read_bandwidth(int32_t device_index, int64_t bytes);

// How fast a GPU takes pinned host memory, GB/s (1e9): the yardstick beside loading. The best of several copies. Error:
// as above.
Result<double> measure_gpu_copy_bandwidth(int32_t device_index);

// Error: no CUDA in this build, no usable GPU (driver too old, not Hopper, busy, out of memory), no kernel for the
// model's shape, or an option out of range. steps_in_flight_max is 2; submit() enqueues and returns, unless the plan
// depends on a token that the host has yet to draw, or has more rows than launches may be in flight: then it waits for
// earlier launches first. Prompts run through kernels of their own (prefill/), which leaves decode its own arithmetic:
// ExecutorInfo::one_arithmetic is false. Rows with LogitsWanted::kAll, and the last token of every prompt, are
// decode's. After an Error of submit() or wait() every later submit() is an Error as well.
//
// Who draws: the device where the largest logit is wanted and nothing else (temperature 0, no penalty, bias, mask,
// allowed or suppressed id in force, no log-probabilities), and where the token is forced; else the host, from the
// row's logits (exec/sampling.h).
Result<std::unique_ptr<Executor>> make_cuda_executor(const std::shared_ptr<const Model>& model,
                                                     const CudaExecutorOptions& options);

}  // namespace boreas
