// The programs of a model with a compiled shape, for 128 workers of an H200 and on a device, for tests.
#pragma once

#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/device.h"
#include "exec/cuda/program_set.h"

namespace boreas::cuda {

// `device` outlives them. Error: of compiling or of uploading.
inline Result<ProgramSet> uploaded_programs(const ModelConfig& config, int32_t context_max, Device& device) {
  ASSIGN_OR_RETURN(const CompiledShape shape, find_shape(config, 128, compiled_shapes()));
  ASSIGN_OR_RETURN(ProgramSet set, ProgramSet::compile(config, h200_spec(), shape, context_max));
  RETURN_IF_ERROR(set.upload(device));
  return set;
}

}  // namespace boreas::cuda
