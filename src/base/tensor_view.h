// TensorView: a typed, shaped look at memory that somebody else owns (a mapped file, a dummy buffer, a KV pool).
// Row-major, dense.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/dtype.h"

namespace boreas {

struct TensorView {
  const void* data = nullptr;  // not owned; may be unaligned (safetensors promises no alignment)
  Dtype dtype = Dtype::kBF16;
  int64_t rows = 0;  // a vector is [1, cols]
  int64_t cols = 0;

  size_t bytes() const { return static_cast<size_t>(rows) * static_cast<size_t>(cols) * dtype_bytes(dtype); }
  bool empty() const { return data == nullptr; }
  // The first element of a row, [cols] bf16.
  const bf16* bf16_row(int64_t row) const {
    DCHECK(dtype == Dtype::kBF16);
    DCHECK(row >= 0 && row < rows);
    return static_cast<const bf16*>(data) + row * cols;
  }
};

}  // namespace boreas
