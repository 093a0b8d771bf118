// Products of streamed weights with activations, by the eight consumer warps.
//
//   A = weights, 16 rows of a tile x 16 columns      B = activations, 16 columns x 8 vectors      D: 16 x 8 fp32
//
// B's vectors are those of all plan rows, or for an expert of those that chose it.
//
// A tile's pieces are dealt to the warps as the stream brings them (pipeline.cuh); two warps share a piece, one its
// even blocks of 32 columns (or groups of blocks), the other the odd ones. Share 2 p + s of a tile is piece p's blocks
// of parity s. Shares q, q + 8, ... always fall to one warp, which adds them up in order: they are part q of the tile,
// at most eight parts. So parts, and what goes into each, depend on nothing but the matrix's shape, whoever computed
// them; they are added in one order, ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), by whoever needs the value. Further
// columns of B are zero: they change no other element.
#pragma once

#include "exec/cuda/tile_products.cuh"
#include "exec/cuda/worker.cuh"
#include "program/weight_tiles.h"

namespace boreas::cuda {

// The heights of the tiles of units, as a set: bit 4 for 16 rows down to bit 0 for one.
constexpr uint32_t kAllHeights = 31;
constexpr uint32_t tile_heights(int32_t rows) {
  return (rows >= kTileRowsMax ? 16u : 0u) | static_cast<uint32_t>(rows % kTileRowsMax);
}
// Of slices of `total` rows over kParts, in pairs if kPair is 2.
template <int32_t kTotal, int32_t kParts, int32_t kPair = 1>
constexpr uint32_t kHeightsOfSlices = kTotal % kParts == 0 ? tile_heights(kTotal / kParts * kPair) : kAllHeights;

// Most and fewest parts of the tiles of such heights.
template <int32_t kColumns, uint32_t kHeights>
struct PartsOf {
  static constexpr int32_t of(int32_t height) {
    const int32_t parts = 2 * tile_pieces(height, kColumns);
    return parts < kPartsMax ? parts : kPartsMax;
  }
  static constexpr int32_t extreme(bool most) {
    int32_t found = 0;
    for (int32_t height = 1; height <= kTileRowsMax; height *= 2) {
      if ((kHeights & static_cast<uint32_t>(height)) == 0) continue;
      if (found == 0 || (of(height) > found) == most) found = of(height);
    }
    return found;
  }
  static constexpr int32_t kMost = extreme(true), kFewest = extreme(false);
};

// Parts on their way to an epilogue; part after part, each of all entries. An entry is a matrix row times a vector of
// B: of all plan rows, entry i * rows + r is matrix row i (counted from the first one collected), plan row r. kRouted:
// an expert is multiplied with the vectors of those that chose it, and they are as many as the expert has columns;
// entries come in blocks of some matrix rows and all of an expert's columns, in a block [column][matrix row].
//
// With one row the scratch's two halves take turns, across ops as well: a half is written again only after the barrier
// of the other one's flush, which nobody reaches before he has read this one. With more rows, where little fits, all of
// it is used at once, and a second barrier ends a flush.
template <int32_t kParts, bool kRouted, class C>
class Partials {
 public:
  BOREAS_DEVICE explicit Partials(Worker<C>& w)
      : half_(w.partial_half),
        columns_(w.rows()),
        part_step_(w.params.scratch.partial_half * (C::kOneRow ? 1u : 2u) / kParts & ~3u),
        base_(w.scratch(&ScratchMap::partials) + (w.partial_half != 0 ? w.params.scratch.partial_half : 0)) {}

  // Of B, in the expert in hand.
  BOREAS_DEVICE int32_t columns() const { return C::kOneRow ? 1 : columns_; }
  // For so many matrix rows more; kRouted: entries.
  BOREAS_DEVICE bool has_room(int32_t more) const {
    return static_cast<uint32_t>((collected_ + more) * (kRouted ? 1 : columns()) * 4) <= part_step_;
  }
  // Matrix rows; kRouted: entries, of whole blocks.
  BOREAS_DEVICE int32_t collected() const { return collected_; }

  // kRouted: begins a block.
  BOREAS_DEVICE void begin_block(int32_t matrix_rows, int32_t columns) {
    block_rows_ = matrix_rows;
    columns_ = columns;
    row_ = 0;
  }
  BOREAS_DEVICE void end_block() { collected_ += block_rows_ * columns(); }

