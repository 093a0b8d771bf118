// Plans become launches: every token once and in order, runs of a sequence side by side, modes and flags where they
// belong, page tables up to date with as few copies as possible.
#include "exec/cuda/step_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <numeric>

#include "base/prng.h"
#include "exec/cpu/blocks.h"
#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/step_bytes.h"

namespace boreas::cuda {
namespace {

std::vector<TokenId> tokens_from(TokenId first, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

StepRow row_of(int32_t slot, int32_t position, std::span<const TokenId> tokens, LogitsWanted logits) {
  StepRow row;
  row.slot = slot;
  row.position = position;
  row.tokens = tokens;
  row.logits = logits;
  return row;
}

TEST(StepBuilder, DecodeRowsShareALaunch) {
  StepPlan plan;
  std::vector<RowChoice> choices(3);
  for (int32_t i = 0; i < 3; ++i) {
    plan.rows.push_back(row_of(i, 100 + i, {}, LogitsWanted::kLast));
    RowChoice& choice = choices[static_cast<size_t>(i)];
    choice.token = i == 1 ? 42 : -1;
    choice.sample = i == 2 ? kSampleHost : kSampleGreedy;
    choice.pages = {10 * i, 10 * i + 5, i};
  }
  const std::vector<LaunchPlan> launches = cut_into_launches(plan, choices);
  ASSERT_EQ(launches.size(), 1u);
  const LaunchPlan& launch = launches[0];
  ASSERT_EQ(launch.rows, 3);
  EXPECT_TRUE(launch.wants_logits);
  for (int32_t i = 0; i < 3; ++i) {
    const RowPlan& row = launch.row[static_cast<size_t>(i)];
    EXPECT_EQ(row.position, 100 + i);
    EXPECT_EQ(row.token, i == 1 ? 42 : -1);
    EXPECT_EQ(row.slot, i);
    EXPECT_EQ(row.group_first, i);
    EXPECT_EQ(row.page_table_full, 10 * i);
    EXPECT_EQ(row.page_table_sliding, 10 * i + 5);
    EXPECT_EQ(row.sliding_first, i);
    EXPECT_EQ(row.sample, i == 2 ? kSampleHost : kSampleGreedy);
    EXPECT_TRUE(launch.use[static_cast<size_t>(i)].samples);
  }
}

TEST(StepBuilder, APrefillBesideDecodeRows) {
  const std::vector<TokenId> prompt = tokens_from(1000, 19);
  StepPlan plan;
  plan.rows.push_back(row_of(4, 70, {}, LogitsWanted::kLast));
  plan.rows.push_back(row_of(2, 5, prompt, LogitsWanted::kLast));
  plan.rows.push_back(row_of(7, 9, {}, LogitsWanted::kLast));
  plan.rows[1].forced_token = 77;
  std::vector<RowChoice> choices(3);
  choices[0].sample = choices[2].sample = kSampleGreedy;
  choices[1].sample = kSampleForced;
  const std::vector<LaunchPlan> launches = cut_into_launches(plan, choices);
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[0].rows, 8);
  EXPECT_EQ(launches[1].rows, 8);
  EXPECT_EQ(launches[2].rows, 5);
  EXPECT_EQ(launches[0].row[7].group_first, 1);
  EXPECT_EQ(launches[1].row[7].group_first, 0);
  EXPECT_EQ(launches[1].row[0].position, 12);
  EXPECT_EQ(launches[1].row[0].token, 1007);
  EXPECT_EQ(launches[2].row[3].sample, kSampleForced);
  EXPECT_EQ(launches[2].row[3].forced_token, 77);
  EXPECT_EQ(launches[2].row[2].sample, kSampleNone);
  EXPECT_EQ(launches[2].row[4].group_first, 4);
  EXPECT_FALSE(launches[2].wants_logits);
}

TEST(StepBuilder, PrefilledTokensAreInNoLaunch) {
  const std::vector<TokenId> first = tokens_from(1000, 19), second = tokens_from(2000, 30);
  StepPlan plan;
  plan.rows.push_back(row_of(2, 5, first, LogitsWanted::kLast));
  plan.rows.push_back(row_of(3, 64, second, LogitsWanted::kNone));
  std::vector<RowChoice> choices(2);
  choices[0].sample = kSampleGreedy;
  choices[0].prefilled = 18;
  choices[1].prefilled = 30;
  const std::vector<LaunchPlan> launches = cut_into_launches(plan, choices);
  ASSERT_EQ(launches.size(), 1u);
  ASSERT_EQ(launches[0].rows, 1);
  EXPECT_EQ(launches[0].row[0].token, 1018);
  EXPECT_EQ(launches[0].row[0].position, 23);
  EXPECT_EQ(launches[0].row[0].sample, kSampleGreedy);
  EXPECT_EQ(launches[0].use[0].token_index, 18);
  plan.rows.erase(plan.rows.begin());
  choices.erase(choices.begin());
  ASSERT_EQ(cut_into_launches(plan, choices).size(), 1u);  // something to wait for
  EXPECT_EQ(cut_into_launches(plan, choices)[0].rows, 0);
}

TEST(StepBuilder, AllLogitsAreScoredButTheLast) {
  const std::vector<TokenId> prompt = tokens_from(0, 5);
  StepPlan plan;
  plan.rows.push_back(row_of(0, 0, prompt, LogitsWanted::kAll));
  std::vector<RowChoice> choices(1);
  choices[0].sample = kSampleGreedy;
  const LaunchPlan launch = cut_into_launches(plan, choices).front();
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(launch.use[i].scores, i < 4);
    EXPECT_EQ(launch.use[i].samples, i == 4);
    EXPECT_EQ(launch.row[i].sample, i < 4 ? kSampleHost : kSampleGreedy);
  }
}

TEST(StepBuilder, EveryTokenOnceInOrder) {
  const uint64_t seed = 7;
  std::cout << "seed " << seed << "\n";
  Prng prng(seed);
  for (int32_t round = 0; round < 200; ++round) {
    StepPlan plan;
    std::vector<std::vector<TokenId>> texts;
    texts.reserve(8);
    for (int32_t slot = 0; slot < static_cast<int32_t>(1 + prng.below(8)); ++slot) {
      texts.push_back(tokens_from(100 * slot, prng.below(3) == 0 ? prng.below(40) : prng.below(2)));
      plan.rows.push_back(row_of(slot, static_cast<int32_t>(prng.below(500)), texts.back(), LogitsWanted::kNone));
    }
    const std::vector<RowChoice> choices(plan.rows.size());
    size_t plan_row = 0;
    int32_t index = 0;
    const std::vector<LaunchPlan> launches = cut_into_launches(plan, choices);
    for (size_t l = 0; l < launches.size(); ++l) {
      const LaunchPlan& launch = launches[l];
      ASSERT_TRUE(launch.rows == kRowsMax || l + 1 == launches.size());
      for (int32_t i = 0; i < launch.rows; ++i) {
        const RowPlan& row = launch.row[static_cast<size_t>(i)];
        const StepRow& source = plan.rows[plan_row];
        ASSERT_EQ(row.slot, source.slot) << "round " << round;
        ASSERT_EQ(row.position, source.position + index);
        ASSERT_EQ(row.group_first, std::max(0, i - index));
        if (++index == std::max<int32_t>(1, static_cast<int32_t>(source.tokens.size()))) {
          ++plan_row;
          index = 0;
        }
      }
    }
    ASSERT_EQ(plan_row, plan.rows.size());
  }
}

TEST(RopeTable, TheCpuExecutorsBits) {
  const ModelConfig config = model_shape("north").value();
  cpu::Block block;
  for (int32_t position : {0, 1, 63, 4095, 4096, 131071, 499999}) {
    block.tokens.push_back(0);
    block.positions.push_back(position);
  }
  cpu::fill_rope(block, config);
  const RopeTable table(config);
  for (size_t row = 0; row < block.positions.size(); ++row) {
    float out[kHeadDim / 2][2];
    table.fill(block.positions[row], out);
    for (size_t i = 0; i < kHeadDim / 2; ++i) {
      EXPECT_EQ(out[i][0], block.rope_cos[row * (kHeadDim / 2) + i]);
      EXPECT_EQ(out[i][1], block.rope_sin[row * (kHeadDim / 2) + i]);
    }
  }
}

class TablesTest : public ::testing::Test {
 protected:
  static constexpr int32_t kWindow = 128, kFull = 16, kSliding = 5;
  TablesTest() : device_({}, {}, log_), tables_(4, kFull, kSliding, kWindow) {
    memory_ = device_.allocate(tables_.bytes(), "tables").value();
    tables_.set_memory(memory_.device);
    for (int32_t i = 0; i < kFull; ++i) pages_.emplace_back(100 + i);
  }
  PageTables::Place update(int32_t slot, int32_t position, std::span<const TokenId> tokens = {}) {
    StepRow row = row_of(slot, position, tokens, LogitsWanted::kNone);
    row.full_pages = pages_;
    row.sliding_pages = std::span(pages_).subspan(static_cast<size_t>(sliding_first_));
    row.sliding_first = sliding_first_;
    const Result<PageTables::Place> place = tables_.update(device_, row);
    CHECK(place.ok() && device_.synchronize().ok());
    return *place;
  }
  int32_t entry(int32_t at) const { return reinterpret_cast<const int32_t*>(memory_.device)[at]; }

