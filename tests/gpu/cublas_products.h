// cuBLASLt as the yardstick of prefill's dense products: the same shapes and dtypes, weights row after row instead of
// in the decode kernel's layout, the fastest of the algorithms it proposes. Only where the toolkit has it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"

namespace boreas::cuda {

class CublasProducts {
 public:
  // Error: the build has no cuBLASLt, or the library cannot be used here.
  static Result<std::unique_ptr<CublasProducts>> make();
  virtual ~CublasProducts() = default;

  // Y[tokens, columns] = X[tokens, k] W[columns, k]^T with FP32 sums; X, W bf16, Y bf16 or, with `floats`, fp32; all
  // rows one after the other, in the current GPU's memory. Tries up to sixteen algorithms. Error: cuBLASLt has none, or
  // fails.
  virtual Status choose(int32_t tokens, int32_t columns, int32_t k, bool floats) = 0;
  // Enqueues the chosen one on the default stream.
  virtual Status run(const void* x, const void* w, void* y) = 0;
};

}  // namespace boreas::cuda
