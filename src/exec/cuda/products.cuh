// Products of streamed weights with activations, by the eight consumer warps.
//
//   A = weights, 16 rows of a tile x 16 columns      B = activations, 16 columns x 8 plan rows      D: 16 x 8 fp32
//
// A piece's blocks of 32 columns are dealt to the warps: block b to warp b mod 8. So each warp ends a tile with a
// partial sum of every (matrix row, plan row), which depends on nothing but the matrix's shape; the eight are added in
// one order, ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), by whoever needs the value. Columns of B beyond the plan's rows
// are zero, rows of A beyond the tile's as well: they change no other element.
#pragma once

#include "exec/cuda/worker.cuh"
#include "program/weight_tiles.h"

namespace boreas::cuda {

// Activations in slot layout (activation_offset): the operand of all plan rows.
struct RowsOperand {
  uint32_t address;  // of this lane's 16 bytes of block 0; lanes of absent rows: unused
  uint32_t block_stride;
  bool present;

  BOREAS_DEVICE RowsOperand(uint32_t slot, int32_t rows, int32_t lane)
      : address(slot + (lane / 4) * kBlockRowBytes + lane % 4 * 16),
        block_stride(rows * kBlockRowBytes),
        present(lane / 4 < rows) {}
  BOREAS_DEVICE Vec4 load(int32_t block) const {
    return present ? load_shared_128(address + block * block_stride) : Vec4{0, 0, 0, 0};
  }
};

// One row-major vector a plan row, at any address (inner activations of the expert a row chose).
struct VectorOperand {
  uint32_t address;  // of this lane's 16 bytes of block 0
  bool present;
  BOREAS_DEVICE Vec4 load(int32_t block) const {
    return present ? load_shared_128(address + block * kBlockRowBytes) : Vec4{0, 0, 0, 0};
  }
};

// sums += this warp's blocks of a piece.
template <class Operand>
BOREAS_DEVICE void multiply_piece(float (&sums)[4], uint32_t piece, const PieceWalk& walk, const Operand& x,
                                  int32_t warp, int32_t lane) {
  const int32_t row = lane / 4;
  const bool low_row = row < walk.tile_count, high_row = row + 8 < walk.tile_count;
  const uint32_t block_bytes = static_cast<uint32_t>(walk.tile_count) * kBlockRowBytes;
  BOREAS_NO_UNROLL
  for (int32_t first = warp; first < walk.block_count; first += 2 * kConsumerWarps) {
    // Two blocks at a time: their loads overlap.
    const int32_t second = first + kConsumerWarps;
    const bool both = second < walk.block_count;
    const uint32_t at = piece + first * block_bytes + lane * 16, then = piece + second * block_bytes + lane * 16;
    constexpr Vec4 kZero{0, 0, 0, 0};
    const Vec4 low0 = low_row ? load_shared_128(at) : kZero, high0 = high_row ? load_shared_128(at + 512) : kZero;
    const Vec4 low1 = low_row && both ? load_shared_128(then) : kZero;
    const Vec4 high1 = high_row && both ? load_shared_128(then + 512) : kZero;
    const Vec4 x0 = x.load(walk.block_first + first), x1 = both ? x.load(walk.block_first + second) : kZero;
    mma_bf16(sums, low0.x, high0.x, low0.y, high0.y, x0.x, x0.y);
    mma_bf16(sums, low0.z, high0.z, low0.w, high0.w, x0.z, x0.w);
    if (both) {
      mma_bf16(sums, low1.x, high1.x, low1.y, high1.y, x1.x, x1.y);
      mma_bf16(sums, low1.z, high1.z, low1.w, high1.w, x1.z, x1.w);
    }
  }
}

// Partial sums of consecutive matrix rows on their way to an epilogue. Entry i * rows + r: matrix row i (counted from
// the first one collected), plan row r. The two halves take turns across ops as well: a half is written again only
// after the barrier of the other one's flush, which nobody reaches before he has read this one.
template <class C>
class Partials {
 public:
  BOREAS_DEVICE explicit Partials(Worker<C>& w)
      : half_(w.partial_half),
        base_(w.scratch(&ScratchMap::partials)),
        capacity_(partial_entries(w.rows())),
        rows_(w.rows()) {}

