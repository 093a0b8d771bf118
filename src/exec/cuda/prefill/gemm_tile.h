// What a prefill product needs to know of a matrix, tile by tile: which bytes of the re-laid weights to fetch, and
// where each row then lies in shared memory. Made on the host (gemm_plan.h), read by the kernel (gemm_kernel.cuh).
//
// A tile: 128 rows of the matrix, the M of two warpgroups of 64, in the order in which Y wants them (slot s of a half
// computes one row). For a K step of 64 columns (two blocks) its rows are 16 KB in shared memory, packed by copies:
//
//   global, a tile of r rows:  [block 2 i: r rows of 64 B][block 2 i + 1]   one copy of r * 128 bytes
//   only n < r of its rows:    two copies of n * 64 bytes
//   shared, either way:        [n rows of the first block][n rows of the second]
//
// So row i of such a group lies at group + 64 i, its second block 64 n further. Rows of a tall tile of 16 are
// interleaved by registers: row i at group + i % 8 * 64 + i / 8 * 4, its pairs 8, 512 and 520 bytes further.
#pragma once

#include <cstdint>

#include "program/weight_tiles.h"

namespace boreas::cuda {

constexpr int32_t kGemmRows = 128;                                   // M of a tile
constexpr int32_t kGemmHalfRows = 64;                                // of a warpgroup
constexpr int32_t kGemmStepColumns = 64;                             // K of a stage: one row of the 128-byte swizzle
constexpr int32_t kGemmStepRowBytes = kGemmStepColumns * 2;          // of a row of W or X
constexpr int32_t kGemmWeightBytes = kGemmRows * kGemmStepRowBytes;  // of a stage
constexpr int32_t kGemmCopiesMax = 128;                              // a tile, one a producer thread
constexpr int32_t kTallStep = kTileRowsMax * kBlockRowBytes;         // block to block: says that a row's tile is tall

struct GemmCopy {
  uint32_t source;  // bytes from the region (of the expert) for K step 0, a multiple of 16
  uint32_t step;    // bytes from one K step to the next
  uint16_t shared;  // where it goes in the stage, a multiple of 16
  uint16_t bytes;
  uint32_t unused = 0;
};
static_assert(sizeof(GemmCopy) == 16);

struct GemmSlot {
  uint16_t shared;  // the row's first block in the stage
  uint16_t step;    // to its second block
};

struct GemmTile {
  GemmCopy copies[kGemmCopiesMax];
  GemmSlot slots[kGemmRows];
  int32_t copy_count;
  int32_t bytes;       // of all copies
  int32_t column[2];   // of Y: the first that each half computes
  int32_t columns[2];  // how many, a multiple of 8
};

// Slots of a SwiGLU half: 32 gate rows and their 32 up rows, so that a lane has both of a pair, and 8 MMA rows are 8
// neighbours of the operand order. A warp's MMA row g is the gate of place 8 warp + g, row g + 8 its up; in odd rows
// the two change places: gates are every other row in shared memory, and neighbouring lanes then share no banks.
constexpr int32_t kSwigluHalfColumns = kGemmHalfRows / 2;
constexpr bool slot_is_gate(int32_t slot) { return (slot / 8 + slot) % 2 == 0; }
constexpr int32_t slot_operand_place(int32_t slot) { return slot / 16 * 8 + slot % 8; }

}  // namespace boreas::cuda
