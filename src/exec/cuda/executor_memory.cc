#include "exec/cuda/executor_memory.h"

#include <algorithm>

#include "program/compile.h"

namespace boreas::cuda {
namespace {

constexpr uint32_t kHopAlignWords = 16;  // 256 bytes

size_t bytes_of(int64_t count, int64_t each) { return static_cast<size_t>(count * each); }

}  // namespace

std::array<uint32_t, kHops + 1> place_hops(const CompiledShape& shape) {
  std::array<uint32_t, kHops + 1> first{};
  for (size_t i = 0; i < kHops; ++i)
    first[i + 1] = (first[i] + 2 * shape.hop_half_words[i] + kHopAlignWords - 1) / kHopAlignWords * kHopAlignWords;
  return first;
}

Result<ExecutorMemory> allocate_memory(Device& device, const ModelConfig& config, const CompiledShape& shape,
                                       const FixedBytes& fixed, const PagePools& pools) {
  ExecutorMemory memory;
  // At least one byte: a pool that the model does not have still gets a pointer.
  const auto allocate = [&device](DeviceMemory& to, int64_t bytes, const char* what) -> Status {
    ASSIGN_OR_RETURN(to, device.allocate(static_cast<size_t>(std::max<int64_t>(bytes, 1)), what));
    return Ok{};
  };
  RETURN_IF_ERROR(allocate(memory.weights, fixed.weights, "weights"));
  RETURN_IF_ERROR(allocate(memory.norms, fixed.norms, "norms"));
  RETURN_IF_ERROR(allocate(memory.hops, fixed.hops, "hop buffers"));
  RETURN_IF_ERROR(allocate(memory.logits, fixed.logits, "logits"));
  RETURN_IF_ERROR(allocate(memory.slot_tokens, fixed.slot_tokens, "slot tokens"));
  RETURN_IF_ERROR(allocate(memory.page_tables, fixed.page_tables, "page tables"));
  const std::array<uint32_t, kHops + 1> hops = place_hops(shape);
  std::copy(hops.begin(), hops.end() - 1, memory.hop_first);
  if (fixed.task_times > 0) {
    RETURN_IF_ERROR(allocate(memory.task_times, fixed.task_times, "task times"));
    RETURN_IF_ERROR(allocate(memory.worker_times, fixed.worker_times, "worker times"));
  }
  if (fixed.kept > 0) RETURN_IF_ERROR(allocate(memory.kept, fixed.kept, "what is kept between kernels"));
  const int64_t logits_row = int64_t{4} * config.vocab_size;
  ASSIGN_OR_RETURN(memory.outcomes,
                   device.allocate_mapped(bytes_of(kLaunchesMax * kRowsMax, sizeof(RowOutcome)), "outcomes"));
  ASSIGN_OR_RETURN(memory.host_logits,
                   device.allocate_mapped(bytes_of(kHostLogitsMax * kRowsMax, logits_row), "logits of the host"));
  ASSIGN_OR_RETURN(memory.fault, device.allocate_mapped(sizeof(FaultRecord), "fault record"));
  RETURN_IF_ERROR(
      allocate(memory.pages_full, int64_t{pools.full} * page_bytes_full(config), "full-attention KV pages"));
  RETURN_IF_ERROR(
      allocate(memory.pages_sliding, int64_t{pools.sliding} * page_bytes_sliding(config), "sliding-window KV pages"));
  return memory;
}

}  // namespace boreas::cuda
