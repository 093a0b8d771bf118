// Bytes of weights and KV pages, and what fits a card: see compile.h.
#include <algorithm>

#include "program/compile.h"

namespace boreas {
namespace {

constexpr int64_t kBytesBf16 = 2;
// Kept free for the CUDA context, module code, a prefill chunk's activations and fragmentation.
constexpr int64_t kReserveBytes = int64_t{1} << 30;
constexpr int32_t kRowsMax = 64;  // decode rows that buffers are made for
// Positions of a prefill chunk: while it runs, its own sliding pages are held beside the window's.
constexpr int64_t kChunkPositions = 2048;
constexpr int64_t kContexts[] = {8192, 32768, 131072, 262144};

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

int64_t hop_bytes(const ModelConfig& config, int32_t rows) {
  const int64_t partial = int64_t{config.kv_heads} * kAttentionPieces * config.queries_per_kv() * (config.head_dim + 2);
  const int64_t inner = std::max<int64_t>(config.dense_width, int64_t{config.experts_per_token} * config.expert_width);
  const int64_t values = config.hidden_size + config.experts + config.query_width() + 2 * config.kv_width() + partial +
                         config.query_width() + inner;
  // Two halves. Words of 16 bytes carry 12 of payload. Partials may travel as fp32.
  return 2 * rows * (values + partial) * kBytesBf16 * 16 / 12;
}

MemoryBudget memory_budget(const ModelConfig& config, const std::string& device, int64_t memory_bytes) {
  MemoryBudget budget;
  budget.device = device;
  budget.memory_bytes = memory_bytes;
  budget.lines = {{"weights", weight_bytes(config)},
                  {"logits of 64 rows", int64_t{kRowsMax} * config.vocab_size * 4},
                  {"hop buffers of 64 rows", hop_bytes(config, kRowsMax)},
                  {"reserve (context, code, prefill, fragmentation)", kReserveBytes}};
  budget.kv_bytes = memory_bytes;
  for (const MemoryLine& line : budget.lines) budget.kv_bytes -= line.bytes;
  budget.kv_bytes = std::max<int64_t>(budget.kv_bytes, 0);
  const int64_t full = page_bytes_full(config), sliding = page_bytes_sliding(config);
  // A sequence in prefill: the window before a chunk, the chunk, and a page more at either end.
  const int64_t window_pages = sliding > 0 ? (config.window - 1 + kChunkPositions) / kLayoutPagePositions + 2 : 0;
  const int64_t left = budget.kv_bytes - window_pages * sliding;
  if (left > 0)
    budget.positions_full =
        full > 0 ? std::min<int64_t>(left / full * kLayoutPagePositions, config.context_max) : config.context_max;
  for (const int64_t positions : kContexts) {
    if (positions > config.context_max) continue;
    // All of them decode: each holds its window's pages.
    const int64_t pages = ceil_div(positions, kLayoutPagePositions);
    const int64_t decode_pages =
        sliding > 0 ? std::min<int64_t>(pages, ceil_div(config.window, kLayoutPagePositions) + 1) : 0;
    const int64_t bytes = pages * full + decode_pages * sliding;
    budget.fits.push_back({positions, bytes > 0 ? budget.kv_bytes / bytes : 0});
  }
  return budget;
}

}  // namespace boreas