  // Takes this warp's part of a tile of 16 rows: rows lane / 4 and 8 more, columns 2 (lane % 4) and the next.
  BOREAS_DEVICE void collect(const TileSums& sums, int32_t part, int32_t lane) const {
    const int32_t column = lane % 4 * 2;
    const uint32_t to = address(part, lane / 4, column), other = to + static_cast<uint32_t>(8 * row_step());
    const uint32_t next = static_cast<uint32_t>(column_step());
    const bool first = column < columns(), second = column + 1 < columns();
    store_shared_32_if(first, to, bits_of(sums.sum(0)));
    store_shared_32_if(second, to + next, bits_of(sums.sum(1)));
    store_shared_32_if(first, other, bits_of(sums.sum(2)));
    store_shared_32_if(second, other + next, bits_of(sums.sum(3)));
  }
  // One sum of a shorter tile; shares beyond the first eight are added to what is there.
  BOREAS_DEVICE void collect_one(float value, bool wanted, int32_t part, bool adds, int32_t row, int32_t column) const {
    const uint32_t to = address(part, row, column);
    if (adds && wanted) value = load_shared_float(to) + value;
    store_shared_32_if(wanted, to, bits_of(value));
  }
  // The tile in hand is collected, by whoever had parts of it.
  BOREAS_DEVICE void end_tile(int32_t height) {
    if (kRouted) row_ += height;
    else collected_ += height;
  }
  // All warps have collected the same tiles: sum(entry) is valid until end_flush().
  BOREAS_DEVICE void complete() { named_barrier(kConsumersMeet, kConsumerThreads); }
  // parts: what the entry's tile has, at least kFewest; others count as zero.
  template <int32_t kFewest>
  BOREAS_DEVICE float sum(int32_t entry, int32_t parts) const {
    const uint32_t at = base_ + static_cast<uint32_t>(entry * 4);
    float part[kPartsMax] = {};
    BOREAS_UNROLL
    for (int32_t i = 0; i < kParts; ++i) {
      if (i < kFewest) part[i] = load_shared_float(at + i * part_step_);
      else load_shared_float_if(i < parts, at + i * part_step_, part[i]);
    }
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  }
  // What a caller makes of an entry, in the place of its first part; nobody else reads the entry before a barrier.
  BOREAS_DEVICE void replace(int32_t entry, float value) { store_shared_float(base_ + entry * 4, value); }
  BOREAS_DEVICE float first_part(int32_t entry) const { return load_shared_float(base_ + entry * 4); }
  BOREAS_DEVICE void end_flush(const Worker<C>& w) {
    collected_ = 0;
    if (!C::kOneRow) return named_barrier(kConsumersMeet, kConsumerThreads);
    const uint32_t bytes = w.params.scratch.partial_half;
    base_ = half_ == 0 ? base_ + bytes : base_ - bytes;
    half_ ^= 1;
  }

 private:
  BOREAS_DEVICE int32_t row_step() const { return kRouted ? 4 : columns() * 4; }  // in bytes
  BOREAS_DEVICE int32_t column_step() const { return kRouted ? block_rows_ * 4 : 4; }
  BOREAS_DEVICE uint32_t address(int32_t part, int32_t row, int32_t column) const {
    const int32_t first = kRouted ? collected_ + row_ : collected_ * columns();
    return base_ + static_cast<uint32_t>(part) * part_step_ +
           static_cast<uint32_t>(first * 4 + row * row_step() + column * column_step());
  }

  int32_t& half_;
  int32_t columns_, collected_ = 0;
  int32_t block_rows_ = 0, row_ = 0;  // of the block in hand: its matrix rows, with which the tile in hand begins
  uint32_t part_step_, base_;         // bytes from part to part; of the half
};

// Rows of the tile that holds row `row` of a unit of so many.
constexpr int32_t height_of_row(int32_t unit_rows, int32_t row) {
  const int32_t whole = unit_rows / kTileRowsMax * kTileRowsMax;
  if (row < whole) return kTileRowsMax;
  row -= whole;
  for (int32_t height = kTileRowsMax / 2; height > 1; height /= 2) {
    if ((unit_rows & height) == 0) continue;
    if (row < height) return height;
    row -= height;
  }
  return 1;
}

// Whether a unit of so many rows, as the compiler knows them (else 0), is a tile or a few: partial_bytes() has room for
// it.
constexpr bool unit_fits(int32_t rows) { return rows > 0 && rows <= kTileRowsMax; }

// A warp's walk over the tiles of an item: takes its shares of each and collects its parts. kColumns, kHeights: of all
// tiles; only these are compiled.
template <int32_t kColumns, uint32_t kHeights, bool kRouted, class C>
class TileWalk {
 public:
  using Parts = PartsOf<kColumns, kHeights>;
  using Sums = Partials<Parts::kMost, kRouted, C>;

