#include "engine/batcher.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/prng.h"

namespace boreas {
namespace {

BatchCandidate prefill(int32_t left, int32_t tokens_max = 1000) { return {false, left, left, tokens_max}; }
BatchCandidate decode() { return {true, 0, 0, 0}; }

TEST(Batcher, NoPromptIsCutIntoRangesOfOne) {
  for (int32_t left = 1; left <= 200; ++left) {
    for (int32_t limit = 0; limit <= 210; ++limit) {
      const int32_t taken = chunk_tokens(left, limit);
      ASSERT_GE(taken, 0);
      ASSERT_LE(taken, std::min(left, limit));
      ASSERT_TRUE(left == 1 || (taken != 1 && left - taken != 1)) << left << " " << limit;
      ASSERT_TRUE(taken > 0 || (limit < 3 && limit < left)) << left << " " << limit;
    }
  }
}

TEST(Batcher, DecodesComeFirst) {
  const std::vector<BatchCandidate> candidates = {prefill(100), decode(), prefill(5), decode(), decode()};
  EXPECT_EQ(pick_rows(candidates, {20, 8, 20, 64}), (std::vector<int32_t>{12, 1, 5, 1, 1}));
  EXPECT_EQ(pick_rows(candidates, {20, 3, 20, 64}), (std::vector<int32_t>{0, 1, 0, 1, 1}));
  EXPECT_EQ(pick_rows(candidates, {3, 8, 3, 64}), (std::vector<int32_t>{0, 1, 0, 1, 1}));
}

TEST(Batcher, TheOldestPrefillKeepsHalf) {
  const std::vector<BatchCandidate> candidates = {prefill(1000), prefill(900), prefill(20), prefill(30)};
  EXPECT_EQ(pick_rows(candidates, {100, 8, 100, 64}), (std::vector<int32_t>{50, 0, 20, 30}));
  EXPECT_EQ(pick_rows(candidates, {200, 8, 200, 64}), (std::vector<int32_t>{100, 50, 20, 30}));
  EXPECT_EQ(pick_rows(candidates, {200, 2, 200, 64}), (std::vector<int32_t>{100, 0, 20, 0}));
}

TEST(Batcher, ScoredPromptsShareTheirBudget) {
  const auto scored = [](int32_t left) { return BatchCandidate{false, left, left, 1000, true}; };
  EXPECT_EQ(pick_rows(std::vector{scored(1000)}, {500, 8, 500, 64}), (std::vector<int32_t>{64}));
  EXPECT_EQ(pick_rows(std::vector{scored(1000), scored(20), prefill(100)}, {500, 8, 500, 64}),
            (std::vector<int32_t>{32, 20, 100}));
  EXPECT_EQ(pick_rows(std::vector{prefill(1000), scored(300)}, {500, 8, 500, 64}), (std::vector<int32_t>{250, 64}));
}

TEST(Batcher, PrefillStaysInItsOwnBudget) {
  const std::vector<BatchCandidate> candidates = {decode(), prefill(1000), prefill(30)};
  EXPECT_EQ(pick_rows(candidates, {500, 8, 100, 64}), (std::vector<int32_t>{1, 70, 30}));
}

TEST(Batcher, StaysInItsBudgetAndMoves) {
  const uint64_t seed = 4;
  Prng prng(seed);
  for (int i = 0; i < 20000; ++i) {
    std::vector<BatchCandidate> candidates(1 + prng.below(12));
    int32_t singles = 0;
    for (BatchCandidate& candidate : candidates) {
      candidate = prng.below(2) == 0 ? decode() : prefill(1 + static_cast<int32_t>(prng.below(300)), 64);
      singles += candidate.single;
    }
    const int32_t tokens = singles + 3 + static_cast<int32_t>(prng.below(200));
    const int32_t rows = static_cast<int32_t>(candidates.size());
    const auto picked = pick_rows(candidates, {tokens, rows, tokens, 64});
    ASSERT_LE(std::accumulate(picked.begin(), picked.end(), 0), tokens) << "seed " << seed << " case " << i;
    bool first = true;
    for (size_t k = 0; k < candidates.size(); ++k) {
      if (candidates[k].single) {
        ASSERT_EQ(picked[k], 1);
      } else if (first) {
        ASSERT_GT(picked[k], 0);  // the oldest prefill always moves
        first = false;
      }
    }
  }
}

}  // namespace
}  // namespace boreas
