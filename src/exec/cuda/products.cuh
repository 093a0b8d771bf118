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

// Where this lane finds B: 16 bytes of every block of 32 columns.
struct Operand {
  uint32_t address = 0;  // of block 0
  uint32_t step = 0;     // from block to block
  bool present = false;  // false: zero, a plan row that does not exist (or did not choose this expert)

  BOREAS_DEVICE Vec4 load(uint32_t at) const { return present ? load_shared_128(at) : Vec4{0, 0, 0, 0}; }
};
// Activations in slot layout (activation_offset): all plan rows.
template <class C>
BOREAS_DEVICE Operand rows_operand(const Worker<C>& w, Slot slot) {
  return {w.slot(slot) + w.lane() / 4 * kBlockRowBytes + w.lane() % 4 * 16,
          static_cast<uint32_t>(w.rows() * kBlockRowBytes), w.lane() / 4 < w.rows()};
}

// What a product streams, and what it multiplies that with: units of [rows, 32 * blocks].
struct Product {
  int32_t units = 0, rows = 0, blocks = 0;
  bool whole_chunks = false;  // no chunk holds two tiles, whatever the unit
  Operand x;
};

// A warp's sums of one tile: even and odd ones of its blocks apart, so that no MMA waits for the one before it.
struct TileSums {
  float part[2][4] = {};
  BOREAS_DEVICE float sum(int32_t i) const { return part[0][i] + part[1][i]; }
};

// kRounds of this warp's blocks: loads first, so that they overlap.
template <int32_t kRounds>
BOREAS_DEVICE void multiply_rounds(TileSums& sums, uint32_t weights, uint32_t weights_step, uint32_t x, uint32_t x_step,
                                   const Operand& operand, bool has_low, bool has_high) {
  constexpr Vec4 kZero{0, 0, 0, 0};
  Vec4 low[kRounds], high[kRounds], b[kRounds];
  BOREAS_UNROLL
  for (int32_t k = 0; k < kRounds; ++k) {
    const uint32_t at = weights + static_cast<uint32_t>(k) * weights_step;
    low[k] = has_low ? load_shared_128(at) : kZero;
    high[k] = has_high ? load_shared_128(at + 512) : kZero;
    b[k] = operand.load(x + static_cast<uint32_t>(k) * x_step);
  }
  BOREAS_UNROLL
  for (int32_t k = 0; k < kRounds; ++k) {
    mma_bf16(sums.part[k % 2], low[k].x, high[k].x, low[k].y, high[k].y, b[k].x, b[k].y);
    mma_bf16(sums.part[k % 2], low[k].z, high[k].z, low[k].w, high[k].w, b[k].z, b[k].w);
  }
}

// sums += this warp's blocks among `count` contiguous ones of a tile, which begin at `from` with the tile's block
// `first`. One copy of this code serves all heights: what runs once an op is fetched from afar each time.
template <class C>
BOREAS_DEVICE void multiply_blocks(const Worker<C>& w, TileSums& sums, uint32_t from, int32_t height, int32_t first,
                                   int32_t count, const Operand& operand) {
  const int32_t warp = w.warp(), lane = w.lane();
  const uint32_t block_bytes = static_cast<uint32_t>(height * kBlockRowBytes), step = kConsumerWarps * block_bytes;
  const uint32_t x_step = kConsumerWarps * operand.step;
  const bool has_low = lane / 4 < height, has_high = height == kTileRowsMax;
  uint32_t weights = from + static_cast<uint32_t>(warp) * block_bytes + static_cast<uint32_t>(lane * 16);
  uint32_t x = operand.address + static_cast<uint32_t>(first + warp) * operand.step;
  int32_t rounds = (count - warp + kConsumerWarps - 1) >> 3;
  static_assert(kConsumerWarps == 8);
  BOREAS_NO_UNROLL
  for (; rounds >= 4; rounds -= 4) {
    multiply_rounds<4>(sums, weights, step, x, x_step, operand, has_low, has_high);
    weights += 4 * step;
    x += 4 * x_step;
  }
  if (rounds >= 2) {
    multiply_rounds<2>(sums, weights, step, x, x_step, operand, has_low, has_high);
    weights += 2 * step;
    x += 2 * x_step;
  }
  if (rounds & 1) multiply_rounds<1>(sums, weights, step, x, x_step, operand, has_low, has_high);
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
constexpr bool chunks_are_whole(int32_t columns, uint32_t heights) {
  for (int32_t height = 1; height <= kTileRowsMax; height *= 2) {
    const bool whole = blocks_of_columns(columns) % (kPiecesPerChunk * blocks_per_piece(height)) == 0;
    if ((heights & static_cast<uint32_t>(height)) != 0 && !whole) return false;
  }
  return true;
}

template <class C>
BOREAS_DEVICE TileSums stream_tile(const Worker<C>& w, StreamTaker& stream, const Product& product, int32_t height) {
  const int32_t each = blocks_per_piece(height);
  TileSums sums;
  BOREAS_NO_UNROLL
  for (int32_t first = 0; first < product.blocks;) {
    const int32_t left = product.blocks - first;
    if (product.whole_chunks) {
      const uint32_t chunk = stream.begin_chunk(w.params, w.at);
      multiply_blocks(w, sums, chunk, height, first, kPiecesPerChunk * each, product.x);
      stream.end_chunk(w.params);
      first += kPiecesPerChunk * each;
    } else {
      const int32_t count = left < each ? left : each;
      const uint32_t piece = stream.begin_piece(w.params, w.at);
      multiply_blocks(w, sums, piece, height, first, count, product.x);
      stream.end_piece(w.params, count * height * kBlockRowBytes);
      first += count;
    }
  }
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
    const bool first = column < rows_, second = column + 1 < rows_;
    if (row < height) {
      if (first) store_shared_float(to_, sums.sum(0));
      if (second) store_shared_float(to_ + kEntryBytes, sums.sum(1));
    }
    if (row + 8 < height) {
      if (first) store_shared_float(to_ + 8 * step, sums.sum(2));
      if (second) store_shared_float(to_ + 8 * step + kEntryBytes, sums.sum(3));
    }
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

// Streams a product and calls flush(first, count, partials) for consecutive runs of its rows (numbered through all
// units), all threads of the consumer together.
template <class C, class Flush>
BOREAS_DEVICE void stream_product(Worker<C>& w, StreamTaker& stream, const Product& product, Flush flush) {
  if (product.rows == 0) return;
  Partials<C> partials(w);
  int32_t first = 0, unit = 0, left = product.rows;
  BOREAS_NO_UNROLL
  while (true) {
    const bool end = unit == product.units;
    const int32_t height = tile_rows(left);
    if (partials.collected() > 0 && (end || !partials.has_room(height))) {  // the only place: flush is inlined once
      partials.complete();
      flush(first, partials.collected(), partials);
      first += partials.collected();
      partials.next_half(w);
    }
    if (end) break;
    partials.collect(stream_tile(w, stream, product, height), height, w.lane());
    left -= height;
    if (left > 0) continue;
    left = product.rows;
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
