// Everything the CUDA executor keeps on its device, allocated once. Sizes are planned before (memory_plan.h).
#pragma once

#include <array>
#include <cstdint>

#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/device.h"
#include "model/model.h"

namespace boreas::cuda {

// Plans that may be in flight.
constexpr int32_t kStepsInFlightMax = 2;
// Launches that may be enqueued and not yet looked at; each has its own outcomes and event.
constexpr int32_t kLaunchesMax = 32;
// Of them, those whose logits the host wants: 8 MiB each for North.
constexpr int32_t kHostLogitsMax = 2;

struct PagePools {
  int32_t full = 0, sliding = 0;  // pages
  int32_t context_max = 0;        // that a sequence may have
};

// Word index of each hop in the common allocation, and its end.
std::array<uint32_t, kHops + 1> place_hops(const CompiledShape& shape);

struct ExecutorMemory {
  DeviceMemory weights;            // WeightLayout::bytes
  DeviceMemory norms;              // [layers + 1, hidden] bf16
  DeviceMemory hops;               // all hops side by side, so that one cache window covers them
  uint32_t hop_first[kHops] = {};  // Word index in hops
  DeviceMemory logits;             // [kRowsMax, vocab_size] fp32
  DeviceMemory slot_tokens;        // [sequence slots] int32
  DeviceMemory page_tables;
  DeviceMemory task_times, worker_times;  // empty without a trace
  DeviceMemory kept;                      // ProgramSet::kept_bytes(); empty for the megakernel
  DeviceMemory pages_full, pages_sliding;
  // Mapped.
  DeviceMemory outcomes;     // [kLaunchesMax, kRowsMax] RowOutcome
  DeviceMemory host_logits;  // [kHostLogitsMax, kRowsMax, vocab_size] fp32
  DeviceMemory fault;        // FaultRecord
};

// Bytes of what is neither pages nor programs nor prefill, each as ExecutorMemory has it.
struct FixedBytes {
  int64_t weights = 0, norms = 0, hops = 0, logits = 0, slot_tokens = 0, page_tables = 0, task_times = 0,
          worker_times = 0, kept = 0;
};

Result<ExecutorMemory> allocate_memory(Device& device, const ModelConfig& config, const CompiledShape& shape,
                                       const FixedBytes& fixed, const PagePools& pools);

}  // namespace boreas::cuda
