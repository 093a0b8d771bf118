// How a prefill product is called on the device, and what a block keeps in shared memory. Shared by gemm.cu, which
// fills it in, and gemm_kernel.cuh.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "exec/cuda/prefill/gemm_schedule.h"
#include "exec/cuda/prefill/gemm_tile.h"

namespace boreas::cuda {

// What becomes of the sums: Y in fp32, rounded to bf16, or silu(gate) * up rounded to bf16.
enum class GemmResult : uint8_t { kFloats, kHalves, kSwiglu };

struct GemmParams {
  alignas(64) std::byte tensor_map[128];  // of X: boxes of 64 columns by 64 rows
  const std::byte* weights;               // the region
  int64_t group_stride;                   // from one group's matrix to the next
  const GemmTile* tiles;                  // [row_tiles]
  int32_t row_tiles;
  int32_t k_steps;       // K / 64
  int32_t groups;        // experts, or 1
  const int32_t* first;  // [groups + 1] first assignments; null: one group of `tokens`
  int32_t tokens;
  int32_t width;          // of full tiles, tokens
  int32_t blocks;         // of the grid
  const bf16* x;          // with a list only, as is:
  const int32_t* gather;  // [assignments] rows of X
  int32_t x_row_bytes;
  void* y;          // [tokens or assignments][columns]
  int32_t columns;  // of Y
};

constexpr int32_t kGemmProducerWarps = 4;
constexpr int32_t kGemmConsumerWarps = 8;
constexpr int32_t kGemmThreads = (kGemmProducerWarps + kGemmConsumerWarps) * 32;

// Shared memory: stages of [weights][X], then what consumers stage for Y (one part a warpgroup), barriers, schedule.
constexpr int32_t kGemmStages = 4;
constexpr int32_t kGemmBoxBytes = kGemmWidthStep * kGemmStepRowBytes;
constexpr int32_t kGemmStageBytes = kGemmWeightBytes + kGemmWidthMax * kGemmStepRowBytes;
constexpr int32_t kGemmStagingBytes = 16384;  // 128 tokens of 64 columns, or 256 of 32, in bf16
constexpr uint32_t kGemmStaging = kGemmStages * kGemmStageBytes;
constexpr uint32_t kGemmBarriers = kGemmStaging + 2 * kGemmStagingBytes;
constexpr uint32_t kGemmScheduleAt = kGemmBarriers + 2 * kGemmStages * 8;
constexpr uint32_t kGemmAlign = 1024;  // of stages: the swizzle counts in it
constexpr int32_t kGemmSharedBytes =
    static_cast<int32_t>(kGemmScheduleAt + sizeof(GemmSchedule) + kGemmAlign - 1) / 16 * 16;
static_assert(kGemmSharedBytes <= 227 * 1024);
static_assert(kGemmStageBytes % kGemmAlign == 0 && kGemmWeightBytes % kGemmAlign == 0);

}  // namespace boreas::cuda
