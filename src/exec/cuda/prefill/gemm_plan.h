// Plans a prefill product: cuts a matrix into tiles of 128 rows and finds each row's bytes in the re-laid weights. Host
// code without CUDA, called once when PrefillProducts is made; gemm_plan_test.cc walks every plan as the kernel does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/cuda/prefill/gemm_tile.h"
#include "exec/cuda/weight_layout.h"
#include "model/model.h"

namespace boreas::cuda {

struct GemmPlan {
  std::string name;     // of the matrix, for errors
  int32_t k = 0;        // columns of W
  int32_t columns = 0;  // of Y
  std::vector<GemmTile> tiles;
};

enum class GemmMatrix : uint8_t { kQkv, kOutput, kRouter, kDenseUpGate, kDenseDown, kExpertUpGate, kExpertDown };
constexpr int32_t kGemmMatrices = 7;

// Error: a cut that these kernels cannot take.
Result<GemmPlan> plan_gemm(const ModelConfig& config, int32_t workers, GemmMatrix matrix);

}  // namespace boreas::cuda
