// The figures that deadlines.h promises.
#include "exec/cuda/deadlines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "program/device_spec.h"

namespace boreas::cuda {
namespace {

using namespace std::chrono_literals;

Deadlines on_h200(const std::string& shape, double scale = 1) {
  return {model_shape(shape).value(), h200_spec().read_bytes_per_s, 8192, scale};
}

// Rows of different sequences.
LaunchPlan rows_at(int32_t rows, int32_t context) {
  LaunchPlan launch;
  launch.rows = rows;
  for (int32_t row = 0; row < rows; ++row) {
    launch.row[static_cast<size_t>(row)].position = context - 1;
    launch.row[static_cast<size_t>(row)].group_first = row;
  }
  return launch;
}

double ms(Deadlines::Time time) { return static_cast<double>(time.count()) * 1e-6; }

TEST(Deadlines, OfNorthAsTheHeaderSays) {
  const Deadlines deadlines = on_h200("north");
  EXPECT_EQ(ms(deadlines.of_hop_wait(rows_at(1, 8192))), 100);
  EXPECT_EQ(ms(deadlines.of_launch(rows_at(1, 8192))), 500);
  EXPECT_NEAR(ms(deadlines.of_hop_wait(rows_at(8, 262144))), 378, 5);
  EXPECT_NEAR(ms(deadlines.of_launch(rows_at(8, 262144))), 1200, 1);
  EXPECT_NEAR(ms(deadlines.of_hop_wait(rows_at(8, 387072))), 488, 5);
  EXPECT_EQ(ms(deadlines.of_launch(rows_at(8, 387072))), 1200);
}

// Whatever a step is: the kernel has its say about hops before the host gives up, and what is right is far from either.
TEST(Deadlines, HopsComeFirstAndTheProcessEndsWithinTwoSeconds) {
  const Deadlines deadlines = on_h200("north");
  const StepBytes bytes(model_shape("north").value());
  for (const int32_t rows : {1, 2, 5, 8}) {
    for (const int32_t context : {1, 8192, 131072, 262144, 387072}) {
      const LaunchPlan launch = rows_at(rows, context);
      const double predicted_ms = static_cast<double>(bytes.most(launch)) / h200_spec().read_bytes_per_s * 1e3;
      EXPECT_GE(ms(deadlines.of_hop_wait(launch)), 19.9 * predicted_ms);
      EXPECT_GE(deadlines.of_hop_wait(launch), 100ms);
      EXPECT_GE(deadlines.of_launch(launch), 2 * deadlines.of_hop_wait(launch));
      EXPECT_LE(deadlines.of_launch(launch), 1200ms) << rows << " rows at " << context;
    }
  }
}

TEST(Deadlines, SmallShapesAndLaunchesWithoutRowsHaveTheShortest) {
  EXPECT_EQ(on_h200("demo").of_hop_wait(rows_at(8, 65536)), 100ms);
  EXPECT_EQ(on_h200("north").of_hop_wait({}), 100ms);
  const Deadlines unknown(model_shape("north").value(), 0, 8192, 1);
  EXPECT_EQ(unknown.of_hop_wait(rows_at(8, 262144)), 100ms);
}

TEST(Deadlines, ScaleWithSanitizers) {
  const LaunchPlan launch = rows_at(8, 262144);
  const Deadlines once = on_h200("north"), more = on_h200("north", 30);
  EXPECT_NEAR(ms(more.of_hop_wait(launch)), 30 * ms(once.of_hop_wait(launch)), 1);
  EXPECT_NEAR(ms(more.of_launch(launch)), 30 * ms(once.of_launch(launch)), 1);
  EXPECT_EQ(on_h200("demo", 0.005).of_hop_wait(rows_at(1, 1)), 500us);
}

// Measured on an H200: 62,000 tokens/s at 8K, 26,000 at 128K.
TEST(Deadlines, PrefillHasManyTimesWhatItTakes) {
  const Deadlines deadlines = on_h200("north");
  const std::vector<TokenId> tokens(8192);
  const auto of = [&](size_t count, int32_t position) {
    const PrefillRange range{std::span(tokens).first(count), position, {}};
    return ms(deadlines.of_prefill(std::span(&range, 1)));
  };
  EXPECT_GT(of(8192, 0), 8 * 8192 / 62.0);
  EXPECT_LT(of(8192, 0), 2500);
  EXPECT_GT(of(8192, 122880), 8 * 8192 / 20.0);  // the last chunk is slower than all on average
  EXPECT_GT(of(1, 0), 100);
  EXPECT_LT(of(1, 0), of(8192, 0));
  const PrefillRange range{tokens, 0, {}};
  const std::vector<PrefillRange> four(4, range);
  EXPECT_GE(ms(deadlines.of_prefill(four)), 4 * of(8192, 0));
}

TEST(Deadlines, AreCountedInClocks) {
  EXPECT_EQ(coarse_clocks_of(1024us), 2000U);
  EXPECT_EQ(coarse_clocks_of(0s), 1U);
  EXPECT_EQ(coarse_clocks_of(24h), UINT32_MAX / 8);
}

TEST(Deadlines, WhoeverWasStoppedLooksOnceMore) {
  std::chrono::steady_clock::time_point time;
  int looks = 0;
  const auto now = [&] { return time; };
  const auto stopped_until_done = [&] {
    time += 1h;  // between the look and the next question for the time
    return ++looks == 2;
  };
  EXPECT_TRUE(look_until(10ms, now, stopped_until_done));
  EXPECT_EQ(looks, 2);
  looks = 0;
  const auto never = [&] {
    time += 1ms;
    return ++looks < 0;
  };
  EXPECT_FALSE(look_until(10ms, now, never));
  EXPECT_EQ(looks, 12);
}

}  // namespace
}  // namespace boreas::cuda
