// What an executor will take of a device, known before it takes anything: the one place that computes it, for the
// executor itself and for `boreas plan --memory`. KV pages get what is left.
#pragma once

#include <cstdint>
#include <string>

#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/executor_memory.h"
#include "exec/cuda/page_tables.h"
#include "exec/cuda/program_set.h"
#include "exec/cuda/weight_layout.h"
#include "program/compile.h"

namespace boreas::cuda {

// The longest context that the options ask for.
int32_t context_wanted(const ModelConfig& config, const CudaExecutorOptions& options);
// The longest context that there can be pages for, as far as options say so.
int32_t positions_wanted(const ModelConfig& config, const CudaExecutorOptions& options);
// Sliding pages that a slot may use while a chunk runs.
int32_t sliding_pages_per_slot(const ModelConfig& config, const CudaExecutorOptions& options);
// Sliding pages for the windows of all slots and one plan's chunks, but at most half of the memory; the full pool gets
// the rest, at most what all slots can use. Error: too small for one page of each, or for a context that was asked for.
// context_asked: 0: whatever fits.
Result<PagePools> split_pages(const ModelConfig& config, const CudaExecutorOptions& options, int64_t kv_bytes,
                              int32_t context_asked);

struct ExecutorPlan {
  CudaExecutorOptions options;  // rows_max no more than slots, context_max what fits and the kernel's page lists hold
  WeightLayout layout;
  ProgramSet programs;
  PageTables page_tables;
  FixedBytes fixed;
  PagePools pools;
  ExecutorInfo info;
};
// with_prefill: the device has prefill kernels. Without a context_max in the options the context is the longest that
// fits together with the prefill workspace that it needs. Error: an option out of range, a program that does not
// verify; what does not fit into memory_free, by how much, and which flag of `boreas serve` helps.
Result<ExecutorPlan> plan_executor(const ModelConfig& config, const DeviceSpec& spec, const CompiledShape& shape,
                                   const CudaExecutorOptions& options, bool with_prefill, const std::string& device,
                                   int64_t memory_free);

}  // namespace boreas::cuda
