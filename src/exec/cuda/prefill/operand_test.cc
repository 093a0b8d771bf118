// The operand order is the K order of decode's weight layout.
#include "exec/cuda/prefill/operand.h"

#include <gtest/gtest.h>

#include <set>

namespace boreas::cuda {
namespace {

TEST(OperandOrder, IsAPermutationOfEveryBlockWithItsInverse) {
  std::set<int32_t> places;
  for (int32_t column = 64; column < 96; ++column) {
    const int32_t place = operand_column(column);
    EXPECT_EQ(column_of_operand(place), column);
    EXPECT_EQ(place / kBlockColumns, 2);
    places.insert(place);
  }
  EXPECT_EQ(places.size(), size_t{kBlockColumns});
}

// Lane 4 g + c of an MMA has pairs of k 2 c and 2 c + 8 of row g; a tall tile's bytes are those registers.
TEST(OperandOrder, FollowsTheRegistersOfATallTile) {
  for (int32_t column = 0; column < kBlockColumns; ++column) {
    const int32_t offset = element_in_block(kTileRowsMax, 0, column);
    const int32_t mma = offset / 512, c = offset % 512 / 16, word = offset % 16 / 4;  // row 0: words 0 and 2
    EXPECT_EQ(operand_column(column), 16 * mma + 2 * c + word / 2 * 8 + offset % 4 / 2) << column;
  }
}
// Of a short tile a lane has columns 8 c .. 8 c + 7 in four words, as pairs 0, 2, 1, 3: even words are of the first
// MMA.
TEST(OperandOrder, FollowsTheWordsOfAShortTile) {
  for (int32_t column = 0; column < kBlockColumns; ++column) {
    const int32_t offset = element_in_block(1, 0, column), c = offset / 16, word = offset % 16 / 4;
    EXPECT_EQ(operand_column(column), word % 2 * 16 + 2 * c + word / 2 * 8 + offset % 4 / 2) << column;
  }
}

}  // namespace
}  // namespace boreas::cuda
