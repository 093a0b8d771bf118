// The kernels of a prefill on the emulated device, behind the interface that its runner calls; the matrix products are
// plain sums over the same re-laid weights. Tests hand this to a HostDevice.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/prefill/attention.cuh"
#include "exec/cuda/prefill/kernels.h"
#include "exec/cuda/prefill/operand.h"
#include "exec/cuda/prefill/routing.cuh"
#include "exec/cuda/prefill/rows.cuh"
#include "exec/cuda/prefill/unfold.cuh"
#include "exec/cuda/weight_layout.h"
#include "grid.h"
#include "model/model.h"
#include "wgmma_emulation.h"

namespace boreas::emulation {

inline Status run_prefill_grid(int32_t blocks, int32_t threads, uint32_t shared_bytes, uint64_t seed,
                               const std::function<void()>& kernel) {
  forget_memory();
  register_memory(reinterpret_cast<const void*>(4096), uint64_t{1} << 47, "all memory");
  GridOptions options;
  options.blocks = blocks;
  options.threads = threads;
  options.shared_bytes = shared_bytes;
  options.seed = seed;
  const GridResult result = run_grid(options, kernel);
  if (result.outcome == Outcome::kFinished) return Ok{};
  return Error{result.message};
}

inline Status run_attention(const cuda::prefill::AttentionArgs& args, int32_t queries, int32_t items, uint64_t seed) {
  using namespace cuda::prefill;
  const auto kernel = [&] {
    if (queries == 8) AttentionBlock<8>(args).run();
    else if (queries == 4) AttentionBlock<4>(args).run();
    else AttentionBlock<2>(args).run();
  };
  return run_prefill_grid(items * args.kv_heads, kAttentionThreads, kAttentionSharedBytes, seed, kernel);
}
inline Status run_unfold(const cuda::prefill::UnfoldArgs& args, int32_t pages, uint64_t seed) {
  return run_prefill_grid(pages * args.kv_heads, cuda::prefill::kUnfoldThreads, 0, seed, [&] { unfold_page(args); });
}
inline Status run_route(const cuda::prefill::RouteArgs& args, uint64_t seed) {
  using namespace cuda::prefill;
  const auto blocks = [&](int32_t each) { return static_cast<int32_t>(ceil_div(args.tokens, each)); };
  RETURN_IF_ERROR(run_prefill_grid(blocks(kSelectTokens), kSelectTokens * 32, 0, seed, [&] { select_experts(args); }));
  RETURN_IF_ERROR(
      run_prefill_grid(blocks(kGroupTokens), kGroupTokens, kGroupSharedBytes, seed, [&] { count_chosen(args); }));
  return run_prefill_grid(blocks(kGroupTokens), kGroupTokens, kGroupSharedBytes, seed, [&] { group_chosen(args); });
}
inline Status run_append(const cuda::prefill::AppendArgs& args, uint64_t seed) {
  using namespace cuda::prefill;
  constexpr int32_t kThreads = 256;
  const auto index = [] { return cuda::block_index() * kThreads + cuda::thread_index(); };
  const auto blocks = [](int64_t threads) { return static_cast<int32_t>(ceil_div(threads, kThreads)); };
  const int64_t heads = args.kv_heads + (args.turns != nullptr ? args.query_heads : 0);
  RETURN_IF_ERROR(
      run_prefill_grid(blocks(args.token_count * heads * 16), kThreads, 0, seed, [&] { append_keys(args, index()); }));
  return run_prefill_grid(blocks(ceil_div(args.token_count, 32) * 32 * args.kv_heads * 16), kThreads, 0, seed,
                          [&] { append_values(args, index()); });
}

// Rows of a re-laid matrix, in the order of the tensor.
class RelaidRows {
 public:
  RelaidRows(const ModelConfig& config, int32_t workers, WeightRole role)
      : places_(cuda::row_places(config, workers, role)),
        columns_(static_cast<int32_t>(weight_shape(config, role).cols)) {}
  int32_t rows() const { return static_cast<int32_t>(places_.size()); }
  // One element of W x; x in operand order.
  float multiply(const std::byte* region, int32_t row, const bf16* x) const {
    float sum = 0;
    for (int32_t pair = 0; pair < columns_ / 2; ++pair) {
      uint16_t w[2];
      std::memcpy(w, region + cuda::pair_offset(places_[static_cast<size_t>(row)], pair), sizeof w);
      for (int32_t i = 0; i < 2; ++i)
        sum = std::fma(bf16_to_float(bf16{w[i]}), bf16_to_float(x[cuda::operand_column(2 * pair + i)]), sum);
    }
    return sum;
  }

 private:
  std::vector<cuda::RowPlace> places_;
  int32_t columns_;
};

class EmulatedPrefill final : public cuda::prefill::PrefillKernels {
 public:
  using Enqueue = std::function<Status(std::function<Status()>)>;
  EmulatedPrefill(const ModelConfig& config, int32_t workers, Enqueue enqueue)
      : config_(config), workers_(workers), enqueue_(std::move(enqueue)), layout_(cuda::lay_out_weights(config)) {}

