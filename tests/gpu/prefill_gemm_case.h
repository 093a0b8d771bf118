// One layer's worth of made-up weights and activations for the products of prefill, on the GPU, and plain
// double-precision sums to compare with. prefill_gemm_test.cc decides, prefill_gemm_bench.cc measures.
//
// An element is a function of (what, row, column) alone, so the reference needs no copy of the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "exec/cuda/prefill/gemm.h"
#include "exec/cuda/prefill/gemm_plan.h"
#include "model/model.h"

namespace boreas::cuda {

// Memory of the current GPU, freed with it. A failing CUDA call ends the program, naming itself.
class GpuBuffer {
 public:
  explicit GpuBuffer(size_t bytes);
  ~GpuBuffer();
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(device_);
  }
  size_t bytes() const { return bytes_; }
  void fill(int value);
  void set(const void* from, size_t bytes);
  template <class T>
  std::vector<T> get(size_t first, size_t count) const {
    std::vector<T> values(count);
    copy_out(values.data(), first * sizeof(T), count * sizeof(T));
    return values;
  }

 private:
  void copy_out(void* to, size_t first, size_t bytes) const;
  void* device_ = nullptr;
  size_t bytes_ = 0;
};

// Waits for all work. Ends the program if any of it failed.
void finish_gpu_work();

// Assignments of experts: expert e computes tokens[first[e]] .. tokens[first[e + 1] - 1].
struct MadeGroups {
  std::vector<int32_t> first, tokens;
};
// Every token goes to `choices` different experts, to low ones more often.
MadeGroups make_groups(int32_t tokens, int32_t experts, int32_t choices, uint32_t seed);

// A sum and the sum of its terms' magnitudes, from which its tolerance follows.
struct ExactSum {
  double value, magnitude;
};

class PrefillGemmCase {
 public:
  // copies: of every dense matrix, one behind the other, so that a benchmark can leave the L2 cache.
  PrefillGemmCase(const ModelConfig& config, int32_t tokens_max, int32_t copies);

  const ModelConfig& config() const { return config_; }
  int32_t k(GemmMatrix matrix) const;
  int32_t columns(GemmMatrix matrix) const;
  bool is_expert(GemmMatrix matrix) const {
    return matrix == GemmMatrix::kExpertUpGate || matrix == GemmMatrix::kExpertDown;
  }
  bool is_swiglu(GemmMatrix matrix) const {
    return matrix == GemmMatrix::kDenseUpGate || matrix == GemmMatrix::kExpertUpGate;
  }
  bool is_floats(GemmMatrix matrix) const {
    return matrix == GemmMatrix::kOutput || matrix == GemmMatrix::kDenseDown || matrix == GemmMatrix::kExpertDown;
  }
  int32_t y_bytes(GemmMatrix matrix) const { return is_floats(matrix) ? 4 : 2; }
  // Bytes of W that a product over all rows reads (of experts: of all of them).
  int64_t weight_bytes(GemmMatrix matrix) const;

  // Row r of X becomes made-up row first + r, for r < tokens_max, or list[r] if there is one.
  void make_x(GemmMatrix matrix, int32_t first);
  // Enqueues the product over the first `tokens` rows of X, or over the groups.
  Status run(GemmMatrix matrix, int32_t tokens, int32_t copy, void* y) const;
  Status run_grouped(GemmMatrix matrix, const ExpertGroups& groups, void* y) const;

  // Exact sums of made-up rows `rows` of X (for experts: each with experts[i]), [rows][columns]; of SwiGLU matrices of
  // gates, then, behind all of them, of ups.
  std::vector<ExactSum> exact(GemmMatrix matrix, const std::vector<int32_t>& rows,
                              const std::vector<int32_t>& experts) const;

 private:
  std::vector<WeightRole> roles(GemmMatrix matrix) const;
  void make_weights(GemmMatrix matrix);

  ModelConfig config_;
  int32_t tokens_max_, copies_;
  std::unique_ptr<PrefillProducts> products_;
  std::vector<std::unique_ptr<GpuBuffer>> weights_;  // by GemmMatrix
  std::vector<std::unique_ptr<GpuBuffer>> x_;        // by GemmMatrix
  std::vector<Operand> operands_;
};

}  // namespace boreas::cuda
