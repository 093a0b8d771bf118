// PrefillKernels on a GPU: products by gemm.h, the rest by launches.h.
#include "exec/cuda/prefill/cuda_kernels.h"

#include <cuda_runtime.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "exec/cuda/prefill/launches.h"

namespace boreas::cuda {
namespace {

using prefill::GroupedRows;
using prefill::Product;

Status status_of(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return Ok{};
  return Error{std::string(call) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")"};
}

class CudaPrefillKernels final : public prefill::PrefillKernels {
 public:
  CudaPrefillKernels(std::unique_ptr<PrefillProducts> products, int32_t experts_per_token, StreamHandle stream)
      : products_(std::move(products)), experts_per_token_(experts_per_token), stream_(stream) {}

  Status add_operand(const bf16* buffer, int32_t rows, int32_t columns) override {
    ASSIGN_OR_RETURN(operands_[buffer], make_operand(buffer, rows, columns));
    return Ok{};
  }

  Status multiply(Product product, const std::byte* weights, const bf16* x, int32_t tokens, const GroupedRows& groups,
                  void* y) override {
    const auto found = operands_.find(x);
    CHECK(found != operands_.end());
    const Operand& operand = found->second;
    const ExpertGroups experts{groups.first, groups.rows, tokens * experts_per_token_};
    bf16* halves = static_cast<bf16*>(y);
    float* floats = static_cast<float*>(y);
    switch (product) {
      case Product::kQkv:
        return products_->qkv(stream_, weights, operand, tokens, halves);
      case Product::kOutput:
        return products_->output(stream_, weights, operand, tokens, floats);
      case Product::kRouter:
        return products_->router(stream_, weights, operand, tokens, halves);
      case Product::kDenseUpGate:
        return products_->dense_up_gate(stream_, weights, operand, tokens, halves);
      case Product::kDenseDown:
        return products_->dense_down(stream_, weights, operand, tokens, floats);
      case Product::kExpertUpGate:
        return products_->expert_up_gate(stream_, weights, operand, experts, halves);
      case Product::kExpertDown:
        return products_->expert_down(stream_, weights, operand, experts, floats);
    }
    CHECK(false);
    return Ok{};
  }

  Status embed(const prefill::EmbedArgs& args, int32_t tokens) override {
    return status_of("prefill embedding", prefill::launch_embed(args, tokens, stream_));
  }
  Status fill_turns(const prefill::RopeArgs& args) override {
    return status_of("prefill RoPE table", prefill::launch_rope(args, stream_));
  }
  Status append(const prefill::AppendArgs& args) override {
    return status_of("prefill append", prefill::launch_append(args, stream_));
  }
  Status unfold(const prefill::UnfoldArgs& args, int32_t pages) override {
    return status_of("prefill unfolding", prefill::launch_unfold(args, pages, stream_));
  }
  Status attend(const prefill::AttentionArgs& args, int32_t queries, int32_t items) override {
    return status_of("prefill attention", prefill::launch_attention(args, queries, items, stream_));
  }
  Status route(const prefill::RouteArgs& args) override {
    return status_of("prefill routing", prefill::launch_route(args, stream_));
  }
  Status finish(const prefill::FinishArgs& args, int32_t tokens) override {
    return status_of("prefill norm", prefill::launch_finish(args, tokens, stream_));
  }

 private:
  std::unique_ptr<PrefillProducts> products_;
  int32_t experts_per_token_;
  StreamHandle stream_;
  std::unordered_map<const bf16*, Operand> operands_;
};

}  // namespace

Result<std::unique_ptr<prefill::PrefillKernels>> make_cuda_prefill_kernels(const ModelConfig& config, int32_t workers,
                                                                           StreamHandle stream) {
  const cudaError_t error = prefill::prepare_attention(config.queries_per_kv());
  if (error == cudaErrorNotSupported)
    return Error{"prefill has no attention kernel for " + std::to_string(config.queries_per_kv()) +
                 " queries a KV head; there are kernels for 2, 4 and 8"};
  RETURN_IF_ERROR(status_of("preparing prefill attention", error));
  ASSIGN_OR_RETURN(std::unique_ptr<PrefillProducts> products, PrefillProducts::make(config, workers));
  return std::unique_ptr<prefill::PrefillKernels>(
      std::make_unique<CudaPrefillKernels>(std::move(products), config.experts_per_token, stream));
}

}  // namespace boreas::cuda
