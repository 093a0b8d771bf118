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

// Where this lane finds B: 16 bytes of every block of 32 columns. A lane whose plan row does not exist, or did not
// choose this expert, multiplies with zeros.
struct Operand {
  uint32_t address = 0;  // of block 0
  uint32_t step = 0;     // from block to block
  bool present = false;
};
// Activations in slot layout (activation_offset): all plan rows.
template <class C>
BOREAS_DEVICE Operand rows_operand(const Worker<C>& w, Slot slot) {
  return {w.slot(slot) + w.lane() / 4 * kBlockRowBytes + w.lane() % 4 * 16,
          static_cast<uint32_t>(w.rows() * kBlockRowBytes), w.lane() / 4 < w.rows()};
}

template <int32_t kValue>
struct Constant {
  static constexpr int32_t value = kValue;
};

// A warp's sums of one tile: even and odd ones of its blocks apart, so that no MMA waits for the one before it.
struct TileSums {
  float part[2][4] = {};
  BOREAS_DEVICE float sum(int32_t i) const { return part[0][i] + part[1][i]; }
};

// A lane's way through its warp's blocks of a tile of kHeight rows.
template <int32_t kHeight, class C>
class TileLane {
 public:
  BOREAS_DEVICE TileLane(const Worker<C>& w, const Operand& operand)
      : own_(w.warp() * kBlockBytes + w.lane() * 16),
        x_(operand.address + static_cast<uint32_t>(w.warp()) * operand.step),
        x_step_(kConsumerWarps * operand.step),
        has_row_(kHeight >= 8 || w.lane() / 4 < kHeight),
        present_(operand.present) {}

  // kCount contiguous blocks that begin at `from`, the tile's kFirst-th round of this warp.
  template <int32_t kFirst, int32_t kCount>
  BOREAS_DEVICE void multiply(TileSums& sums, uint32_t from, int32_t warp) {
    constexpr int32_t kRounds = kCount / kConsumerWarps, kRest = kCount % kConsumerWarps;
    from += own_;
    if constexpr (kRounds > 0) {
      constexpr int32_t kBody = kRounds < kBodyMax ? kRounds : kBodyMax;
      static_assert(kRounds % kBody == 0);
      BOREAS_NO_UNROLL
      for (int32_t round = 0; round < kRounds; round += kBody) {
        multiply_rounds<kFirst, kBody>(sums, from);
        from += kBody * kStep;
      }
    }
    if constexpr (kRest > 0) {
      if (warp < kRest) multiply_rounds<kFirst + kRounds, 1>(sums, from);
    }
  }

 private:
  static constexpr bool kTall = kHeight == kTileRowsMax;
  static constexpr int32_t kBodyMax = 4;
  static constexpr uint32_t kBlockBytes = kHeight * kBlockRowBytes, kStep = kConsumerWarps * kBlockBytes;

  // Loads first, so that they overlap. Lanes without a row or an operand keep their zeros.
  template <int32_t kFirst, int32_t kRounds>
  BOREAS_DEVICE void multiply_rounds(TileSums& sums, uint32_t from) {
    Vec4 other[kRounds];  // of a tall tile: A of the second MMA
    BOREAS_UNROLL
    for (int32_t k = 0; k < kRounds; ++k) {
      if (kHeight >= 8) a_[k] = load_shared_128(from + k * kStep);
      else load_shared_128_if(has_row_, from + k * kStep, a_[k]);
      if (kTall) other[k] = load_shared_128(from + k * kStep + 512);
      load_shared_128_if(present_, x_, b_[k]);
      x_ += x_step_;
    }
    BOREAS_UNROLL
    for (int32_t k = 0; k < kRounds; ++k) {
      float(&part)[4] = sums.part[(kFirst + k) % 2];
      const Vec4 &a = a_[k], &b = b_[k];
      if (kTall) {
        mma_bf16(part, a.x, a.y, a.z, a.w, b.x, b.y);
        mma_bf16(part, other[k].x, other[k].y, other[k].z, other[k].w, b.z, b.w);
      } else {
        mma_bf16(part, a.x, 0, a.y, 0, b.x, b.y);
        mma_bf16(part, a.z, 0, a.w, 0, b.z, b.w);
      }
    }
  }

