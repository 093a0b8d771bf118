// What a warp does with its share of a piece of weights (products.cuh): shared memory to registers to MMAs. Who calls
// it decides which share that is and where its sums go.
#pragma once

#include "exec/cuda/worker.cuh"
#include "program/weight_tiles.h"

namespace boreas::cuda {

// A column's vector in shared memory, from block to block of 32 columns by the operand's step: of a plan row, or of a
// choice. A column that does not exist is multiplied as zeros.
struct Vector {
  uint32_t address = 0;  // of block 0
  bool present = false;
};
// Activations in slot layout (activation_offset): all plan rows.
struct RowsOperand {
  uint32_t slot, step;
  int32_t rows;
  BOREAS_DEVICE Vector of(int32_t row) const {
    return {slot + static_cast<uint32_t>(row * kBlockRowBytes), row < rows};
  }
  // The one that this lane loads where all columns of B are other vectors.
  BOREAS_DEVICE Vector of_lane(int32_t lane) const { return of(lane / 4); }
};
template <class C>
BOREAS_DEVICE RowsOperand rows_operand(const Worker<C>& w, Slot slot) {
  return {w.slot(slot), static_cast<uint32_t>(w.rows() * kBlockRowBytes), w.rows()};
}

template <int32_t kValue>
struct Constant {
  static constexpr int32_t value = kValue;
};

// A warp's sums of one part: four runs of MMAs, so that few wait for the one before them.
struct TileSums {
  float run[4][4] = {};
  BOREAS_DEVICE float sum(int32_t i) const { return (run[0][i] + run[1][i]) + (run[2][i] + run[3][i]); }
};

// The pieces of a tile.
template <int32_t kHeight, int32_t kColumns>
struct TilePieces {
  static constexpr int32_t kBlocks = blocks_of_columns(kColumns), kEach = blocks_per_piece(kHeight);
  static constexpr int32_t kCount = tile_pieces(kHeight, kColumns);
  static constexpr int32_t kRest = kBlocks % kEach;  // blocks of the last one, if it is not full
  static constexpr int32_t kLastBytes = (kRest > 0 ? kRest : kEach) * kHeight * kBlockRowBytes;
};
static_assert(2 * StreamTaker::kPieceStep == kPartsMax, "shares q and q + 8 are one warp's");

// A share's weights are loaded whole before anything is made of them, so that the ring can have their chunk back.

// ---- tiles of 16 rows: a block is the A of two MMAs, B's columns are the plan rows. kCount blocks of a share, every
// second one of a piece.
template <int32_t kCount>
struct TallShare {
  static constexpr uint32_t kStep = 2 * kTileRowsMax * kBlockRowBytes;
  static_assert(kCount <= 4, "kept in registers");
  Vec4 a[kCount], other[kCount];

