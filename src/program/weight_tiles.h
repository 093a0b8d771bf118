// The order in which streamed memory lies: weights as a worker's MMA warps take them, KV pages likewise. Constexpr
// integer math that placement (chunks of an item), the re-laying of weights, and the kernel share.
//
// A unit is what one task streams of one matrix (or of one expert): R rows of K columns. Its rows are cut into tiles of
// 16, the rest into 8, 4, 2 and 1, so that full chunks hold no padding; columns into blocks of 32. A tile of r rows:
//
//   block 0                      block 1                            one block: r * 64 bytes
//   row 0: columns 0..31 (64 B)  row 0: columns 32..63              lane 4 g + c of a warp loads 16 bytes of row g:
//   row 1: columns 0..31         row 1: columns 32..63              columns 8 c .. 8 c + 7, as pairs 0, 2, 1, 3:
//   ...                          ...                                an MMA's registers (exec/cuda/products.cuh)
//
// In a tile of 16 rows a lane has rows g and g + 8, so 16 pairs of columns in a block; they lie as the registers of its
// two MMAs want them, which then are loaded by one access each (element_in_block):
//
//   lane's bytes      0..3                  4..7           8..11                 12..15
//   first 512 bytes   row g, 8 c and + 1    row g + 8      row g, 8 c + 2, + 3   row g + 8
//   the others        row g, 8 c + 4, + 5   row g + 8      row g, 8 c + 6, + 7   row g + 8
//
// A piece is a run of blocks of one tile, at most kPieceBytes; pieces follow each other tile by tile. A ring chunk is
// two consecutive pieces of an item, which may belong to two units (two experts): then it takes two copies.
#pragma once

#include <cstdint>

#include "program/layout.h"

