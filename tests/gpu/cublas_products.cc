#include "tests/gpu/cublas_products.h"

#ifdef BOREAS_CUBLASLT
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <string>
#include <utility>
#endif

namespace boreas::cuda {

#ifndef BOREAS_CUBLASLT
Result<std::unique_ptr<CublasProducts>> CublasProducts::make() {
  return Error{"built without cuBLASLt: the toolkit has no libcublasLt"};
}
#else
namespace {

Status check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return Ok{};
  return Error{std::string("cuBLASLt, ") + what + ": status " + std::to_string(static_cast<int>(status))};
}
Status check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Ok{};
  return Error{std::string(what) + ": " + cudaGetErrorString(error)};
}

class Products final : public CublasProducts {
 public:
  ~Products() override {
    forget();
    if (preference_ != nullptr) cublasLtMatmulPreferenceDestroy(preference_);
    if (handle_ != nullptr) cublasLtDestroy(handle_);
    for (void* memory : {workspace_, x_, w_, y_}) cudaFree(memory);
  }

  Status open() {
    RETURN_IF_ERROR(check(cublasLtCreate(&handle_), "opening"));
    RETURN_IF_ERROR(check(cudaMalloc(&workspace_, kWorkspaceBytes), "workspace"));
    RETURN_IF_ERROR(check(cublasLtMatmulPreferenceCreate(&preference_), "preference"));
    const size_t bytes = kWorkspaceBytes;
    return check(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                      sizeof bytes),
                 "preference");
  }

  // It thinks in columns: Y^T[columns, tokens] = (W^T)^T X^T.
  Status choose(int32_t tokens, int32_t columns, int32_t k, bool floats) override {
    forget();
    const cublasOperation_t transposed = CUBLAS_OP_T;
    RETURN_IF_ERROR(check(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product"));
    RETURN_IF_ERROR(
        check(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
              "product"));
    const auto make = [](cublasLtMatrixLayout_t& layout, cudaDataType_t type, int32_t rows, int32_t count) {
      return check(
          cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(count), rows),
          "layout");
    };
    RETURN_IF_ERROR(make(w_layout_, CUDA_R_16BF, k, columns));
    RETURN_IF_ERROR(make(x_layout_, CUDA_R_16BF, k, tokens));
    RETURN_IF_ERROR(make(y_layout_, floats ? CUDA_R_32F : CUDA_R_16BF, columns, tokens));
    std::array<cublasLtMatmulHeuristicResult_t, 16> found;
    int count = 0;
    RETURN_IF_ERROR(
        check(cublasLtMatmulAlgoGetHeuristic(handle_, product_, w_layout_, x_layout_, y_layout_, y_layout_, preference_,
                                             static_cast<int>(found.size()), found.data(), &count),
              "algorithms"));
    if (count == 0) return Error{"cuBLASLt proposes no algorithm"};
    RETURN_IF_ERROR(make_memory(size_t(tokens), size_t(columns), size_t(k)));
    float best = 0;
    for (int i = 0; i < count; ++i) {
      algorithm_ = found[static_cast<size_t>(i)].algo;
      ASSIGN_OR_RETURN(const float ms, time_one());
      if (i > 0 && ms >= best) continue;
      best = ms;
      fastest_ = algorithm_;
    }
    algorithm_ = fastest_;
    return Ok{};
  }

  Status run(const void* x, const void* w, void* y) override {
    const float one = 1, zero = 0;
    return check(cublasLtMatmul(handle_, product_, &one, w, w_layout_, x, x_layout_, &zero, y, y_layout_, y, y_layout_,
                                &algorithm_, workspace_, kWorkspaceBytes, nullptr),
                 "product");
  }

 private:
  static constexpr size_t kWorkspaceBytes = size_t{64} << 20;

  void forget() {
    if (product_ != nullptr) cublasLtMatmulDescDestroy(std::exchange(product_, nullptr));
    for (cublasLtMatrixLayout_t* layout : {&w_layout_, &x_layout_, &y_layout_})
      if (*layout != nullptr) cublasLtMatrixLayoutDestroy(std::exchange(*layout, nullptr));
  }
  Status make_memory(size_t tokens, size_t columns, size_t k) {
    const std::pair<void**, size_t> wanted[] = {
        {&x_, tokens * k * 2}, {&w_, columns * k * 2}, {&y_, tokens * columns * 4}};
    for (const auto& [memory, bytes] : wanted) {
      cudaFree(std::exchange(*memory, nullptr));
      RETURN_IF_ERROR(check(cudaMalloc(memory, bytes), "memory"));
      RETURN_IF_ERROR(check(cudaMemset(*memory, 0x3c, bytes), "memory"));
    }
    return Ok{};
  }
  // Milliseconds of five calls after two.
  Result<float> time_one() {
    cudaEvent_t begin, end;
    RETURN_IF_ERROR(check(cudaEventCreate(&begin), "event"));
    RETURN_IF_ERROR(check(cudaEventCreate(&end), "event"));
    for (int i = 0; i < 7; ++i) {
      if (i == 2) RETURN_IF_ERROR(check(cudaEventRecord(begin), "event"));
      RETURN_IF_ERROR(run(x_, w_, y_));
    }
    RETURN_IF_ERROR(check(cudaEventRecord(end), "event"));
    RETURN_IF_ERROR(check(cudaEventSynchronize(end), "event"));
    float ms = 0;
    RETURN_IF_ERROR(check(cudaEventElapsedTime(&ms, begin, end), "event"));
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return ms;
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t w_layout_ = nullptr, x_layout_ = nullptr, y_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{}, fastest_{};
  void *workspace_ = nullptr, *x_ = nullptr, *w_ = nullptr, *y_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<CublasProducts>> CublasProducts::make() {
  auto products = std::make_unique<Products>();
  RETURN_IF_ERROR(products->open());
  return std::unique_ptr<CublasProducts>(std::move(products));
}
#endif

}  // namespace boreas::cuda
