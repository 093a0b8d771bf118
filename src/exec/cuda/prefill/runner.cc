#include "exec/cuda/prefill/runner.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "exec/cuda/step_builder.h"
#include "program/layout.h"

namespace boreas::cuda {

using prefill::Product;

namespace {

constexpr int32_t kNoWindow = 1 << 30;  // no position is as large
constexpr size_t kAlign = prefill::kUnfoldedAlign;
// Four times the L2 cache of a Hopper chip, as Device::wash_cache().
constexpr size_t kWashBytes = size_t{256} << 20;

// Hands out parts of one allocation; without one it only counts.
class Parts {
 public:
  explicit Parts(std::byte* base) : base_(base) {}
  template <class T>
  void take(T*& part, int64_t count) {
    part = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  size_t bytes_ = 0;
};

// Where a layer's first KV head lies in its pool's pages.
uint64_t layer_offset(const ModelConfig& config, const LayerWeights& layer) {
  return static_cast<uint64_t>(layer.pool_layer) * static_cast<uint64_t>(config.kv_heads) * kKvPageHeadBytes;
}

}  // namespace

PrefillRunner::PrefillRunner(Device& device, const ModelConfig& config, const CompiledShape& shape, int32_t tokens_max,
                             int32_t context_max, std::unique_ptr<prefill::PrefillKernels> kernels)
    : device_(device),
      config_(config),
      shape_(shape),
      tokens_max_(std::min(tokens_max, kTokensMax)),
      pages_max_(static_cast<int32_t>(ceil_div(context_max, kPagePositions))),
      window_(config.sliding_layers() > 0 ? config.window : kNoWindow),
      kernels_(std::move(kernels)) {}

Result<std::unique_ptr<PrefillRunner>> PrefillRunner::make(Device& device, const ModelConfig& config,
                                                           const CompiledShape& shape, int32_t tokens_max,
                                                           int32_t context_max,
                                                           std::unique_ptr<prefill::PrefillKernels> kernels) {
  CHECK(kernels != nullptr);
  CHECK(config.experts <= prefill::kExpertsMax && config.experts_per_token <= prefill::kChoicesMax);
  std::unique_ptr<PrefillRunner> runner(
      new PrefillRunner(device, config, shape, tokens_max, context_max, std::move(kernels)));
  RETURN_IF_ERROR(runner->allocate());
  RETURN_IF_ERROR(runner->add_operands());
  return runner;
}

size_t PrefillRunner::share_out(const ModelConfig& config, int64_t tokens, int64_t pages, std::byte* base, Buffers& b) {
  const int64_t hidden = config.hidden_size, choices = config.experts_per_token;
  Parts parts(base);
  parts.take(b.tokens, tokens);
  parts.take(b.items, tokens);
  parts.take(b.list_full, pages);
  parts.take(b.list_sliding, pages);
  parts.take(b.unfolded, pages * config.kv_heads * prefill::kUnfoldedBytes);
  parts.take(b.turns, tokens * config.head_dim);
  parts.take(b.residual, tokens * hidden);
  parts.take(b.normed, tokens * hidden);
  parts.take(b.qkv, tokens * (config.query_width() + 2 * config.kv_width()));
  parts.take(b.attention, tokens * config.query_width());
  parts.take(b.projected, tokens * hidden);
  parts.take(b.logits, tokens * config.experts);
  parts.take(b.chosen, tokens * choices);
  parts.take(b.weights, tokens * choices);
  parts.take(b.counts, ceil_div(tokens, prefill::kGroupTokens) * config.experts);
  parts.take(b.first, config.experts + 1);
  parts.take(b.rows, tokens * choices);
  parts.take(b.slots, tokens * choices);
  parts.take(b.inner, tokens * choices * config.expert_width);
  parts.take(b.dense_inner, tokens * config.dense_width);
  parts.take(b.mlp, tokens * std::max<int64_t>(choices, 1) * hidden);
  return parts.bytes();
}

int64_t PrefillRunner::bytes(const ModelConfig& config, int32_t tokens_max, int32_t context_max) {
  Buffers counted;
  return static_cast<int64_t>(
      share_out(config, std::min(tokens_max, kTokensMax), ceil_div(context_max, kPagePositions), nullptr, counted));
}

Status PrefillRunner::allocate() {
  const size_t bytes = share_out(config_, tokens_max_, pages_max_, nullptr, buffers_);
  ASSIGN_OR_RETURN(memory_, device_.allocate(bytes, "prefill of " + std::to_string(tokens_max_) + " tokens"));
  share_out(config_, tokens_max_, pages_max_, memory_.device, buffers_);
  return Ok{};
}

Status PrefillRunner::add_operands() {
  RETURN_IF_ERROR(kernels_->add_operand(buffers_.normed, tokens_max_, config_.hidden_size));
  RETURN_IF_ERROR(kernels_->add_operand(buffers_.attention, tokens_max_, config_.query_width()));
  if (config_.experts > 0)
    RETURN_IF_ERROR(
        kernels_->add_operand(buffers_.inner, tokens_max_ * config_.experts_per_token, config_.expert_width));
  if (config_.dense_width > 0)
    RETURN_IF_ERROR(kernels_->add_operand(buffers_.dense_inner, tokens_max_, config_.dense_width));
  return Ok{};
}

Status PrefillRunner::run(std::span<const PrefillRange> ranges, const StepParams& params) {
  for (const PrefillBatch& batch : cut_into_batches(ranges, tokens_max_, pages_max_))
    RETURN_IF_ERROR(run_batch(batch, params));
  return Ok{};
}

Status PrefillRunner::run_batch(const PrefillBatch& batch, const StepParams& params) {
  const PrefillTables tables = make_prefill_tables(batch, prefill::kTileRows / config_.queries_per_kv(), window_);
  tokens_ = batch.tokens;
  RETURN_IF_ERROR(upload(tables));
  prefill::RopeArgs rope{buffers_.tokens, buffers_.turns, tokens_, {}};
  const RopeTable table(config_);
  std::copy(table.frequencies().begin(), table.frequencies().end(), rope.frequency);
  RETURN_IF_ERROR(kernels_->fill_turns(rope));
  RETURN_IF_ERROR(kernels_->embed({buffers_.tokens, params.weights + params.lm_head, buffers_.residual,
                                   config_.hidden_size, config_.vocab_size, shape_.workers},
                                  tokens_));
  RETURN_IF_ERROR(finish(-1, params));
  for (int32_t layer = 0; layer < config_.layer_count(); ++layer) RETURN_IF_ERROR(run_layer(layer, params, tables));
  return Ok{};
}

Status PrefillRunner::upload(const PrefillTables& tables) {
  const auto copy = [this](auto* to, const auto& from) {
    return device_.copy_in(reinterpret_cast<std::byte*>(to), std::as_bytes(std::span(from)));
  };
  RETURN_IF_ERROR(copy(buffers_.tokens, tables.tokens));
  RETURN_IF_ERROR(copy(buffers_.items, tables.items));
  RETURN_IF_ERROR(copy(buffers_.list_full, tables.full));
  return copy(buffers_.list_sliding, tables.sliding);
}

Status PrefillRunner::run_layer(int32_t layer, const StepParams& params, const PrefillTables& tables) {
  const LayerWeights& own = params.layers[layer];
  const bool rope = config_.layers[static_cast<size_t>(layer)].rope;
  RETURN_IF_ERROR(multiply(Product::kQkv, params, own.qkv, buffers_.normed, buffers_.qkv));
  prefill::AppendArgs append{};
  append.tokens = buffers_.tokens;
  append.qkv = buffers_.qkv;
  append.turns = rope ? buffers_.turns : nullptr;
  append.page_tables = params.page_tables;
  append.pages = own.sliding != 0 ? params.pages_sliding : params.pages_full;
  append.page_bytes = own.sliding != 0 ? params.page_bytes_sliding : params.page_bytes_full;
  append.layer_offset = layer_offset(config_, own);
  append.token_count = tokens_;
  append.query_heads = config_.query_heads;
  append.kv_heads = config_.kv_heads;
  append.sliding = own.sliding;
  RETURN_IF_ERROR(kernels_->append(append));
  if (layer + 1 == config_.layer_count()) return Ok{};
  RETURN_IF_ERROR(attend(layer, params, tables));
  RETURN_IF_ERROR(run_mlp(layer, params));
  return finish(layer, params);
}

Status PrefillRunner::attend(int32_t layer, const StepParams& params, const PrefillTables& tables) {
  const LayerWeights& own = params.layers[layer];
  prefill::UnfoldArgs unfold{};
  unfold.list = own.sliding != 0 ? buffers_.list_sliding : buffers_.list_full;
  unfold.page_tables = params.page_tables;
  unfold.pages = own.sliding != 0 ? params.pages_sliding : params.pages_full;
  unfold.page_bytes = own.sliding != 0 ? params.page_bytes_sliding : params.page_bytes_full;
  unfold.layer_offset = layer_offset(config_, own);
  unfold.unfolded = buffers_.unfolded;
  unfold.kv_heads = config_.kv_heads;
  const auto& list = own.sliding != 0 ? tables.sliding : tables.full;
  RETURN_IF_ERROR(kernels_->unfold(unfold, static_cast<int32_t>(list.size())));
  prefill::AttentionArgs args{};
  args.qkv = buffers_.qkv;
  args.output = buffers_.attention;
  args.items = buffers_.items;
  args.unfolded = buffers_.unfolded;
  args.query_heads = config_.query_heads;
  args.kv_heads = config_.kv_heads;
  args.sliding = own.sliding;
  args.window = window_;
  RETURN_IF_ERROR(kernels_->attend(args, config_.queries_per_kv(), static_cast<int32_t>(tables.items.size())));
  return multiply(Product::kOutput, params, own.output, buffers_.attention, buffers_.projected);
}

Status PrefillRunner::run_mlp(int32_t layer, const StepParams& params) {
  const LayerWeights& own = params.layers[layer];
  if (own.router == kNoRouter) {
    RETURN_IF_ERROR(multiply(Product::kDenseUpGate, params, own.up_gate, buffers_.normed, buffers_.dense_inner));
    return multiply(Product::kDenseDown, params, own.down, buffers_.dense_inner, buffers_.mlp);
  }
  RETURN_IF_ERROR(multiply(Product::kRouter, params, own.router, buffers_.normed, buffers_.logits));
  RETURN_IF_ERROR(
      kernels_->route({buffers_.logits, buffers_.chosen, buffers_.weights, buffers_.counts, buffers_.first,
                       buffers_.rows, buffers_.slots, tokens_, config_.experts, config_.experts_per_token}));
  RETURN_IF_ERROR(multiply(Product::kExpertUpGate, params, own.up_gate, buffers_.normed, buffers_.inner));
  return multiply(Product::kExpertDown, params, own.down, buffers_.inner, buffers_.mlp);
}

Status PrefillRunner::multiply(Product product, const StepParams& params, uint64_t region, const uint16_t* x, void* y) {
  const std::byte* weights = reinterpret_cast<const std::byte*>(params.weights) + region;
  return kernels_->multiply(product, weights, x, tokens_, {buffers_.first, buffers_.rows}, y);
}

// layer_before: what is added to the residual; -1: nothing yet. The norm is that of the layer after it.
Status PrefillRunner::finish(int32_t layer_before, const StepParams& params) {
  prefill::FinishArgs args{};
  args.residual = buffers_.residual;
  if (layer_before >= 0) {
    args.projected = buffers_.projected;
    args.mlp = buffers_.mlp;
    if (params.layers[layer_before].router != kNoRouter) {
      args.slots = buffers_.slots;
      args.weights = buffers_.weights;
    }
  }
  args.norm = params.norms + int64_t{layer_before + 1} * config_.hidden_size;
  args.normed = buffers_.normed;
  args.hidden = config_.hidden_size;
  args.choices = config_.experts_per_token;
  args.eps = params.rms_norm_eps;
  return kernels_->finish(args, tokens_);
}

Status PrefillRunner::wash_cache() { return device_.fill_zero(memory_.device, std::min(memory_.bytes, kWashBytes)); }

}  // namespace boreas::cuda
