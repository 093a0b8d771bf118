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
  alignas(64) std::byte y_map[128];       // of Y in fp32: boxes of 32 by 32; kFloats only
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
  int32_t stages;         // gemm_stages(width)
  const bf16* x;          // with a list only, as is:
  const int32_t* gather;  // [assignments] rows of X
  int32_t x_row_bytes;
  void* y;          // [tokens or assignments][columns]
  int32_t columns;  // of Y
};

constexpr int32_t kGemmProducerWarps = 4;
constexpr int32_t kGemmConsumerWarps = 8;
constexpr int32_t kGemmThreads = (kGemmProducerWarps + kGemmConsumerWarps) * 32;

// Of Y in fp32, what one tensor copy stores: 32 columns of 32 tokens. A warpgroup stages two at once, a part, and fills
// one part while the other is on its way. In bf16 both parts are 128 tokens of 64 columns, or 256 of 32.
constexpr int32_t kGemmStoreTokens = 32, kGemmStoreColumns = 32;
constexpr int32_t kGemmStoreBytes = kGemmStoreTokens * kGemmStoreColumns * 4;
constexpr int32_t kGemmStoreParts = 2, kGemmStorePartBytes = 2 * kGemmStoreBytes;
constexpr int32_t kGemmStagingBytes = kGemmStoreParts * kGemmStorePartBytes;
static_assert(kGemmStagingBytes == 128 * kGemmHalfRows * 2 && kGemmStagingBytes == kGemmWidthMax * kGemmHalfRows);

// Shared memory: stages of [weights][X], more of them if tiles are narrow; what consumers stage for Y, by warpgroup;
// barriers; schedule.
constexpr int32_t kGemmStagesMax = 8;
constexpr int32_t kGemmBoxBytes = kGemmWidthStep * kGemmStepRowBytes;
constexpr int32_t gemm_stage_bytes(int32_t width) { return kGemmWeightBytes + width * kGemmStepRowBytes; }
constexpr int32_t kGemmRingBytes = 4 * gemm_stage_bytes(kGemmWidthMax);
constexpr int32_t gemm_stages(int32_t width) { return least(kGemmStagesMax, kGemmRingBytes / gemm_stage_bytes(width)); }
constexpr uint32_t kGemmStaging = kGemmRingBytes;
constexpr uint32_t kGemmBarriers = kGemmStaging + 2 * kGemmStagingBytes;  // full, then empty
constexpr uint32_t kGemmScheduleAt = kGemmBarriers + 2 * kGemmStagesMax * 8;
constexpr uint32_t kGemmAlign = 1024;  // of stages: the swizzle counts in it
constexpr int32_t kGemmSharedBytes =
    static_cast<int32_t>(kGemmScheduleAt + sizeof(GemmSchedule) + kGemmAlign - 1) / 16 * 16;
static_assert(kGemmSharedBytes <= 227 * 1024);
static_assert(gemm_stage_bytes(kGemmWidthStep) % kGemmAlign == 0 && kGemmWeightBytes % kGemmAlign == 0);

}  // namespace boreas::cuda