  BOREAS_DEVICE explicit TileWalk(Worker<C>& w) : sums_(w) {}
  BOREAS_DEVICE Sums& sums() { return sums_; }
  BOREAS_DEVICE int32_t pieces() const { return first_; }

  template <class X>
  BOREAS_DEVICE void take(const Worker<C>& w, StreamTaker& stream, int32_t height, const X& x) {
    const auto run = [&](auto constant) {
      constexpr int32_t kHeight = decltype(constant)::value;
      if constexpr ((kHeights & kHeight) != 0) {
        if (kHeights == kHeight || height == kHeight) take_tile<kHeight>(w, stream, x);
      }
    };
    run(Constant<16>{});
    run(Constant<8>{});
    run(Constant<4>{});
    run(Constant<2>{});
    run(Constant<1>{});
  }
  // All tiles of a unit of kRows rows, 16 at most.
  template <int32_t kRows, class X>
  BOREAS_DEVICE void take_unit(const Worker<C>& w, StreamTaker& stream, const X& x) {
    const auto run = [&](auto constant) {
      constexpr int32_t kHeight = decltype(constant)::value;
      if constexpr ((kRows & kHeight) != 0) take_tile<kHeight>(w, stream, x);
    };
    run(Constant<16>{});
    run(Constant<8>{});
    run(Constant<4>{});
    run(Constant<2>{});
    run(Constant<1>{});
  }
  // Of an entry whose matrix row is row `row` of a unit of `unit_rows`.
  BOREAS_DEVICE float sum(int32_t entry, int32_t unit_rows, int32_t row) const {
    constexpr int32_t kFewest = Parts::kFewest;
    return sums_.template sum<kFewest>(entry,
                                       kFewest == Parts::kMost ? kFewest : Parts::of(height_of_row(unit_rows, row)));
  }
  // Whether a tile may begin in the middle of a chunk behind a piece that is not full.
  static constexpr bool kSamePieces = [] {
    for (int32_t height = 1; height <= kTileRowsMax; height *= 2) {
      const bool full = blocks_of_columns(kColumns) % blocks_per_piece(height) == 0;
      if ((kHeights & static_cast<uint32_t>(height)) != 0 && (!full || piece_bytes(height) != kPieceBytes))
        return false;
    }
    return true;
  }();

 private:
  template <int32_t kHeight, class X>
  BOREAS_DEVICE void take_tile(const Worker<C>& w, StreamTaker& stream, const X& x) {
    using Pieces = TilePieces<kHeight, kColumns>;
    int32_t piece = stream.next_piece() - first_;
    if (piece < Pieces::kCount) {
      if constexpr (kHeight == kTileRowsMax) take_shares_tall<Pieces>(w, stream, x, piece);
      else take_shares_short<kHeight, Pieces>(w, stream, x, piece);
    }
    sums_.end_tile(kHeight);
    first_ += Pieces::kCount;
    before_ = Pieces::kLastBytes;
  }

  // run(blocks) for a piece of a tile, the number of its blocks as a constant.
  template <class Pieces, class Run>
  static BOREAS_DEVICE void with_blocks(int32_t piece, Run run) {
    if constexpr (Pieces::kRest == 0) run(Constant<Pieces::kEach>{});
    else if constexpr (Pieces::kCount == 1) run(Constant<Pieces::kRest>{});
    else if (piece < Pieces::kCount - 1) run(Constant<Pieces::kEach>{});
    else run(Constant<Pieces::kRest>{});
  }
  template <int32_t kHeight>
  BOREAS_DEVICE int32_t before(int32_t piece) const {
    return kSamePieces ? kPieceBytes : piece == 0 ? before_ : piece_bytes(kHeight);
  }