  Vec4 a_[kBodyMax] = {}, b_[kBodyMax] = {};
  uint32_t own_, x_, x_step_;
  bool has_row_, present_;
};

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

template <int32_t kHeight, int32_t kColumns, bool kWholeChunks, class C>
BOREAS_DEVICE TileSums stream_tile(const Worker<C>& w, StreamTaker& stream, const Operand& operand) {
  constexpr int32_t kBlocks = blocks_of_columns(kColumns), kEach = blocks_per_piece(kHeight);
  constexpr int32_t kFull = kBlocks / kEach, kRest = kBlocks % kEach;
  TileLane<kHeight, C> lane(w, operand);
  TileSums sums;
  if constexpr (kWholeChunks) {
    BOREAS_NO_UNROLL
    for (int32_t first = 0; first < kBlocks; first += kPiecesPerChunk * kEach) {
      const uint32_t chunk = stream.begin_chunk(w.params, w.at);
      lane.template multiply<0, kPiecesPerChunk * kEach>(sums, chunk, w.warp());
      stream.end_chunk(w.params);
    }
  } else {
    BOREAS_NO_UNROLL
    for (int32_t piece = 0; piece < kFull; ++piece) {
      const uint32_t from = stream.begin_piece(w.params, w.at);
      lane.template multiply<0, kEach>(sums, from, w.warp());
      stream.end_piece(w.params, kPieceBytes);
    }
    if constexpr (kRest > 0) {
      const uint32_t from = stream.begin_piece(w.params, w.at);
      lane.template multiply<0, kRest>(sums, from, w.warp());
      stream.end_piece(w.params, kRest * kHeight * kBlockRowBytes);
    }
  }
  return sums;
}

// One tile of a unit of [.., kColumns]. kHeights: what the unit's tiles may have; only these are compiled.
template <int32_t kColumns, uint32_t kHeights, class C>
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

// Partial sums of consecutive matrix rows on their way to an epilogue. Entry i * rows + r: matrix row i (counted from
// the first one collected), plan row r. The two halves take turns across ops as well: a half is written again only
// after the barrier of the other one's flush, which nobody reaches before he has read this one.
template <class C>
class Partials {
 public:
  BOREAS_DEVICE explicit Partials(Worker<C>& w)
      : half_(w.partial_half), rows_(w.rows()), capacity_(partial_entries(w.rows())) {
    begin(w);
  }

  BOREAS_DEVICE bool has_room(int32_t matrix_rows) const { return (collected_ + matrix_rows) * rows_ <= capacity_; }
  BOREAS_DEVICE int32_t collected() const { return collected_; }

  // Takes a finished tile's sums of this warp: rows lane / 4 and 8 more, columns 2 (lane % 4) and the next.
  BOREAS_DEVICE void collect(const TileSums& sums, int32_t height, int32_t lane) {
    const int32_t row = lane / 4, column = lane % 4 * 2;
    const uint32_t step = static_cast<uint32_t>(rows_ * kEntryBytes);
    const bool first = column < rows_, second = column + 1 < rows_, low = row < height, high = row + 8 < height;
    store_shared_32_if(low && first, to_, bits_of(sums.sum(0)));
    store_shared_32_if(low && second, to_ + kEntryBytes, bits_of(sums.sum(1)));
    store_shared_32_if(high && first, to_ + 8 * step, bits_of(sums.sum(2)));
    store_shared_32_if(high && second, to_ + 8 * step + kEntryBytes, bits_of(sums.sum(3)));
    collected_ += height;
    to_ += static_cast<uint32_t>(height) * step;
  }
  // All warps have collected the same tiles: sum(entry) is valid until the flush after the next one.
  BOREAS_DEVICE void complete() { named_barrier(kConsumersMeet, kConsumerThreads); }
  BOREAS_DEVICE float sum(int32_t entry) const {
    const uint32_t at = base_ + static_cast<uint32_t>(entry * kEntryBytes);
    const Vec4 a = load_shared_128(at), b = load_shared_128(at + 16);
    return ((float_of(a.x) + float_of(a.y)) + (float_of(a.z) + float_of(a.w))) +
           ((float_of(b.x) + float_of(b.y)) + (float_of(b.z) + float_of(b.w)));
  }
  BOREAS_DEVICE void next_half(const Worker<C>& w) {
    half_ ^= 1;
    collected_ = 0;
    begin(w);
  }

