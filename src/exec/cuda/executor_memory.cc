#include "exec/cuda/executor_memory.h"

#include <algorithm>
#include <string>

#include "program/compile.h"

namespace boreas::cuda {
namespace {

// Page ids are 16 bits in the kernel's lists.
constexpr int64_t kPagesMax = 65536;
constexpr uint32_t kHopAlignWords = 16;  // 256 bytes

size_t bytes_of(int64_t count, int64_t each) { return static_cast<size_t>(count * each); }

}  // namespace

int32_t context_wanted(const ModelConfig& config, const CudaExecutorOptions& options) {
  return options.context_max > 0 ? std::min(options.context_max, config.context_max) : config.context_max;
}

int32_t positions_wanted(const ModelConfig& config, const CudaExecutorOptions& options) {
  const int64_t context = context_wanted(config, options), pages = options.pages_full;
  const bool exact = pages > 0 && config.full_layers() > 0;
  return static_cast<int32_t>(exact ? std::min(context, pages * kPagePositions) : context);
}

int32_t sliding_pages_per_slot(const ModelConfig& config, const CudaExecutorOptions& options) {
  if (config.sliding_layers() == 0) return 0;
  const int64_t context = ceil_div(context_wanted(config, options), kPagePositions);
  return static_cast<int32_t>(std::min(context, (int64_t{config.window} + options.tokens_max) / kPagePositions + 2));
}

Result<PagePools> split_pages(const ModelConfig& config, const CudaExecutorOptions& options, int64_t kv_bytes) {
  const int64_t bytes_full = page_bytes_full(config), bytes_sliding = page_bytes_sliding(config);
  const int64_t slots = options.sequence_slots;
  const int64_t context = context_wanted(config, options);
  int64_t sliding = 0, full = 0;
  if (options.pages_full > 0) {
    full = bytes_full > 0 ? options.pages_full : 0;
    sliding = bytes_sliding > 0 ? options.pages_sliding : 0;
  } else {
    if (bytes_sliding > 0)
      sliding = std::min({sliding_pages_per_slot(config, options) * slots, kv_bytes / 2 / bytes_sliding, kPagesMax});
    if (bytes_full > 0)
      full = std::min(
          {ceil_div(context, kPagePositions) * slots, (kv_bytes - sliding * bytes_sliding) / bytes_full, kPagesMax});
  }
  if ((bytes_sliding > 0 && sliding < 2) || (bytes_full > 0 && full < 1)) {
    return Error{"KV memory of " + std::to_string(std::max<int64_t>(kv_bytes, 0)) +
                 " bytes is too small: a full-attention page has " + std::to_string(bytes_full) +
                 " bytes, a sliding-window page " + std::to_string(bytes_sliding)};
  }
  PagePools pools;
  pools.full = static_cast<int32_t>(full);
  pools.sliding = static_cast<int32_t>(sliding);
  pools.context_max = static_cast<int32_t>(bytes_full == 0 ? context : std::min(context, full * kPagePositions));
  return pools;
}

Result<ExecutorMemory> allocate_fixed(Device& device, const ModelConfig& config, const CompiledShape& shape,
                                      const WeightLayout& layout, int32_t sequence_slots, size_t page_table_bytes) {
  ExecutorMemory memory;
  ASSIGN_OR_RETURN(memory.weights, device.allocate(layout.bytes, "weights"));
  ASSIGN_OR_RETURN(memory.norms,
                   device.allocate(bytes_of(config.layer_count() + 1, int64_t{2} * config.hidden_size), "norms"));
  uint32_t words = 0;
  for (size_t i = 0; i < kHops; ++i) {
    memory.hop_first[i] = words;
    words += 2 * shape.hop_half_words[i];
    words = (words + kHopAlignWords - 1) / kHopAlignWords * kHopAlignWords;
  }
  ASSIGN_OR_RETURN(memory.hops, device.allocate(bytes_of(words, sizeof(Word)), "hop buffers"));
  const int64_t logits_row = int64_t{4} * config.vocab_size;
  ASSIGN_OR_RETURN(memory.logits, device.allocate(bytes_of(kRowsMax, logits_row), "logits"));
  ASSIGN_OR_RETURN(memory.slot_tokens, device.allocate(bytes_of(sequence_slots, sizeof(int32_t)), "slot tokens"));
  ASSIGN_OR_RETURN(memory.page_tables, device.allocate(page_table_bytes, "page tables"));
  ASSIGN_OR_RETURN(memory.outcomes,
                   device.allocate_mapped(bytes_of(kLaunchesMax * kRowsMax, sizeof(RowOutcome)), "outcomes"));
  ASSIGN_OR_RETURN(memory.host_logits,
                   device.allocate_mapped(bytes_of(kHostLogitsMax * kRowsMax, logits_row), "logits of the host"));
  ASSIGN_OR_RETURN(memory.fault, device.allocate_mapped(sizeof(FaultRecord), "fault record"));
  return memory;
}

Result<PagePools> allocate_pages(Device& device, const ModelConfig& config, const CudaExecutorOptions& options,
                                 ExecutorMemory& memory) {
  const int64_t left = device.memory_free() - options.reserve_bytes;
  if (options.pages_full == 0 && options.kv_bytes > left) {
    return Error{"KV memory of " + std::to_string(options.kv_bytes) + " bytes does not fit: " + device.name() +
                     " has " + std::to_string(std::max<int64_t>(left, 0)) +
                     " bytes left beside the weights and a reserve",
                 "kv_bytes"};
  }
  ASSIGN_OR_RETURN(const PagePools pools, split_pages(config, options, options.kv_bytes > 0 ? options.kv_bytes : left));
  // At least one byte: a pool that the model does not have still gets a pointer.
  const auto allocate = [&device](int64_t pages, int64_t bytes, const char* what) {
    return device.allocate(bytes_of(std::max<int64_t>(pages, 1), std::max<int64_t>(bytes, 1)), what);
  };
  ASSIGN_OR_RETURN(memory.pages_full, allocate(pools.full, page_bytes_full(config), "full-attention KV pages"));
  ASSIGN_OR_RETURN(memory.pages_sliding,
                   allocate(pools.sliding, page_bytes_sliding(config), "sliding-window KV pages"));
  return pools;
}

}  // namespace boreas::cuda