  // `from`: this lane's 16 bytes of the first block.
  BOREAS_DEVICE void load(uint32_t from) {
    BOREAS_UNROLL
    for (int32_t k = 0; k < kCount; ++k) {
      a[k] = load_shared_128(from + k * kStep);
      other[k] = load_shared_128(from + k * kStep + 512);
    }
  }
  // x: this lane's 16 bytes of the first block, x_step from block to block. Lanes without an operand multiply zeros.
  BOREAS_DEVICE void multiply(TileSums& sums, const Vector& x, uint32_t x_step) const {
    Vec4 b[kCount] = {};
    if constexpr (kCount == 4) {
      load_shared_128_if(x.present, x.address, x_step, b);
    } else {
      BOREAS_UNROLL
      for (int32_t k = 0; k < kCount; ++k) load_shared_128_if(x.present, x.address + k * x_step, b[k]);
    }
    BOREAS_UNROLL
    for (int32_t k = 0; k < kCount; ++k) {
      mma_bf16(sums.run[k % 2 * 2], a[k].x, a[k].y, a[k].z, a[k].w, b[k].x, b[k].y);
      mma_bf16(sums.run[k % 2 * 2 + 1], other[k].x, other[k].y, other[k].z, other[k].w, b[k].z, b[k].w);
    }
  }
};

// ---- shorter tiles: 512 bytes, which are 8 / height blocks, fill the A of one MMA. Lane 4 g + c has row g % height of
// block g / height: its first and second pair of columns 8 c .. 8 c + 7 as row g of A, the others as row g + 8. So A's
// rows are slices of the columns, two a block, and B's columns are those slices of half as many plan rows as the tile
// has rows; only the sums where both are of one slice are wanted. A tile of one row has more slices than B columns: two
// MMAs, one for the first halves of blocks, one for the second ones.
template <int32_t kHeight>
struct ShortTile {
  static constexpr int32_t kGroupBlocks = 8 / kHeight;
  static constexpr int32_t kSlices = kHeight > 1 ? 16 / kHeight : 8;  // B columns a plan row
  static constexpr int32_t kPlanRows = 8 / kSlices;                   // of one walk
  // Of the walk's plan rows: whose vector this lane loads; of it which block of a group, and which half of the block.
  static BOREAS_DEVICE int32_t loads_row(int32_t lane) { return lane / 4 / kSlices; }
  static BOREAS_DEVICE int32_t loads_block(int32_t lane) { return kHeight > 1 ? lane / 4 % kSlices / 2 : lane / 4; }
  static BOREAS_DEVICE int32_t loads_half(int32_t lane) { return kHeight > 1 ? lane / 4 % 2 : 0; }
  // Whose sum it ends with, if it is the one that has it.
  static BOREAS_DEVICE int32_t ends_with_row(int32_t lane) { return kHeight > 1 ? lane % 4 * 2 / kSlices : 0; }
  static BOREAS_DEVICE bool has_sum(int32_t lane) {
    return kHeight == 8 || (lane / 4 < kHeight && (kHeight > 1 ? lane % 4 * 2 % kSlices == 0 : lane == 0));
  }
};

// With more rows than one walk takes, tiles of 8 and 4 rows are walked once for all eight plan rows instead, an MMA a
// slice, of which only the slice's rows are wanted: the same sums, element by element, in the same order.

// What a warp has of a share of a piece of kBlocks blocks: every second group, as the A of one MMA each.
template <int32_t kHeight, int32_t kBlocks>
struct ShortShare {
  using Tile = ShortTile<kHeight>;
  static constexpr int32_t kGroups = ceil_div_32(kBlocks, Tile::kGroupBlocks), kMine = ceil_div_32(kGroups, 2);
  static constexpr bool kWhole = kBlocks % (2 * Tile::kGroupBlocks) == 0;
  static constexpr uint32_t kGroupBytes = 512;
  static_assert(kMine <= 8, "kept in registers");
  Vec4 a[kMine];

  // For all plan rows at once: sums of this lane's row and plan rows 2 (lane % 4) and the next, if lane / 4 < kHeight.
  // x: of plan row lane / 4.
  BOREAS_DEVICE void multiply_wide(const Vector& x, uint32_t x_step, int32_t share, int32_t lane,
                                   float (&value)[2]) const {
    static_assert(kHeight == 8 || kHeight == 4);
    constexpr int32_t kBurst = kMine % 2 == 0 ? 2 : 1;
    float run[Tile::kGroupBlocks][2][4][4] = {};
    uint32_t at =
        x.address + static_cast<uint32_t>(share * Tile::kGroupBlocks) * x_step + static_cast<uint32_t>(lane % 4 * 16);
    BOREAS_UNROLL
    for (int32_t first = 0; first < kMine; first += kBurst) {
      Vec4 vectors[kBurst][Tile::kGroupBlocks] = {};
      BOREAS_UNROLL
      for (int32_t k = 0; k < kBurst; ++k) {
        const int32_t block = (share + 2 * (first + k)) * Tile::kGroupBlocks;
        BOREAS_UNROLL
        for (int32_t sub = 0; sub < Tile::kGroupBlocks; ++sub)
          load_shared_128_if(x.present && (kWhole || block + sub < kBlocks), at + sub * x_step, vectors[k][sub]);
        at += 2 * Tile::kGroupBlocks * x_step;
      }
      BOREAS_UNROLL
      for (int32_t k = 0; k < kBurst; ++k) {
        const Vec4& own = a[first + k];
        BOREAS_UNROLL
        for (int32_t sub = 0; sub < Tile::kGroupBlocks; ++sub) {
          const Vec4& b = vectors[k][sub];
          mma_bf16(run[sub][0][(first + k) % 4], own.x, own.y, own.z, own.w, b.x, b.y);
          mma_bf16(run[sub][1][(first + k) % 4], own.x, own.y, own.z, own.w, b.z, b.w);
        }
      }
    }
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      float sums[Tile::kGroupBlocks];
      BOREAS_UNROLL
      for (int32_t sub = 0; sub < Tile::kGroupBlocks; ++sub) {
        const float(&low)[4][4] = run[sub][0], (&high)[4][4] = run[sub][1];
        sums[sub] = ((low[0][i] + low[1][i]) + (low[2][i] + low[3][i])) +
                    ((high[0][2 + i] + high[1][2 + i]) + (high[2][2 + i] + high[3][2 + i]));
      }
      value[i] = kHeight == 8 || lane < 16 ? sums[0] : sums[Tile::kGroupBlocks - 1];
      if (kHeight == 4) value[i] += shuffle_xor(value[i], 16);
    }
  }

