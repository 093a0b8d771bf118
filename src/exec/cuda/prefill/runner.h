// Prefill: many tokens of prompts through all layers at once, on the decode kernel's own weights and KV pages. The
// executor makes one and hands it batches (batch.h); what it leaves behind is K and V in the pages, nothing else: the
// last token of a prompt is the decode kernel's, and so are all logits.
//
//   embed -> norm -> [ qkv -> RoPE, append -> attention -> output  |  router -> experts  ] -> add both, next norm ->
//   ...
//
// The last layer ends with its append: nobody reads what would follow. Equal bits: see batch.h; sums have a fixed order
// in every kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/device.h"
#include "exec/cuda/prefill/arguments.h"
#include "exec/cuda/prefill/batch.h"
#include "exec/cuda/prefill/kernels.h"
#include "exec/cuda/step_params.h"
#include "model/model.h"

namespace boreas::cuda {

class PrefillRunner {
 public:
  // Tokens of a batch at most: enough for the products to run at full speed. Buffers grow with it (North: 120 KB a
  // token) and with the context (128 KB a page).
  static constexpr int32_t kTokensMax = 8192;

  // What make() allocates of the same arguments.
  static int64_t bytes(const ModelConfig& config, int32_t tokens_max, int32_t context_max);

  // kernels: of the device, not null. Allocates everything it will ever need, for batches of up to min(tokens_max,
  // kTokensMax) tokens of sequences of up to context_max positions. `device` must outlive it. Error: no memory, or a
  // shape that the kernels cannot take.
  static Result<std::unique_ptr<PrefillRunner>> make(Device& device, const ModelConfig& config,
                                                     const CompiledShape& shape, int32_t tokens_max,
                                                     int32_t context_max,
                                                     std::unique_ptr<prefill::PrefillKernels> kernels);

  // Enqueues all ranges: K and V of all their tokens and layers. Page tables must be written. params: the executor's
  // (weights, norms, layers, pages, page tables).
  Status run(std::span<const PrefillRange> ranges, const StepParams& params);

  // After a prefill most of the L2 cache is full of its buffers, which slows the decode kernel (3 %): writes them over.
  Status wash_cache();

 private:
  // Addresses on the device; sizes for tokens_max tokens. [tokens] unless said otherwise.
  struct Buffers {
    PrefillToken* tokens = nullptr;
    AttentionItem* items = nullptr;
    UnfoldedPage *list_full = nullptr, *list_sliding = nullptr;  // [pages]
    uint8_t* unfolded = nullptr;                                 // [pages][KV heads][kUnfoldedBytes]
    float* turns = nullptr;                                      // [tokens][head_dim / 2][2]
    uint16_t* residual = nullptr;                                // [hidden] bf16
    uint16_t* normed = nullptr;                                  // [hidden] bf16, operand order
    uint16_t* qkv = nullptr;                                     // [query_width + 2 kv_width] bf16
    uint16_t* attention = nullptr;                               // [query_width] bf16, operand order
    float* projected = nullptr;                                  // [hidden]
    uint16_t* logits = nullptr;                                  // [experts] bf16
    int32_t* chosen = nullptr;                                   // [choices], as RouteArgs
    float* weights = nullptr;
    int32_t *counts = nullptr, *first = nullptr, *rows = nullptr, *slots = nullptr;
    uint16_t* inner = nullptr;        // [choices][expert_width] bf16, operand order
    uint16_t* dense_inner = nullptr;  // [dense_width] bf16, operand order
    float* mlp = nullptr;             // [choices][hidden], or [hidden]
  };

  // Shares out one allocation from `base` on, or only counts without one; returns its bytes.
  static size_t share_out(const ModelConfig& config, int64_t tokens, int64_t pages, std::byte* base, Buffers& buffers);

  PrefillRunner(Device& device, const ModelConfig& config, const CompiledShape& shape, int32_t tokens_max,
                int32_t context_max, std::unique_ptr<prefill::PrefillKernels> kernels);
  Status allocate();
  Status add_operands();
  Status run_batch(const PrefillBatch& batch, const StepParams& params);
  Status upload(const PrefillTables& tables);
  Status run_layer(int32_t layer, const StepParams& params, const PrefillTables& tables);
  Status attend(int32_t layer, const StepParams& params, const PrefillTables& tables);
  Status run_mlp(int32_t layer, const StepParams& params);
  Status finish(int32_t layer_before, const StepParams& params);
  Status multiply(prefill::Product product, const StepParams& params, uint64_t region, const uint16_t* x, void* y);

  Device& device_;
  ModelConfig config_;
  CompiledShape shape_;
  int32_t tokens_max_ = 0, pages_max_ = 0;
  int32_t window_ = 0;
  std::unique_ptr<prefill::PrefillKernels> kernels_;
  DeviceMemory memory_;
  Buffers buffers_;
  int32_t tokens_ = 0;  // of the batch at hand
};

}  // namespace boreas::cuda
