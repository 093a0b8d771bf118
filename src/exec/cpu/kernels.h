// The arithmetic of the CPU executor, once per SIMD level, chosen at run time. All levels give equal bits.
//
// Canonical order. A dot product has 16 partial sums: element k goes to partial sum k mod 16, in ascending k, by
// multiply and add. Both factors hold bf16 values, so the product is exact in fp32 and a fused multiply-add rounds like
// a separate one. The 16 sums are then added as a fixed tree: neighbours (2i, 2i+1), then sums i and i+4, i and i+2, i
// and i+1. Where a product is not exact (exp, softmax) every level multiplies and adds in separate roundings.
//
// Packed vectors: fp32 in groups of 16, in the order in which a level unpacks bf16 (AVX2: even elements, then odd
// ones), zero-padded to whole groups.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace boreas::cpu {

constexpr int32_t kGroup = 16;
// static: the files for wider instruction sets must not share a copy with the others, see exp2.h.
static constexpr int32_t padded(int32_t n) { return (n + kGroup - 1) / kGroup * kGroup; }

// y[t * y_stride + r] = dot(row r of w, x[t]) for r < rows, t < tokens.
struct GemmArgs {
  const bf16* w = nullptr;  // [rows, k], row-major, any alignment
  int64_t w_stride = 0;     // elements between rows
  int32_t rows = 0;
  int32_t k = 0;
  const float* const* x = nullptr;  // [tokens] packed vectors of padded(k)
  int32_t tokens = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
};

// One KV page against `queries` running softmax states.
struct AttendArgs {
  const bf16* keys = nullptr;     // [64, head_dim]
  const float* values = nullptr;  // [64, padded(head_dim)] packed
  int32_t head_dim = 0;
  const float* const* q = nullptr;  // [queries] packed
  int32_t queries = 0;
  const int32_t* key_first = nullptr;  // [queries] visible keys of this page: [key_first, key_end)
  const int32_t* key_end = nullptr;
  float scale_log2 = 0;      // log2(e) / sqrt(head_dim)
  float* scores = nullptr;   // scratch [queries, 64]
  float* maximum = nullptr;  // [queries] running maximum of raw scores; -infinity at first
  float* sum = nullptr;      // [queries]
  float* output = nullptr;   // [queries, padded(head_dim)] packed
};

struct Kernels {
  const char* name;
  void (*pack)(const bf16* in, int32_t n, float* out);     // out: padded(n)
  void (*unpack)(const float* in, int32_t n, float* out);  // packed to natural order
  void (*gemm)(const GemmArgs& args);
  void (*attend)(const AttendArgs& args);
  float (*sum_squares)(const bf16* in, int32_t n);
};

enum class SimdLevel { kPortable, kAvx2, kAvx512 };

bool simd_supported(SimdLevel level);
SimdLevel best_simd_level();
const Kernels& kernels(SimdLevel level);

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace boreas::cpu
