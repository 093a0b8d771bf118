// Every token meets every row of W exactly once, whatever the groups' sizes.
#include "exec/cuda/prefill/gemm_schedule.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace boreas::cuda {
namespace {

std::unique_ptr<GemmSchedule> schedule_of(const std::vector<int32_t>& tokens, int32_t width) {
  auto schedule = std::make_unique<GemmSchedule>();
  const int32_t groups = static_cast<int32_t>(tokens.size());
  std::partial_sum(tokens.begin(), tokens.end(), schedule->first + 1);
  schedule->first[0] = 0;
  for (int32_t group = 0; group < groups; ++group) cut_group(*schedule, group, width);
  for (int32_t group = groups - 1; group >= 0; --group) place_group(*schedule, groups, group);
  return schedule;
}

void expect_all_once(const std::vector<int32_t>& tokens, int32_t width, int32_t row_tiles) {
  const int32_t groups = static_cast<int32_t>(tokens.size());
  const auto schedule = schedule_of(tokens, width);
  const int32_t rows = std::accumulate(tokens.begin(), tokens.end(), 0),
                count = work_count(*schedule, groups, row_tiles);
  std::vector<int32_t> seen(static_cast<size_t>(rows * row_tiles));
  int32_t width_before = width / kGemmWidthStep;
  for (int32_t index = 0; index < count; ++index) {
    const GemmWork work = work_at(*schedule, groups, row_tiles, width, index);
    ASSERT_GT(work.tokens, 0);
    ASSERT_LE(work.tokens, work.width * kGemmWidthStep);
    ASSERT_GT(work.tokens, (work.width - 1) * kGemmWidthStep) << "wider than it need be";
    ASSERT_LE(work.width, width_before) << "widest first";
    width_before = work.width;
    ASSERT_GE(work.row, schedule->first[work.group]);
    ASSERT_LE(work.row + work.tokens, schedule->first[work.group + 1]);
    ASSERT_GE(work.row_tile, 0);
    ASSERT_LT(work.row_tile, row_tiles);
    for (int32_t row = work.row; row < work.row + work.tokens; ++row)
      ++seen[static_cast<size_t>(row * row_tiles + work.row_tile)];
  }
  for (int32_t times : seen) ASSERT_EQ(times, 1);
}

TEST(GemmSchedule, OneGroupOfAnyLength) {
  for (int32_t width : {64, 128, 192, 256})
    for (int32_t tokens : {1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 300, 2048, 2049, 4097, 8192})
      for (int32_t row_tiles : {1, 3, 16, 40}) expect_all_once({tokens}, width, row_tiles);
}

TEST(GemmSchedule, GroupsOfRandomLengthManyOfThemEmpty) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int32_t round = 0; round < 60; ++round) {
    std::vector<int32_t> tokens(1 + random() % kGemmGroupsMax);
    const uint32_t most = 1u << random() % 11;
    for (int32_t& count : tokens) count = random() % 3 == 0 ? 0 : static_cast<int32_t>(random() % most);
    if (round == 0) tokens.assign(kGemmGroupsMax, 0);
    expect_all_once(tokens, kGemmWidthMax, 1 + static_cast<int32_t>(random() % 16));
  }
}

TEST(GemmSchedule, AllTokensInOneExpert) {
  std::vector<int32_t> tokens(kGemmGroupsMax);
  tokens[77] = 8192;
  expect_all_once(tokens, kGemmWidthMax, 12);
}

// 16 tiles of rows: 256 tokens fill 64 blocks at most, so narrow tiles take half the time.
TEST(GemmSchedule, WidthFillsTheMachine) {
  EXPECT_EQ(gemm_width(8192, 40, 132), 256);
  EXPECT_EQ(gemm_width(8192, 16, 132), 256);
  EXPECT_EQ(gemm_width(64, 16, 132), 64);
  EXPECT_EQ(gemm_width(512, 16, 132), 64);
}

}  // namespace
}  // namespace boreas::cuda