 private:
  BOREAS_DEVICE void begin(const Worker<C>& w) {
    base_ = w.scratch(&ScratchMap::partials) + static_cast<uint32_t>(half_ * capacity_ * kEntryBytes);
    to_ = base_ + static_cast<uint32_t>((w.lane() / 4 * rows_ + w.lane() % 4 * 2) * kEntryBytes + w.warp() * 4);
  }
  int32_t& half_;
  int32_t rows_, capacity_, collected_ = 0;
  uint32_t base_ = 0, to_ = 0;  // of the half; where this lane's next sum goes
};

// All tiles of a unit of kRows rows, 16 at most, one behind the other.
template <int32_t kColumns, int32_t kRows, class C>
BOREAS_DEVICE void collect_unit(const Worker<C>& w, StreamTaker& stream, const Operand& x, Partials<C>& partials) {
  constexpr bool kWhole = chunks_are_whole<kColumns, tile_heights(kRows)>();
  const auto run = [&](auto constant) {
    constexpr int32_t kHeight = decltype(constant)::value;
    if constexpr ((kRows & kHeight) != 0)
      partials.collect(stream_tile<kHeight, kColumns, kWhole>(w, stream, x), kHeight, w.lane());
  };
  run(Constant<16>{});
  run(Constant<8>{});
  run(Constant<4>{});
  run(Constant<2>{});
  run(Constant<1>{});
}

// Streams `units` units of [matrix_rows, kColumns], matrix_rows > 0, and calls flush(first, count, partials) for
// consecutive runs of their rows (numbered through all units), all threads of the consumer together. kRows: what
// matrix_rows always is, if the compiler knows it, else 0; then kHeights as in stream_tile_of.
template <int32_t kColumns, int32_t kRows, uint32_t kHeights, class C, class Flush>
BOREAS_DEVICE void stream_products(Worker<C>& w, StreamTaker& stream, int32_t units, int32_t matrix_rows,
                                   const Operand& x, Flush flush) {
  constexpr bool kUnitFits = kRows > 0 && kRows <= kTileRowsMax;  // partial_entries() has room for it
  Partials<C> partials(w);
  int32_t first = 0, unit = 0, left = matrix_rows;
  BOREAS_NO_UNROLL
  while (true) {
    const bool end = unit == units;
    const int32_t height = kUnitFits ? kRows : tile_rows(left);
    if (partials.collected() > 0 && (end || !partials.has_room(height))) {  // the only place: flush is inlined once
      partials.complete();
      flush(first, partials.collected(), partials);
      first += partials.collected();
      partials.next_half(w);
    }
    if (end) break;
    if constexpr (kUnitFits) {
      collect_unit<kColumns, kRows>(w, stream, x, partials);
      ++unit;
    } else {
      partials.collect(stream_tile_of<kColumns, kHeights>(w, stream, height, x), height, w.lane());
      left -= height;
      if (left > 0) continue;
      left = matrix_rows;
      ++unit;
    }
  }
  stream.end_item(w.params);
}

// ---- values that consumers collect before they publish them: [rows][stride] bf16 in the scratch
template <class C>
BOREAS_DEVICE void put_output(const Worker<C>& w, int32_t row, int32_t stride, int32_t i, float value) {
  store_shared_16(w.scratch(&ScratchMap::outputs) + (row * stride + i) * 2, pack_bf16(value, 0.0f) & 0xffffu);
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
