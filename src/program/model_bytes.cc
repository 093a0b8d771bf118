// Bytes of weights and KV pages.
#include "program/compile.h"

namespace boreas {
namespace {

constexpr int64_t kBytesBf16 = 2;

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

}  // namespace boreas