namespace boreas {

constexpr int32_t kBlockColumns = 32;
constexpr int32_t kBlockRowBytes = 64;  // 32 bf16
constexpr int32_t kPieceBytes = 8192;
constexpr int32_t kPiecesPerChunk = 2;
constexpr int32_t kStreamChunkBytes = kPieceBytes * kPiecesPerChunk;
constexpr int32_t kTileRowsMax = 16;

// Rows of the tile that starts where `rows_left` rows are left, at least 1.
constexpr int32_t tile_rows(int32_t rows_left) {
  return rows_left >= 16 ? 16 : rows_left >= 8 ? 8 : rows_left >= 4 ? 4 : rows_left >= 2 ? 2 : 1;
}
constexpr int32_t blocks_of_columns(int32_t columns) { return ceil_div_32(columns, kBlockColumns); }
// At most 32: the few rows of a router's slice still make a chunk for all warps of a consumer group.
constexpr int32_t blocks_per_piece(int32_t rows_of_tile) {
  static_assert(kPieceBytes == 128 * kBlockRowBytes);
  return rows_of_tile == 16 ? 8 : rows_of_tile == 8 ? 16 : 32;
}
constexpr int32_t piece_bytes(int32_t rows_of_tile) {
  return blocks_per_piece(rows_of_tile) * rows_of_tile * kBlockRowBytes;
}
constexpr int32_t tile_pieces(int32_t rows_of_tile, int32_t columns) {
  return ceil_div_32(blocks_of_columns(columns), blocks_per_piece(rows_of_tile));
}
constexpr int32_t unit_pieces(int32_t rows, int32_t columns) {
  int32_t pieces = rows / kTileRowsMax * tile_pieces(kTileRowsMax, columns);
  for (int32_t left = rows % kTileRowsMax; left > 0; left -= tile_rows(left))
    pieces += tile_pieces(tile_rows(left), columns);
  return pieces;
}
constexpr int64_t chunks_of_pieces(int64_t pieces) { return ceil_div(pieces, kPiecesPerChunk); }
constexpr int32_t chunks_of_pieces(int32_t pieces) { return ceil_div_32(pieces, kPiecesPerChunk); }

// Byte offset of a pair of columns (2 * pair, 2 * pair + 1 of a block) from the row's first one.
constexpr int32_t pair_in_row(bool tall_tile, int32_t pair) {
  return tall_tile ? pair / 4 * 16 + pair % 4 / 2 * 512 + pair % 2 * 8
                   : pair / 4 * 16 + pair % 2 * 8 + pair % 4 / 2 * 4;
}
// Byte offset of an element in its block; row of the tile, column of the block.
constexpr int32_t element_in_block(int32_t rows_of_tile, int32_t row, int32_t column) {
  const bool tall = rows_of_tile == kTileRowsMax;
  const int32_t row_first = tall ? row % 8 * kBlockRowBytes + row / 8 * 4 : row * kBlockRowBytes;
  return row_first + pair_in_row(tall, column / 2) + column % 2 * 2;
}

// Byte offset of an element in its unit. `columns` is a multiple of kBlockColumns.
constexpr int64_t unit_element_offset(int32_t rows, int32_t columns, int32_t row, int32_t column) {
  const int32_t whole = rows / kTileRowsMax * kTileRowsMax;
  int32_t tile = row < whole ? row / kTileRowsMax * kTileRowsMax : whole;
  int32_t rows_of_tile = kTileRowsMax;
  if (row >= whole) {
    rows_of_tile = tile_rows(rows - tile);
    while (row >= tile + rows_of_tile) {
      tile += rows_of_tile;
      rows_of_tile = tile_rows(rows - tile);
    }
  }
  const int64_t block = column / kBlockColumns;
  return int64_t{tile} * columns * 2 + block * rows_of_tile * kBlockRowBytes +
         element_in_block(rows_of_tile, row - tile, column % kBlockColumns);
}

// Where piece `index` of a unit lies in it, in bytes. Pieces of a unit are contiguous.
struct PiecePlace {
  int64_t offset = 0;
  int32_t bytes = 0;
};
constexpr PiecePlace piece_place(int32_t rows, int32_t columns, int32_t index) {
  const int32_t blocks = blocks_of_columns(columns);
  int32_t tile = 0, height = kTileRowsMax;
  const int32_t whole = rows / kTileRowsMax, pieces = tile_pieces(kTileRowsMax, columns);
  if (index < whole * pieces) {
    tile = index / pieces * kTileRowsMax;
    index %= pieces;
  } else {
    index -= whole * pieces;
    tile = whole * kTileRowsMax;
    height = tile_rows(rows - tile);
    while (index >= tile_pieces(height, columns)) {
      index -= tile_pieces(height, columns);
      tile += height;
      height = tile_rows(rows - tile);
    }
  }
  const int32_t first = index * blocks_per_piece(height), left = blocks - first;
  const int32_t count = left < blocks_per_piece(height) ? left : blocks_per_piece(height);
  return {(int64_t{tile} * blocks + int64_t{first} * height) * kBlockRowBytes, count * height * kBlockRowBytes};
}

// ---- KV pages of one layer and KV head, head_dim 128: two halves of 32 positions, each one chunk:
//   K of 32 positions: a unit of 32 rows (positions) and 128 columns: 2 tiles of 16 rows     8 KB = one piece
//   V of 32 positions, transposed: 128 rows (dims) of 64 bytes: 8 tiles of 16 rows            8 KB = one piece
// Inside a V row the positions are permuted so that the softmax probabilities, as the score MMA leaves them in
// registers, are the B operand of the next MMA: position 8 q + 2 c + e lies at 8 c + 2 q + e.
constexpr int32_t kKvHeadDim = 128;
constexpr int32_t kKvHalfPositions = 32;
constexpr int32_t kKvHalfBytes = kStreamChunkBytes;
constexpr int32_t kKvPagePieces = 4;
constexpr int32_t kKvPageHeadBytes = 2 * kKvHalfBytes;  // of one layer and head

constexpr int32_t v_column(int32_t position) { return position % 8 / 2 * 8 + position / 8 * 2 + position % 2; }
// Byte offsets in the layer and head's part of a page; position in the page.
constexpr int32_t k_offset(int32_t position, int32_t dim) {
  return position / kKvHalfPositions * kKvHalfBytes +
         static_cast<int32_t>(unit_element_offset(kKvHalfPositions, kKvHeadDim, position % kKvHalfPositions, dim));
}
constexpr int32_t v_offset(int32_t position, int32_t dim) {
  return position / kKvHalfPositions * kKvHalfBytes + kPieceBytes +
         dim / kTileRowsMax * (kTileRowsMax * kBlockRowBytes) +
         element_in_block(kTileRowsMax, dim % kTileRowsMax, v_column(position % kKvHalfPositions));
}

}  // namespace boreas
