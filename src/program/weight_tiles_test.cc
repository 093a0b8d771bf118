// Every element of a unit has its own place, pieces are contiguous runs in order, and full chunks hold no padding.
#include "program/weight_tiles.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace boreas {
namespace {

// A walk over the pieces of one unit, tile by tile: what piece_place() and unit_pieces() say in closed form.
struct PieceWalk {
  int32_t rows = 0;         // of the unit
  int32_t blocks = 0;       // of a row
  int32_t tile_first = 0;   // first row of the tile
  int32_t tile_count = 0;   // its rows
  int32_t block_first = 0;  // of the piece
  int32_t block_count = 0;

  constexpr PieceWalk(int32_t unit_rows, int32_t columns)
      : rows(unit_rows), blocks(blocks_of_columns(columns)), tile_count(tile_rows(unit_rows)) {
    set_block_count();
  }
  constexpr bool done() const { return tile_first >= rows; }
  constexpr bool last_of_tile() const { return block_first + block_count == blocks; }
  constexpr int32_t bytes() const { return tile_count * block_count * kBlockRowBytes; }
  constexpr void advance() {
    block_first += block_count;
    if (block_first == blocks) {
      tile_first += tile_count;
      tile_count = tile_rows(rows - tile_first);
      block_first = 0;
    }
    set_block_count();
  }

 private:
  constexpr void set_block_count() {
    const int32_t most = blocks_per_piece(tile_count), left = blocks - block_first;
    block_count = left < most ? left : most;
  }
};

TEST(WeightTiles, PiecesAreContiguousRunsThatCoverTheUnitOnce) {
  for (int32_t rows : {1, 2, 3, 5, 8, 12, 13, 16, 31, 40}) {
    for (int32_t columns : {32, 64, 96, 768, 2048, 4096}) {
      int64_t offset = 0;
      int32_t pieces = 0;
      std::vector<bool> seen(static_cast<size_t>(rows) * static_cast<size_t>(columns));
      for (PieceWalk piece(rows, columns); !piece.done(); piece.advance(), ++pieces) {
        ASSERT_LE(piece.bytes(), kPieceBytes);
        ASSERT_GT(piece.bytes(), 0);
        ASSERT_EQ(piece_place(rows, columns, pieces).offset, offset);
        ASSERT_EQ(piece_place(rows, columns, pieces).bytes, piece.bytes());
        for (int32_t row = piece.tile_first; row < piece.tile_first + piece.tile_count; ++row) {
          for (int32_t i = 0; i < piece.block_count * kBlockColumns; ++i) {
            const int32_t column = piece.block_first * kBlockColumns + i;
            const int64_t at = unit_element_offset(rows, columns, row, column);
            ASSERT_GE(at, offset);
            ASSERT_LT(at, offset + piece.bytes());
            ASSERT_FALSE(seen[static_cast<size_t>(at / 2)]) << rows << "x" << columns << " " << row << "," << column;
            seen[static_cast<size_t>(at / 2)] = true;
          }
        }
        offset += piece.bytes();
      }
      EXPECT_EQ(pieces, unit_pieces(rows, columns));
      EXPECT_EQ(offset, int64_t{rows} * columns * 2);
    }
  }
}

// The tuned case: North on 128 workers. Full chunks but for the router's row.
TEST(WeightTiles, NorthStreamsWholeChunks) {
  EXPECT_EQ(unit_pieces(40, 2048), 20);      // q, k and v
  EXPECT_EQ(unit_pieces(12, 2048), 6);       // gate and up of an expert
  EXPECT_EQ(unit_pieces(16, 4096), 16);      // O
  EXPECT_EQ(unit_pieces(16, 768), 3);        // down of an expert: two experts share a chunk
  EXPECT_EQ(unit_pieces(2048, 2048), 1024);  // LM head
  EXPECT_EQ(unit_pieces(1, 2048), 2);        // router: one chunk for the four warps of a group
  EXPECT_EQ(chunks_of_pieces(8 * 3), 12);
}

TEST(WeightTiles, KvPagePlacesAreDistinct) {
  std::set<int32_t> places;
  for (int32_t position = 0; position < kLayoutPagePositions; ++position) {
    for (int32_t dim = 0; dim < kKvHeadDim; ++dim) {
      places.insert(k_offset(position, dim));
      places.insert(v_offset(position, dim));
    }
  }
  EXPECT_EQ(places.size(), size_t{2} * kLayoutPagePositions * kKvHeadDim);
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), kKvPageHeadBytes - 2);
}

}  // namespace
}  // namespace boreas