  BOREAS_DEVICE bool has_room(int32_t matrix_rows) const { return (collected_ + matrix_rows) * rows_ <= capacity_; }
  BOREAS_DEVICE int32_t collected() const { return collected_; }

  // Takes a finished tile's sums of this warp.
  BOREAS_DEVICE void collect(const float (&sums)[4], int32_t tile_count, int32_t warp, int32_t lane) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < 4; ++i) {
      const int32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      if (row < tile_count && column < rows_)
        store_shared_float(address((collected_ + row) * rows_ + column) + warp * 4, sums[i]);
    }
    collected_ += tile_count;
  }
  // All warps have collected the same tiles: sum(entry) is valid until the flush after the next one.
  BOREAS_DEVICE void complete() { named_barrier(kConsumersMeet, kConsumerThreads); }
  BOREAS_DEVICE float sum(int32_t entry) const {
    const Vec4 a = load_shared_128(address(entry)), b = load_shared_128(address(entry) + 16);
    return ((float_of(a.x) + float_of(a.y)) + (float_of(a.z) + float_of(a.w))) +
           ((float_of(b.x) + float_of(b.y)) + (float_of(b.z) + float_of(b.w)));
  }
  BOREAS_DEVICE void next_half() {
    half_ ^= 1;
    collected_ = 0;
  }

 private:
  BOREAS_DEVICE uint32_t address(int32_t entry) const { return base_ + (half_ * capacity_ + entry) * kEntryBytes; }
  int32_t& half_;
  uint32_t base_;
  int32_t capacity_, rows_, collected_ = 0;
};

// Streams `units` units of [matrix_rows, columns] and calls flush(first, count, partials) for consecutive runs of their
// rows (numbered through all units), all threads of the consumer together. operand(unit) is B.
template <class C, class OperandOf, class Flush>
BOREAS_DEVICE void stream_products(Worker<C>& w, StreamTaker& stream, int32_t units, int32_t matrix_rows,
                                   int32_t columns, OperandOf operand, Flush flush) {
  Partials<C> partials(w);
  int32_t first = 0;
  const auto finish = [&] {
    partials.complete();
    flush(first, partials.collected(), partials);
    first += partials.collected();
    partials.next_half();
  };
  BOREAS_NO_UNROLL
  for (int32_t unit = 0; unit < units; ++unit) {
    const auto x = operand(unit);
    float sums[4] = {0, 0, 0, 0};
    for (PieceWalk walk(matrix_rows, columns); !walk.done(); walk.advance()) {
      const uint32_t piece = stream.begin_piece(w.params, w.at);
      multiply_piece(sums, piece, walk, x, w.warp(), w.lane());
      stream.end_piece(w.params, walk.bytes());
      if (!walk.last_of_tile()) continue;
      if (!partials.has_room(walk.tile_count)) finish();
      partials.collect(sums, walk.tile_count, w.warp(), w.lane());
      BOREAS_UNROLL
      for (float& sum : sums) sum = 0;
    }
  }
  stream.end_item(w.params);
  if (partials.collected() > 0) finish();
}

// ---- values that consumers collect before they publish them: [rows][stride] bf16 in the scratch
template <class C>
BOREAS_DEVICE void put_output(const Worker<C>& w, int32_t row, int32_t stride, int32_t i, float value) {
  store_shared_16(w.scratch(&ScratchMap::outputs) + (row * stride + i) * 2, pack_bf16(value, 0.0f) & 0xffffu);
}
BOREAS_DEVICE uint32_t load_half(uint32_t address) {
  return load_shared_32(address & ~3u) >> (address % 4 * 8) & 0xffffu;
}
// Values [first, first + 6) below `count` of a row at `source` as the payload of a word.
BOREAS_DEVICE void publish_halves(Word* to, uint32_t source, int32_t first, int32_t count, uint32_t epoch) {
  uint32_t payload[3];
  BOREAS_UNROLL
  for (int32_t k = 0; k < 3; ++k) {
    const int32_t i = first + 2 * k;
    const uint32_t low = i < count ? load_half(source + i * 2) : 0;
    payload[k] = low | (i + 1 < count ? load_half(source + i * 2 + 2) : 0) << 16;
  }
  store_word(to, payload[0], payload[1], payload[2], epoch);
}

}  // namespace boreas::cuda
