// See state.h: sizes of what workers share and of what each keeps, and the layout of KV pages.
#include "exec/cpu/state.h"

#include <algorithm>

namespace boreas::cpu {

void HopBuffer::resize(int32_t workers, size_t bytes) {
  for (std::vector<std::byte>& half : payload_) half.assign(bytes, std::byte{0});
  words_ = std::make_unique<EpochWord[]>(static_cast<size_t>(workers) * 2);
}

bf16* Shared::page(bool sliding, PageId page, int32_t layer, int32_t head, int32_t k_or_v) {
  const ModelConfig& c = config();
  const int64_t layers = sliding ? c.sliding_layers() : c.full_layers();
  const int64_t index =
      ((page.value * layers + pool_layer[static_cast<size_t>(layer)]) * c.kv_heads + head) * 2 + k_or_v;
  return (sliding ? kv_sliding : kv_full).get() + index * kPagePositions * c.head_dim;
}

Status allocate_pages(Shared& shared, int64_t pages_full, int64_t pages_sliding) {
  const ModelConfig& config = shared.config();
  // At least one byte: a pool that the model does not have still gets a pointer.
  const auto allocate = [](int64_t pages, int64_t bytes) {
    return static_cast<bf16*>(std::calloc(static_cast<size_t>(std::max<int64_t>(pages, 1)),
                                          static_cast<size_t>(std::max<int64_t>(bytes, 1))));
  };
  shared.kv_full.reset(allocate(pages_full, page_bytes_full(config)));
  shared.kv_sliding.reset(allocate(pages_sliding, page_bytes_sliding(config)));
  if (shared.kv_full == nullptr || shared.kv_sliding == nullptr)
    return Error{"cannot allocate " + std::to_string(pages_full * page_bytes_full(config)) + " bytes for full and " +
                 std::to_string(pages_sliding * page_bytes_sliding(config)) + " bytes for sliding KV pages"};
  int32_t next[2] = {};
  shared.pool_layer.clear();
  for (const LayerConfig& layer : config.layers) shared.pool_layer.push_back(next[layer.sliding]++);
  return Ok{};
}

void allocate_hops(Shared& shared) {
  const ModelConfig& c = shared.config();
  const size_t rows = static_cast<size_t>(shared.rows_max);
  const size_t qkv = static_cast<size_t>(c.kv_heads) * static_cast<size_t>((c.queries_per_kv() + 2) * c.head_dim);
  const size_t inner = static_cast<size_t>(std::max(c.dense_width, c.experts_per_token * c.expert_width));
  const size_t partial = static_cast<size_t>(c.query_heads) * kAttentionPieces * static_cast<size_t>(c.head_dim + 2);
  const auto resize = [&](Hop hop, size_t bytes_a_row) {
    shared.hops[static_cast<size_t>(hop)].resize(shared.workers, rows * bytes_a_row);
  };
  resize(Hop::kResidual, static_cast<size_t>(c.hidden_size) * sizeof(bf16));
  resize(Hop::kLogit, static_cast<size_t>(c.experts) * sizeof(float));
  resize(Hop::kQkv, qkv * sizeof(bf16));
  resize(Hop::kPartial, partial * sizeof(float));
  resize(Hop::kAttention, static_cast<size_t>(c.query_width()) * sizeof(bf16));
  resize(Hop::kInner, inner * sizeof(bf16));
  resize(Hop::kLogits, 0);  // the logits lie in Shared::logits, the drawn tokens in Shared::sampled
  resize(Hop::kMass, 0);
  resize(Hop::kToken, 0);
}

void allocate_slots(const Shared& shared, Worker& worker) {
  const ModelConfig& c = shared.config();
  const size_t rows = static_cast<size_t>(shared.rows_max);
  const size_t heads = static_cast<size_t>(heads_of_worker(shared.workers, c.kv_heads, worker.id).count);
  const size_t hidden_slice = static_cast<size_t>(slice(c.hidden_size, shared.workers, worker.id).count);
  worker.normed.resize(rows * static_cast<size_t>(padded(c.hidden_size)));
  worker.qkv.resize(rows * heads * static_cast<size_t>((c.queries_per_kv() + 2) * c.head_dim));
  worker.attention.resize(rows * static_cast<size_t>(padded(c.query_width())));
  worker.inner.resize(
      rows * static_cast<size_t>(std::max(padded(c.dense_width), c.experts_per_token * padded(c.expert_width))));
  // No row has an expert before the first TOP_K.
  for (Route& route : worker.routes) route.first.assign(static_cast<size_t>(c.experts) + 1, 0);
  worker.residual.resize(rows * hidden_slice);
  worker.projected.resize(rows * hidden_slice);
}

}  // namespace boreas::cpu
