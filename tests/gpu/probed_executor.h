// A CUDA executor on a GPU whose kernels are probed, for runs of layer_comparison.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/executor.h"
#include "model/model.h"
#include "tests/gpu/layer_comparison.h"

namespace boreas {

struct ProbedOptions {
  int32_t device_index = 0;
  int32_t norm_roundings = 2;  // cuda::Probe::norm_roundings; 1: the product's
  LoadProgress progress;
};

// With the pages that these runs need. `comparison` outlives it. Errors as make_cuda_executor().
Result<std::unique_ptr<Executor>> make_probed_executor(const std::shared_ptr<const Model>& model,
                                                       const std::vector<OracleRun>& runs, const ProbedOptions& options,
                                                       LayerComparison& comparison);

}  // namespace boreas
