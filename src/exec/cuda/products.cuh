// Products of streamed weights with activations, by the eight consumer warps.
//
//   A = weights, 16 rows of a tile x 16 columns      B = activations, 16 columns x 8 plan rows      D: 16 x 8 fp32
//
// A tile's blocks of 32 columns are dealt to the warps: block b to warp b mod 8, which adds up the even and the odd
// ones of its blocks in a piece (or chunk) apart. So each warp ends a tile with a partial sum of every (matrix row,
// plan row), which depends on nothing but the matrix's shape; the eight are added in one order, ((0 + 1) + (2 + 3)) +
// ((4 + 5) + (6 + 7)), by whoever needs the value. Columns of B beyond the plan's rows are zero, rows of A beyond the
// tile's as well: they change no other element.
#pragma once

#include "exec/cuda/worker.cuh"
#include "program/weight_tiles.h"

namespace boreas::cuda {

template <int32_t kValue>
struct Constant {
  static constexpr int32_t value = kValue;
};

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

// A warp's sums of one tile: even and odd ones of its blocks apart, so that no MMA waits for the one before it.
struct TileSums {
  float part[2][4] = {};
  BOREAS_DEVICE float sum(int32_t i) const { return part[0][i] + part[1][i]; }
};

// sums += this warp's blocks among kCount contiguous ones of a tile, which begin at `from` with the tile's block
// `first`.
template <int32_t kHeight, int32_t kCount, class Operand>
BOREAS_DEVICE void multiply_blocks(TileSums& sums, uint32_t from, int32_t first, const Operand& x, int32_t warp,
                                   int32_t lane) {
  constexpr int32_t kRounds = static_cast<int32_t>(ceil_div(kCount, kConsumerWarps));
  constexpr bool kWhole = kCount % kConsumerWarps == 0;
  constexpr uint32_t kBlockBytes = kHeight * kBlockRowBytes;
  constexpr Vec4 kZero{0, 0, 0, 0};
  const bool has_row = kHeight >= 8 || lane / 4 < kHeight;
  const uint32_t at = from + warp * kBlockBytes + lane * 16;
  BOREAS_UNROLL
  for (int32_t round = 0; round < kRounds; ++round) {
    const int32_t block = warp + round * kConsumerWarps;
    if (!kWhole && block >= kCount) break;
    const uint32_t here = at + round * kConsumerWarps * kBlockBytes;
    const Vec4 low = has_row ? load_shared_128(here) : kZero;
    const Vec4 high = kHeight == 16 ? load_shared_128(here + 512) : kZero;
    const Vec4 b = x.load(first + block);
    mma_bf16(sums.part[round % 2], low.x, high.x, low.y, high.y, b.x, b.y);
    mma_bf16(sums.part[round % 2], low.z, high.z, low.w, high.w, b.z, b.w);
  }
}

// The heights of the tiles of units, as a set: bit 4 for 16 rows down to bit 0 for one.
constexpr uint32_t kAllHeights = 31;
constexpr uint32_t tile_heights(int32_t rows) {
  return (rows >= kTileRowsMax ? 16u : 0u) | static_cast<uint32_t>(rows % kTileRowsMax);
}
// Of slices of `total` rows over kParts, in pairs if kPair is 2.
template <int32_t kTotal, int32_t kParts, int32_t kPair = 1>
constexpr uint32_t kHeightsOfSlices = kTotal % kParts == 0 ? tile_heights(kTotal / kParts * kPair) : kAllHeights;

// Whether every tile of such heights is a whole number of full chunks, so that a chunk never holds two of them.
template <int32_t kColumns, uint32_t kHeights>
constexpr bool chunks_are_whole() {
  for (int32_t height = 1; height <= kTileRowsMax; height *= 2) {
    const bool whole = blocks_of_columns(kColumns) % (kPiecesPerChunk * blocks_per_piece(height)) == 0;
    if ((kHeights & static_cast<uint32_t>(height)) != 0 && !whole) return false;
  }
  return true;
}

template <int32_t kHeight, int32_t kColumns, bool kWholeChunks, class C, class Operand>
BOREAS_DEVICE TileSums stream_tile(const Worker<C>& w, StreamTaker& stream, const Operand& x) {
  constexpr int32_t kBlocks = blocks_of_columns(kColumns), kEach = blocks_per_piece(kHeight);
  constexpr int32_t kFull = kBlocks / kEach, kRest = kBlocks % kEach;
  TileSums sums;
  if constexpr (kWholeChunks) {
    BOREAS_NO_UNROLL
    for (int32_t first = 0; first < kBlocks; first += kPiecesPerChunk * kEach) {
      const uint32_t chunk = stream.begin_chunk(w.params, w.at);
      multiply_blocks<kHeight, kPiecesPerChunk * kEach>(sums, chunk, first, x, w.warp(), w.lane());
      stream.end_chunk(w.params);
    }
  } else {
    BOREAS_NO_UNROLL
    for (int32_t piece = 0; piece < kFull; ++piece) {
      const uint32_t from = stream.begin_piece(w.params, w.at);
      multiply_blocks<kHeight, kEach>(sums, from, piece * kEach, x, w.warp(), w.lane());
      stream.end_piece(w.params, kPieceBytes);
    }
    if constexpr (kRest > 0) {
      const uint32_t from = stream.begin_piece(w.params, w.at);
      multiply_blocks<kHeight, kRest>(sums, from, kFull * kEach, x, w.warp(), w.lane());
      stream.end_piece(w.params, kRest * kHeight * kBlockRowBytes);
    }
  }
  return sums;
}

// One tile of a unit of [.., kColumns]. kHeights: what the unit's tiles may have; only these are compiled.
template <int32_t kColumns, uint32_t kHeights, class C, class Operand>
BOREAS_DEVICE TileSums stream_tile_of(const Worker<C>& w, StreamTaker& stream, int32_t height, const Operand& x) {
  constexpr bool kWhole = chunks_are_whole<kColumns, kHeights>();
  TileSums sums;
  const auto run = [&](auto constant) {
    constexpr int32_t kHeight = decltype(constant)::value;
    if constexpr ((kHeights & kHeight) != 0) {
      if (kHeights == kHeight || height == kHeight) sums = stream_tile<kHeight, kColumns, kWhole>(w, stream, x);
    }
  };
  run(Constant<16>{});
  run(Constant<8>{});
  run(Constant<4>{});
  run(Constant<2>{});
  run(Constant<1>{});
  return sums;
}

// As a tile's height: behind the last one, and no room for it.
constexpr int32_t kRowsEnd = 1 << 20;

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
  BOREAS_DEVICE void collect(const TileSums& sums, int32_t tile_count, int32_t warp, int32_t lane) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < 4; ++i) {
      const int32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      if (row < tile_count && column < rows_)
        store_shared_float(address((collected_ + row) * rows_ + column) + warp * 4, sums.sum(i));
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

// Streams `units` units of [matrix_rows, kColumns], matrix_rows > 0, and calls flush(first, count, partials) for
// consecutive runs of their rows (numbered through all units), all threads of the consumer together. x is B; kHeights
// as in stream_tile_of.
template <int32_t kColumns, uint32_t kHeights, class C, class Operand, class Flush>
BOREAS_DEVICE void stream_products(Worker<C>& w, StreamTaker& stream, int32_t units, int32_t matrix_rows,
                                   const Operand& x, Flush flush) {
  Partials<C> partials(w);
  int32_t first = 0, unit = 0, left = matrix_rows;
  BOREAS_NO_UNROLL
  while (true) {
    const int32_t height = unit < units ? tile_rows(left) : kRowsEnd;
    if (!partials.has_room(height) && partials.collected() > 0) {  // the only place: flush is inlined once
      partials.complete();
      flush(first, partials.collected(), partials);
      first += partials.collected();
      partials.next_half();
    }
    if (unit == units) break;
    partials.collect(stream_tile_of<kColumns, kHeights>(w, stream, height, x), height, w.warp(), w.lane());
    left -= height;
    if (left > 0) continue;
    left = matrix_rows;
    ++unit;
  }
  stream.end_item(w.params);
}

// ---- values that consumers collect before they publish them: [rows][stride] bf16 in the scratch
template <class C>
BOREAS_DEVICE void put_output(const Worker<C>& w, int32_t row, int32_t stride, int32_t i, float value) {
  store_shared_16(w.scratch(&ScratchMap::outputs) + (row * stride + i) * 2, pack_bf16(value, 0.0f) & 0xffffu);
}
BOREAS_DEVICE uint32_t load_half(uint32_t address) {
  return load_shared_32(address & ~3u) >> (address % 4 * 8) & 0xffffu;
}
// `left` values, an even number, but at most six, at `source`, a multiple of 4, as the payload of a word.
BOREAS_DEVICE void publish_pairs(Word* to, uint32_t source, int32_t left, uint32_t epoch) {
  store_word(to, load_shared_32(source), left > 2 ? load_shared_32(source + 4) : 0,
             left > 4 ? load_shared_32(source + 8) : 0, epoch);
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
