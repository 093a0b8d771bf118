// Operand order: how a row of activations lies in memory when it is the right factor of a prefill product. Weights lie
// as the registers of decode's MMAs (program/weight_tiles.h), so within a block of 32 columns the MMAs take the columns
// in an order of their own; activations follow it. Whoever writes what a product reads (norm, attention, the SwiGLU
// epilogue) puts column `c` of a row at operand_column(c).
#pragma once

#include <cstdint>

#include "program/weight_tiles.h"

namespace boreas::cuda {

// Columns 8 c + e of a block of 32 (c < 4, e < 8): pairs of columns stay together, and a whole pair of e becomes 8
// neighbours: 16 bytes hold columns e and e + 1 of all four c.
constexpr int32_t operand_column(int32_t column) {
  const int32_t in_block = column % kBlockColumns, c = in_block / 8, e = in_block % 8;
  return column - in_block + e / 2 * 8 + 2 * c + e % 2;
}
// Its inverse: the column that lies at `place`.
constexpr int32_t column_of_operand(int32_t place) {
  const int32_t in_block = place % kBlockColumns, pair = in_block / 8, c = in_block % 8 / 2;
  return place - in_block + 8 * c + 2 * pair + place % 2;
}

}  // namespace boreas::cuda