  template <class Pieces, class X>
  BOREAS_DEVICE void take_shares_tall(const Worker<C>& w, StreamTaker& stream, const X& x, int32_t piece) {
    const int32_t share = w.warp() % 2, part = 2 * piece + share;
    const Vector vector = x.of_lane(w.lane());
    TileSums sums;
    BOREAS_NO_UNROLL
    do {
      const uint32_t from = stream.begin_piece(w.params, w.at, before<kTileRowsMax>(piece)) +
                            static_cast<uint32_t>(share * kTileRowsMax * kBlockRowBytes + w.lane() * 16);
      const uint32_t first = static_cast<uint32_t>(piece * Pieces::kEach + share) * x.step;
      const Vector here{vector.address + first + static_cast<uint32_t>(w.lane() % 4 * 16), vector.present};
      with_blocks<Pieces>(piece, [&](auto blocks) {
        TallShare<decltype(blocks)::value / 2> own;
        own.load(from);
        stream.end_chunk(w.params);
        own.multiply(sums, here, 2 * x.step);
      });
      piece += StreamTaker::kPieceStep;
    } while (Pieces::kCount > StreamTaker::kPieceStep && piece < Pieces::kCount);
    sums_.collect(sums, part, w.lane());
  }

  template <int32_t kHeight, class Pieces, class X>
  BOREAS_DEVICE void take_shares_short(const Worker<C>& w, StreamTaker& stream, const X& x, int32_t piece) {
    using Tile = ShortTile<kHeight>;
    const int32_t share = w.warp() % 2, part = 2 * piece + share, lane = w.lane();
    bool adds = false;
    BOREAS_NO_UNROLL
    do {
      const uint32_t from =
          stream.begin_piece(w.params, w.at, before<kHeight>(piece)) + static_cast<uint32_t>(share * 512 + lane * 16);
      with_blocks<Pieces>(piece, [&](auto blocks) {
        ShortShare<kHeight, decltype(blocks)::value> own;
        own.load(from, share, lane);
        stream.end_chunk(w.params);
        if constexpr (!C::kOneRow && kHeight >= 4) {
          Vector here = x.of_lane(lane);
          here.address += static_cast<uint32_t>(piece * Pieces::kEach) * x.step;
          float value[2];
          own.multiply_wide(here, x.step, share, lane, value);
          const int32_t row = lane / 4, column = lane % 4 * 2;
          sums_.collect_one(value[0], row < kHeight && column < sums_.columns(), part, adds, row, column);
          sums_.collect_one(value[1], row < kHeight && column + 1 < sums_.columns(), part, adds, row, column + 1);
        } else {
          BOREAS_NO_UNROLL
          for (int32_t column = 0; column < sums_.columns(); column += Tile::kPlanRows) {
            Vector here = x.of(column + Tile::loads_row(lane));
            here.address += static_cast<uint32_t>(piece * Pieces::kEach) * x.step;
            const float value = own.multiply(here, x.step, share, lane);
            const int32_t its = column + Tile::ends_with_row(lane);
            sums_.collect_one(value, Tile::has_sum(lane) && its < sums_.columns(), part, adds, lane / 4 % kHeight, its);
          }
        }
      });
      piece += StreamTaker::kPieceStep;
      adds = true;
    } while (Pieces::kCount > StreamTaker::kPieceStep && piece < Pieces::kCount);
  }

  Sums sums_;
  int32_t first_ = 0;   // piece of the item with which the next tile begins
  int32_t before_ = 0;  // bytes of the one before
};

// Streams `units` units of [matrix_rows, kColumns], matrix_rows > 0, and calls flush(first, count, walk) for
// consecutive runs of their rows (numbered through all units), all threads of the consumer together. kRows: what
// matrix_rows always is, if the compiler knows it, else 0; kHeights: what their tiles may have.
template <int32_t kColumns, int32_t kRows, uint32_t kHeights, class C, class Operand, class Flush>
BOREAS_DEVICE void stream_products(Worker<C>& w, StreamTaker& stream, int32_t units, int32_t matrix_rows,
                                   const Operand& x, Flush flush) {
  constexpr bool kUnitFits = unit_fits(kRows);
  TileWalk<kColumns, kUnitFits ? tile_heights(kRows) : kHeights, false, C> walk(w);
  auto& sums = walk.sums();
  int32_t first = 0, unit = 0, left = matrix_rows;
  BOREAS_NO_UNROLL
  while (true) {
    const bool end = unit == units;
    const int32_t height = kUnitFits ? kRows : tile_rows(left);
    if (sums.collected() > 0 && (end || !sums.has_room(height))) {  // the only place: flush is inlined once
      sums.complete();
      flush(first, sums.collected(), walk);
      first += sums.collected();
      sums.end_flush(w);
    }
    if (end) break;
    if constexpr (kUnitFits) {
      walk.template take_unit<kRows>(w, stream, x);
      ++unit;
    } else {
      walk.take(w, stream, height, x);
      left -= height;
      if (left > 0) continue;
      left = matrix_rows;
      ++unit;
    }
  }
  stream.end_item(w.params, w.at, walk.pieces());
}

// B of an expert: the rows that chose it. kStep: bytes from a row to the next one.
template <int32_t kStep, class C>
struct ExpertOperand {
  const Worker<C>& w;
  int32_t parity;
  uint32_t slot, step;
  int32_t first = 0, columns = 0;
  Vector own{};