  // `from`: this lane's 16 bytes of the first group.
  BOREAS_DEVICE void load(uint32_t from, int32_t share, int32_t lane) {
    BOREAS_UNROLL
    for (int32_t k = 0; k < kMine; ++k) {
      const uint32_t at = from + k * 2 * kGroupBytes;
      if (kWhole) {
        a[k] = load_shared_128(at);
      } else {
        a[k] = Vec4{0, 0, 0, 0};
        load_shared_128_if((share + 2 * k) * Tile::kGroupBlocks + lane / 4 / kHeight < kBlocks, at, a[k]);
      }
    }
  }
  // Times the vectors of one walk's plan rows: what this lane has of the sum of its row and plan row. x: this lane's,
  // in the piece's first block.
  BOREAS_DEVICE float multiply(const Vector& x, uint32_t x_step, int32_t share, int32_t lane) const {
    float run[4][4] = {}, second[4] = {};
    int32_t block = share * Tile::kGroupBlocks + Tile::loads_block(lane);
    uint32_t at = x.address + static_cast<uint32_t>(block) * x_step +
                  static_cast<uint32_t>(lane % 4 * 16 + Tile::loads_half(lane) * 8);
    Vec4 b[kMine] = {};
    BOREAS_UNROLL
    for (int32_t k = 0; k < kMine; ++k) {
      const bool its = x.present && (kWhole || block < kBlocks);
      if (kHeight > 1) load_shared_64_if(its, at, b[k].x, b[k].y);
      else load_shared_128_if(its, at, b[k]);
      block += 2 * Tile::kGroupBlocks;
      at += 2 * Tile::kGroupBlocks * x_step;
    }
    BOREAS_UNROLL
    for (int32_t k = 0; k < kMine; ++k) {
      mma_bf16(run[k % 4], a[k].x, a[k].y, a[k].z, a[k].w, b[k].x, b[k].y);
      if (kHeight == 1) mma_bf16(second, a[k].x, a[k].y, a[k].z, a[k].w, b[k].z, b[k].w);
    }
    const auto sum = [&](int32_t i) { return (run[0][i] + run[1][i]) + (run[2][i] + run[3][i]); };
    const int32_t g = lane / 4, c = lane % 4;
    float value = kHeight > 1 ? sum(0) + sum(3) : g % 2 == 0 ? sum(0) + second[2] : sum(1) + second[3];
    if (kHeight == 8) return value;
    if (!(kHeight > 1 ? c * 2 % Tile::kSlices / 2 == g / kHeight : g / 2 == c)) value = 0.0f;
    BOREAS_UNROLL
    for (int32_t step = 1; step < 32; step *= 2) {
      const bool within_rows = step >= 4 && step < 4 * kHeight;
      const bool within_plan_rows = step < 4 && step * 2 >= Tile::kSlices;
      if (!within_rows && !within_plan_rows) value += shuffle_xor(value, step);
    }
    return value;
  }
};

}  // namespace boreas::cuda
