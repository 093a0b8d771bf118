#include "engine/limits.h"

#include <gtest/gtest.h>

namespace boreas {
namespace {

ExecutorInfo info_of(int32_t pages_full, int32_t pages_sliding, int32_t window) {
  ExecutorInfo info;
  info.vocab_size = 100;
  info.context_max = 1 << 18;
  info.window = window;
  info.sequence_slots = 64;
  info.rows_max = 64;
  info.tokens_max = 2048;
  info.pages_full = pages_full;
  info.pages_sliding = pages_sliding;
  info.page_bytes_full = 1;
  info.page_bytes_sliding = window > 0 ? 1 : 0;
  return info;
}

TEST(Limits, TheContextIsNoLongerThanThePagesOfOneSequence) {
  EXPECT_EQ(make_limits(info_of(10, 100, 128), {}).context_max, 640);
  EXPECT_EQ(make_limits(info_of(1 << 20, 100, 128), {}).context_max, 1 << 18);
  EngineOptions options;
  options.context_max = 1000;
  EXPECT_EQ(make_limits(info_of(1 << 20, 100, 128), options).context_max, 1000);
  EXPECT_EQ(make_limits(info_of(10, 100, 128), options).context_max, 640);
}

// A window of 128 and a chunk of 3 touch up to 4 pages; with fewer, no window is ever complete.
TEST(Limits, TooFewSlidingPagesForAWindowLimitTheContext) {
  EXPECT_EQ(make_limits(info_of(1000, 4, 128), {}).context_max, 64000);
  EXPECT_EQ(make_limits(info_of(1000, 3, 128), {}).context_max, 192);
}

// 64 positions a page: more than 2^25 pages are more positions than an int32_t counts.
TEST(Limits, ManyPagesDoNotOverflow) {
  for (const int32_t pages : {1 << 25, (1 << 25) + 1, 1 << 26, INT32_MAX}) {
    EXPECT_EQ(make_limits(info_of(pages, 100, 128), {}).context_max, 1 << 18) << pages;
    EXPECT_EQ(make_limits(info_of(pages, 100, 0), {}).context_max, 1 << 18) << pages;
  }
  ExecutorInfo info = info_of(INT32_MAX, INT32_MAX, INT32_MAX);  // a window that no number of pages completes
  info.context_max = INT32_MAX;
  EXPECT_EQ(make_limits(info, {}).context_max, INT32_MAX);
}

TEST(Limits, WithoutFullAttentionLayersThereArePagesToCountBy) {
  for (const int32_t wanted : {0, 1000}) {
    ExecutorInfo info = info_of(0, 300, 128);
    info.page_bytes_full = 0;
    EngineOptions options;
    options.context_max = wanted;
    const EngineLimits limits = make_limits(info, options);
    EXPECT_EQ(limits.context_max, wanted > 0 ? wanted : 1 << 18);
    EXPECT_EQ(limits.pages_full, (limits.context_max + kPagePositions - 1) / kPagePositions * 64);
    info.context_max = INT32_MAX;
    EXPECT_GE(int64_t{make_limits(info, {}).pages_full} * kPagePositions, INT32_MAX);  // one sequence always fits
  }
}

}  // namespace
}  // namespace boreas
