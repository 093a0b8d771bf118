// Bytes of weights and KV pages, and what fits a card: see compile.h.
#include "program/compile.h"

namespace boreas {
namespace {

constexpr int64_t kBytesBf16 = 2;
// Kept free for the CUDA context, module code and fragmentation; hop buffers and logits are counted on their own.
constexpr int64_t kReserveBytes = int64_t{1} << 30;
constexpr int64_t kLogitRows = 64;

int64_t page_bytes_of(const ModelConfig& config, int64_t layers) {
  return layers * config.kv_heads * 2 * kLayoutPagePositions * config.head_dim * kBytesBf16;
}

}  // namespace

int64_t page_bytes_full(const ModelConfig& config) { return page_bytes_of(config, config.full_layers()); }
int64_t page_bytes_sliding(const ModelConfig& config) { return page_bytes_of(config, config.sliding_layers()); }

int64_t weight_bytes(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  int64_t values = int64_t{config.vocab_size} * hidden + hidden;
  for (const LayerConfig& layer : config.layers) {
    values += hidden + 2 * config.query_width() * hidden + 2 * config.kv_width() * hidden;
    if (layer.dense_mlp) values += 3 * config.dense_width * hidden;
    else values += config.experts * hidden + int64_t{3} * config.experts * config.expert_width * hidden;
  }
  return values * kBytesBf16;
}

MemoryBudget memory_budget(const ModelConfig& config, const std::string& device, int64_t memory_bytes) {
  MemoryBudget budget;
  budget.device = device;
  const int64_t logits = kLogitRows * config.vocab_size * 4;
  budget.lines = {{"weights", weight_bytes(config)},
                  {"logits of 64 rows", logits},
                  {"reserve (context, code, fragmentation)", kReserveBytes}};
  budget.kv_bytes = memory_bytes;
  for (const MemoryLine& line : budget.lines) budget.kv_bytes -= line.bytes;
  if (budget.kv_bytes < 0) budget.kv_bytes = 0;
  // One sequence: its window's sliding pages, the rest full pages.
  const int64_t window_pages = config.sliding_layers() > 0 ? ceil_div(config.window, kLayoutPagePositions) + 1 : 0;
  const int64_t left = budget.kv_bytes - window_pages * page_bytes_sliding(config);
  const int64_t pages = left <= 0                     ? 0
                        : page_bytes_full(config) > 0 ? left / page_bytes_full(config)
                                                      : config.context_max;
  budget.positions_full = std::min<int64_t>(pages * kLayoutPagePositions, config.context_max);
  return budget;
}

}  // namespace boreas