  BOREAS_DEVICE void begin_expert(int32_t first_choice, int32_t count) {
    first = first_choice, columns = count;
    if (!C::kOneRow) own = of(w.lane() / 4);
  }
  BOREAS_DEVICE Vector of(int32_t column) const {
    const bool present = column < (C::kOneRow ? 1 : columns);
    const int32_t choice = present ? w.sorted_choice(parity, first + column) : 0;
    return {slot + static_cast<uint32_t>(C::kOneRow ? 0 : choice / C::kExpertsPerToken * kStep), present};
  }
  BOREAS_DEVICE Vector of_lane(int32_t lane) const { return C::kOneRow ? of(lane / 4) : own; }
};

// What a flush of experts has: of so many choices, sorted, so many rows of each one's expert; entry i * rows + r is
// choice i, matrix row r of these.
struct RoutedRun {
  int32_t first_choice, choices, first_row, rows;
};

// Of whoever has nothing to do with sorted choices before all are done.
struct NoParts {
  static constexpr int32_t cut = 0;
  BOREAS_DEVICE void end_part(int32_t, int32_t) const {}
};

// The same for the experts that the step's rows chose, [matrix_rows, kColumns] each, times the vectors of those that
// chose them: flush(run, walk) for consecutive runs. x.begin_expert(first, count): the sorted choices that follow.
// parts.end_part(begin, end): these sorted choices have been flushed, by all threads if C has several rows; once for
// the first parts.cut of them or as many as their experts have, if there are more, and once in the end.
template <int32_t kColumns, int32_t kRows, uint32_t kHeights, class C, class Operand, class Parts, class Flush>
BOREAS_DEVICE void stream_experts(Worker<C>& w, StreamTaker& stream, int32_t parity, int32_t matrix_rows, Operand& x,
                                  const Parts& parts, Flush flush) {
  constexpr bool kUnitFits = unit_fits(kRows);
  if (kUnitFits) matrix_rows = kRows;
  TileWalk<kColumns, kUnitFits ? tile_heights(kRows) : kHeights, true, C> walk(w);
  auto& sums = walk.sums();
  const int32_t experts = w.experts_hit(parity);
  const bool whole = kUnitFits || sums.has_room(matrix_rows * w.rows());  // a block is an expert, else a tile
  RoutedRun run{};
  const auto chosen = [&](int32_t index, int32_t begin) {
    return C::kOneRow ? 1 : w.first_sorted(parity, index + 1) - begin;
  };
  int32_t expert = 0, left = matrix_rows, first = 0, columns = chosen(0, 0), part_first = 0;
  BOREAS_NO_UNROLL
  while (true) {
    const bool end = expert == experts;
    if (const int32_t rows = whole ? matrix_rows : tile_rows(left); end || !whole || left == matrix_rows) {
      const bool ends_part = end || (parts.cut > 0 && part_first == 0 && left == matrix_rows && first >= parts.cut);
      // The only place, as above.
      if (sums.collected() > 0 && (ends_part || !whole || !sums.has_room(rows * columns))) {
        sums.complete();
        flush(run, walk);
        sums.end_flush(w);
        run.choices = 0;
      }
      if (ends_part) {
        parts.end_part(part_first, first);
        part_first = first;
      }
      if (end) break;
      if (run.choices == 0) run = {first, 0, matrix_rows - left, rows};
      if (left == matrix_rows) x.begin_expert(first, columns);
      sums.begin_block(rows, columns);
    }
    int32_t height = matrix_rows;
    if constexpr (kUnitFits) {
      walk.template take_unit<kRows>(w, stream, x);
    } else {
      height = tile_rows(left);
      walk.take(w, stream, height, x);
    }
    left -= height;
    if (!whole || left == 0) {
      sums.end_block();
      run.choices += columns;
    }
    if (left > 0) continue;
    left = matrix_rows;
    first += columns;
    ++expert;
    if (expert < experts) columns = chosen(expert, first);
  }
  stream.end_item(w.params, w.at, walk.pieces());
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
