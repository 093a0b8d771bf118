#include "program/layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace boreas {
namespace {

TEST(Layout, SlicesCoverExactlyForAnyNumberOfParts) {
  for (int32_t granule : {1, 2, 8}) {
    for (int32_t units = 0; units <= 40; ++units) {
      for (int32_t parts = 1; parts <= 50; ++parts) {
        int32_t next = 0, least = INT32_MAX, most = 0;
        for (int32_t index = 0; index < parts; ++index) {
          const Range part = slice(units * granule, parts, index, granule);
          ASSERT_EQ(part.first, next);
          ASSERT_GE(part.count, 0);
          ASSERT_EQ(part.count % granule, 0);
          next = part.end();
          least = std::min(least, part.count);
          most = std::max(most, part.count);
        }
        ASSERT_EQ(next, units * granule);
        ASSERT_LE(most - least, granule) << "near-equal";
      }
    }
  }
}

TEST(Layout, SlicesOfLargeMatricesDoNotOverflow) {
  int32_t next = 0;
  for (int32_t index = 0; index < 1000; ++index) {
    const Range part = slice(INT32_MAX, 1000, index);
    ASSERT_EQ(part.first, next);
    next = part.end();
  }
  EXPECT_EQ(next, INT32_MAX);
}

TEST(Layout, EveryHeadHasItsGroupAndEveryWorkerItsHeads) {
  for (int32_t workers = 1; workers <= 70; ++workers) {
    for (int32_t kv_heads = 1; kv_heads <= 33; ++kv_heads) {
      std::vector<int32_t> served(static_cast<size_t>(kv_heads), 0);
      int32_t next_head = 0;
      for (int32_t worker = 0; worker < workers; ++worker) {
        const Range heads = heads_of_worker(workers, kv_heads, worker);
        for (int32_t head = heads.first; head < heads.end(); ++head) {
          const Range group = head_group(workers, kv_heads, head);
          ASSERT_TRUE(worker >= group.first && worker < group.end());
          ++served[static_cast<size_t>(head)];
        }
        ASSERT_GE(heads.count, 1) << workers << " workers, " << kv_heads << " heads, worker " << worker;
        ASSERT_TRUE(heads.count == 1 || heads.first == next_head) << "several heads are served by one worker alone";
        next_head = heads.end();
      }
      ASSERT_EQ(next_head, kv_heads);
      for (int32_t head = 0; head < kv_heads; ++head)
        ASSERT_EQ(served[static_cast<size_t>(head)], head_group(workers, kv_heads, head).count);
    }
  }
}

TEST(Layout, PiecesOfAGroupAreAllPiecesOnce) {
  for (int32_t group = 1; group <= 80; ++group) {
    int32_t next = 0;
    for (int32_t index = 0; index < group; ++index) {
      const Range pieces = pieces_of_worker(group, index);
      ASSERT_TRUE(pieces.count == 0 || pieces.first == next);
      next += pieces.count;
    }
    ASSERT_EQ(next, kAttentionPieces);
  }
  EXPECT_EQ(pieces_of_worker(32, 17), (Range{17, 1})) << "the tuned case: a piece a worker";
}

TEST(Layout, APieceHasPagesExactlyWhereAPageIsCongruent) {
  for (int32_t first = 0; first < 70; ++first) {
    for (int32_t last = first; last < first + 70; ++last) {
      for (int32_t piece = 0; piece < kAttentionPieces; ++piece) {
        bool expected = false;
        for (int32_t page = first; page <= last; ++page) expected = expected || page % kAttentionPieces == piece;
        ASSERT_EQ(piece_has_pages(piece, first, last), expected) << piece << " in " << first << ".." << last;
      }
    }
  }
}

TEST(Layout, TheWindowCountsTheQueryItself) {
  EXPECT_EQ(first_visible(0, true, 16), 0);
  EXPECT_EQ(first_visible(15, true, 16), 0);
  EXPECT_EQ(first_visible(16, true, 16), 1);
  EXPECT_EQ(first_visible(1000, true, 16), 985);
  EXPECT_EQ(first_visible(1000, false, 16), 0);
}

}  // namespace
}  // namespace boreas
