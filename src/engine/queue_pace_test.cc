#include "engine/queue_pace.h"

#include <gtest/gtest.h>

namespace boreas {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(QueuePace, ABusyQueueIsLeftAtItsOwnPace) {
  QueuePace pace;
  int64_t left = 0;
  // 4 a second.
  for (int64_t tick = 0; tick <= 4000; ++tick) pace.observe(tick * kSecondNs / 4, true, left++);
  const int64_t now_ns = 1000 * kSecondNs;
  EXPECT_NEAR(static_cast<double>(pace.retry_after_ms(now_ns, 39)), 10'000, 500);
  EXPECT_NEAR(static_cast<double>(pace.retry_after_ms(now_ns, 79)), 20'000, 1'000);
  EXPECT_EQ(pace.retry_after_ms(now_ns, 0), QueuePace::kRetryMsMin);
  EXPECT_EQ(pace.retry_after_ms(now_ns, 1000), QueuePace::kRetryMsMax);
}

TEST(QueuePace, ANewPaceReplacesTheOldOneWithinAWindow) {
  QueuePace pace;
  int64_t now_ns = 0, left = 0;
  for (int i = 0; i < 10000; ++i) pace.observe(now_ns += kSecondNs / 100, true, ++left);
  EXPECT_EQ(pace.retry_after_ms(now_ns, 49), QueuePace::kRetryMsMin);
  for (int i = 0; i < 31; ++i) pace.observe(now_ns += kSecondNs, true, ++left);
  EXPECT_NEAR(static_cast<double>(pace.retry_after_ms(now_ns, 49)), 50'000, 4'000);
}

// Nobody has left yet: not sooner than the one at hand has lasted.
TEST(QueuePace, AQueueThatDoesNotMoveIsWaitedForLongerAndLonger) {
  QueuePace pace;
  pace.observe(0, true, 0);
  EXPECT_EQ(pace.retry_after_ms(kSecondNs / 10, 0), 1'000);
  EXPECT_EQ(pace.retry_after_ms(5 * kSecondNs, 0), 5'000);
  EXPECT_EQ(pace.retry_after_ms(5 * kSecondNs, 3), 20'000);
  EXPECT_EQ(pace.retry_after_ms(500 * kSecondNs, 0), 60'000);
}

// An idle day before, and the requests that found a place at once, do not count.
TEST(QueuePace, TheQueueBeginsWhenAllPlacesAreTaken) {
  QueuePace pace;
  int64_t now_ns = 0, left = 0;
  for (; left < 64; ++left) pace.observe(now_ns += kSecondNs / 1000, false, left);
  now_ns += 86400 * kSecondNs;
  pace.observe(now_ns, false, left);
  pace.observe(now_ns, true, left);
  for (int i = 0; i < 4; ++i) pace.observe(now_ns += 2 * kSecondNs, true, ++left);
  EXPECT_EQ(pace.retry_after_ms(now_ns, 9), 10 * 8'000 / 5);
}

// Nothing is observed while there is nothing to do; the queue may fill before the first step is over.
TEST(QueuePace, ABurstAfterAnIdleHourDoesNotWaitForIt) {
  QueuePace pace;
  pace.observe(kSecondNs, false, 7);
  pace.begin(3600 * kSecondNs);
  EXPECT_EQ(pace.retry_after_ms(3600 * kSecondNs + kSecondNs / 100, 6), QueuePace::kRetryMsMin);
  EXPECT_EQ(pace.retry_after_ms(3602 * kSecondNs, 6), 14'000);
}

TEST(QueuePace, ExtremesStayWithinTheLimits) {
  QueuePace pace;
  EXPECT_EQ(pace.retry_after_ms(0, 0), 1'000);
  EXPECT_EQ(pace.retry_after_ms(INT64_MAX, INT32_MAX), 60'000);
  pace.observe(kSecondNs, true, INT32_MAX);
  EXPECT_EQ(pace.retry_after_ms(0, INT32_MAX), 1'000);  // a clock that another thread read a little earlier
}

}  // namespace
}  // namespace boreas
