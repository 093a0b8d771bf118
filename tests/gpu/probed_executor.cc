#include "tests/gpu/probed_executor.h"

#include <utility>

#include "exec/cuda/cuda_device.h"
#include "exec/cuda/device_executor.h"
#include "tests/gpu/probe_device.h"
#include "tests/gpu/probed_kernels.h"

namespace boreas {

Result<std::unique_ptr<Executor>> make_probed_executor(const std::shared_ptr<const Model>& model,
                                                       const std::vector<OracleRun>& runs, const ProbedOptions& options,
                                                       LayerComparison& comparison) {
  const ModelConfig& config = model->config();
  ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> gpu,
                   cuda::make_cuda_device(options.device_index, probed_megakernels()));
  DeviceSpec spec = h200_spec();
  spec.name = gpu->name();
  spec.workers = workers_for_sms(gpu->processors());
  const ProbeSizes sizes{config.layer_count(), config.hidden_size, config.experts_per_token, options.norm_roundings};
  ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device, ProbeDevice::make(std::move(gpu), sizes, comparison));
  const PagesNeeded pages = pages_needed(config, runs);
  CudaExecutorOptions executor_options;
  executor_options.sequence_slots = 1;
  executor_options.tokens_max = kLayerPlanTokens;
  executor_options.context_max = pages.context;
  executor_options.pages_full = pages.full;
  executor_options.pages_sliding = pages.sliding;
  executor_options.progress = options.progress;
  return cuda::make_device_executor(std::move(device), spec, cuda::compiled_shapes(), model, executor_options);
}

}  // namespace boreas
