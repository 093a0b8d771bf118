// Everything the CUDA executor keeps on its device, allocated once. Sizes follow from model, compiled shape and
// options; KV pages get what is left.
#pragma once

#include <cstdint>

#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/device.h"
#include "exec/cuda/weight_layout.h"

namespace boreas::cuda {

// Launches that may be enqueued and not yet looked at; each has its own outcomes and event.
constexpr int32_t kLaunchesMax = 32;
// Of them, those whose logits the host wants: 8 MiB each for North.
constexpr int32_t kHostLogitsMax = 2;

struct PagePools {
  int32_t full = 0, sliding = 0;  // pages
  int32_t context_max = 0;        // that a sequence may have
};

// The longest context that the options ask for.
int32_t context_wanted(const ModelConfig& config, const CudaExecutorOptions& options);
// The longest context that there can be pages for, as far as options say so.
int32_t positions_wanted(const ModelConfig& config, const CudaExecutorOptions& options);
// Sliding pages that a slot may use while a chunk runs.
int32_t sliding_pages_per_slot(const ModelConfig& config, const CudaExecutorOptions& options);
// Sliding pages for every slot with a chunk in flight, but at most half of the memory; the full pool gets the rest, at
// most what all slots can use. Error: too small for one page of each.
Result<PagePools> split_pages(const ModelConfig& config, const CudaExecutorOptions& options, int64_t kv_bytes);

struct ExecutorMemory {
  DeviceMemory weights;            // WeightLayout::bytes
  DeviceMemory norms;              // [layers + 1, hidden] bf16
  DeviceMemory hops;               // all hops side by side, so that one cache window covers them
  uint32_t hop_first[kHops] = {};  // Word index in hops
  DeviceMemory logits;             // [kRowsMax, vocab_size] fp32
  DeviceMemory slot_tokens;        // [sequence slots] int32
  DeviceMemory page_tables;
  DeviceMemory task_times, worker_times;  // empty without a trace
  DeviceMemory pages_full, pages_sliding;
  // Mapped.
  DeviceMemory outcomes;     // [kLaunchesMax, kRowsMax] RowOutcome
  DeviceMemory host_logits;  // [kHostLogitsMax, kRowsMax, vocab_size] fp32
  DeviceMemory fault;        // FaultRecord
};

// All but the page pools.
Result<ExecutorMemory> allocate_fixed(Device& device, const ModelConfig& config, const CompiledShape& shape,
                                      const WeightLayout& layout, int32_t sequence_slots, size_t page_table_bytes);
// The page pools, from what is left; also says how many.
Result<PagePools> allocate_pages(Device& device, const ModelConfig& config, const CudaExecutorOptions& options,
                                 ExecutorMemory& memory);

}  // namespace boreas::cuda