  Status add_operand(const bf16* buffer, int32_t, int32_t columns) override {
    columns_[buffer] = columns;
    return Ok{};
  }
  Status multiply(cuda::prefill::Product product, const std::byte* weights, const bf16* x, int32_t tokens,
                  const cuda::prefill::GroupedRows& groups, void* y) override {
    return enqueue_([=, this] { return multiply_now(product, weights, x, tokens, groups, y); });
  }
  Status embed(const cuda::prefill::EmbedArgs& args, int32_t tokens) override {
    return enqueue_(
        [=, this] { return run_prefill_grid(tokens, args.hidden / 8, 0, seed_++, [&] { embed_token(args); }); });
  }
  Status fill_turns(const cuda::prefill::RopeArgs& args) override {
    return enqueue_([=, this] {
      return run_prefill_grid(args.token_count, 64, 0, seed_++,
                              [&] { fill_turn(args, cuda::block_index() * 64 + cuda::thread_index()); });
    });
  }
  Status append(const cuda::prefill::AppendArgs& args) override {
    return enqueue_([=, this] { return run_append(args, seed_++); });
  }
  Status unfold(const cuda::prefill::UnfoldArgs& args, int32_t pages) override {
    return enqueue_([=, this] { return run_unfold(args, pages, seed_++); });
  }
  Status attend(const cuda::prefill::AttentionArgs& args, int32_t queries, int32_t items) override {
    return enqueue_([=, this] { return run_attention(args, queries, items, seed_++); });
  }
  Status route(const cuda::prefill::RouteArgs& args) override {
    return enqueue_([=, this] { return run_route(args, seed_++); });
  }
  Status finish(const cuda::prefill::FinishArgs& args, int32_t tokens) override {
    return enqueue_([=, this] {
      return run_prefill_grid(tokens, args.hidden / 8, cuda::prefill::kFinishSharedBytes, seed_++,
                              [&] { finish_token(args); });
    });
  }

 private:
  using Product = cuda::prefill::Product;

  // Every row of `roles`, one after the other.
  void plain_product(const std::vector<WeightRole>& roles, const std::byte* weights, const bf16* x, int32_t tokens,
                     bool halves, void* y) const {
    int64_t width = 0, first = 0;
    for (WeightRole role : roles) width += weight_shape(config_, role).rows;
    for (WeightRole role : roles) {
      const RelaidRows rows(config_, workers_, role);
      for (int32_t token = 0; token < tokens; ++token) {
        for (int32_t row = 0; row < rows.rows(); ++row) {
          const float value = rows.multiply(weights, row, x + int64_t{token} * columns_.at(x));
          const int64_t at = token * width + first + row;
          if (halves) static_cast<bf16*>(y)[at] = float_to_bf16(value);
          else static_cast<float*>(y)[at] = value;
        }
      }
      first += rows.rows();
    }
  }
  void swiglu_row(const RelaidRows& gates, const RelaidRows& ups, const std::byte* weights, const bf16* x,
                  bf16* inner) const {
    for (int32_t row = 0; row < gates.rows(); ++row) {
      const float gate = gates.multiply(weights, row, x), up = ups.multiply(weights, row, x);
      inner[cuda::operand_column(row)] = float_to_bf16(gate / (1 + std::exp(-gate)) * up);
    }
  }

  Status multiply_now(Product product, const std::byte* weights, const bf16* x, int32_t tokens,
                      const cuda::prefill::GroupedRows& groups, void* y) const {
    using R = WeightRole;
    switch (product) {
      case Product::kQkv:
        plain_product({R::kQuery, R::kKey, R::kValue}, weights, x, tokens, true, y);
        break;
      case Product::kOutput:
        plain_product({R::kOutput}, weights, x, tokens, false, y);
        break;
      case Product::kRouter:
        plain_product({R::kRouter}, weights, x, tokens, true, y);
        break;
      case Product::kDenseDown:
        plain_product({R::kDenseDown}, weights, x, tokens, false, y);
        break;
      case Product::kDenseUpGate: {
        const RelaidRows gates(config_, workers_, R::kDenseGate), ups(config_, workers_, R::kDenseUp);
        for (int32_t token = 0; token < tokens; ++token)
          swiglu_row(gates, ups, weights, x + int64_t{token} * columns_.at(x),
                     static_cast<bf16*>(y) + int64_t{token} * config_.dense_width);
        break;
      }
      case Product::kExpertUpGate:
      case Product::kExpertDown:
        expert_product(product == Product::kExpertDown, weights, x, groups, y);
        break;
    }
    return Ok{};
  }
  void expert_product(bool down, const std::byte* weights, const bf16* x, const cuda::prefill::GroupedRows& groups,
                      void* y) const {
    using R = WeightRole;
    const RelaidRows gates(config_, workers_, R::kExpertGate), ups(config_, workers_, R::kExpertUp);
    const RelaidRows downs(config_, workers_, R::kExpertDown);
    for (int32_t expert = 0; expert < config_.experts; ++expert) {
      const uint64_t stride = down ? layout_.expert_down_stride : layout_.expert_up_gate_stride;
      const std::byte* own = weights + static_cast<uint64_t>(expert) * stride;
      for (int64_t a = groups.first[expert]; a < groups.first[expert + 1]; ++a) {
        if (!down) {
          swiglu_row(gates, ups, own, x + int64_t{groups.rows[a]} * columns_.at(x),
                     static_cast<bf16*>(y) + a * config_.expert_width);
          continue;
        }
        for (int32_t row = 0; row < downs.rows(); ++row)
          static_cast<float*>(y)[a * config_.hidden_size + row] =
              downs.multiply(own, row, x + a * config_.expert_width);
      }
    }
  }

  ModelConfig config_;
  int32_t workers_;
  Enqueue enqueue_;
  cuda::WeightLayout layout_;
  std::map<const bf16*, int32_t> columns_;
  uint64_t seed_ = 0;
};

inline cuda::HostPrefill emulated_prefill() {
  return [](const ModelConfig& config, int32_t workers,
            EmulatedPrefill::Enqueue enqueue) -> Result<std::unique_ptr<cuda::prefill::PrefillKernels>> {
    return std::unique_ptr<cuda::prefill::PrefillKernels>(
        std::make_unique<EmulatedPrefill>(config, workers, std::move(enqueue)));
  };
}

}  // namespace boreas::emulation