  std::shared_ptr<HostDeviceLog> log_ = std::make_shared<HostDeviceLog>();
  HostDevice device_;
  PageTables tables_;
  DeviceMemory memory_;
  std::vector<PageId> pages_;
  int32_t sliding_first_ = 0;
};

TEST_F(TablesTest, PagesOfTheRangeAndTheWindow) {
  const PageTables::Place place = update(2, 300);
  EXPECT_EQ(place.full, 2 * (kFull + kSliding));
  EXPECT_EQ(place.sliding, place.full + kFull);
  EXPECT_EQ(place.sliding_first, (300 - kWindow + 1) / kPagePositions);
  for (int32_t page = 0; page <= 300 / kPagePositions; ++page) EXPECT_EQ(entry(place.full + page), 100 + page);
  EXPECT_EQ(entry(place.full + 5), 0);  // not yet
  for (int32_t page = place.sliding_first; page <= 4; ++page)
    EXPECT_EQ(entry(place.sliding + page - place.sliding_first), 100 + page);
  EXPECT_EQ(entry(0), 0);
}

TEST_F(TablesTest, OnlyChangesAreCopied) {
  update(0, 200);
  const int64_t copies = log_->copies_in;
  for (int32_t position = 201; position < 255; ++position) update(0, position);
  EXPECT_EQ(log_->copies_in, copies);
  log_->bytes_in = 0;
  update(0, 256);  // a page more in the full table, and the window's pages move up
  EXPECT_LE(log_->copies_in, copies + 2);
  EXPECT_LE(log_->bytes_in, 4 * (1 + kSliding));
  pages_[1] = PageId(7);
  log_->bytes_in = 0;
  sliding_first_ = 2;
  const PageTables::Place place = update(0, 257);
  EXPECT_EQ(log_->bytes_in, 4);
  EXPECT_EQ(entry(place.full + 1), 7);
}

TEST_F(TablesTest, AChunkSeesTheWindowOfItsFirstToken) {
  const std::vector<TokenId> tokens(100);
  const PageTables::Place place = update(1, 250, tokens);
  EXPECT_EQ(place.sliding_first, (250 - kWindow + 1) / kPagePositions);
  EXPECT_EQ(entry(place.full + 349 / kPagePositions), 105);
  EXPECT_EQ(entry(place.sliding + 5 - place.sliding_first), 105);
}

TEST(StepBytes, WeightsExpertsAndVisibleRows) {
  const ModelConfig config = model_shape("demo").value();  // 3 full, 6 sliding layers, window 128, 2 KV heads
  StepPlan plan;
  plan.rows.push_back(row_of(0, 999, {}, LogitsWanted::kLast));
  const std::vector<RowChoice> choices(1);
  const LaunchPlan one = cut_into_launches(plan, choices).front();
  const StepBytes bytes(config);
  const int64_t expert = 3 * 64 * 256 * 2, kv = 2 * 2 * 128 * 2;
  EXPECT_EQ(bytes.of(one, 5) - bytes.of(one, 4), expert);
  EXPECT_EQ(bytes.of(one, 0), 0);
  EXPECT_EQ(bytes.of(one, 8 * 16), weight_bytes(config) + 256 * 2 + kv * (3 * 1000 + 6 * 128));
  const std::vector<TokenId> tokens(8);
  plan.rows[0].tokens = tokens;
  plan.rows[0].position = 992;
  const LaunchPlan eight = cut_into_launches(plan, choices).front();
  EXPECT_EQ(bytes.of(eight, 3) - bytes.of(one, 3), 7 * 256 * 2 + kv * 6 * 7);
}

}  // namespace
}  // namespace boreas::cuda
