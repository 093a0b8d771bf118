#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/prng.h"
#include "device_emulation.h"
#include "exec/cuda/ptx.cuh"

namespace boreas::cuda {
namespace {

using emulation::GridResult;
using emulation::Outcome;
using emulation::run_grid;

constexpr uint64_t kSeeds[] = {0, 1, 2, 3, 4, 5};

// One block of `warps` warps.
GridResult run_block(int32_t warps, const std::function<void()>& kernel, uint64_t seed = 0, uint32_t shared = 4096) {
  return run_grid({.threads = warps * 32, .shared_bytes = shared, .seed = seed}, kernel);
}

void expect_finished(const GridResult& result) {
  EXPECT_EQ(result.outcome, Outcome::kFinished) << result.message;
  EXPECT_EQ(result.message, "");
}

// Fails in the way named, with all of `parts` in its message.
void expect_failed(const GridResult& result, Outcome outcome, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.outcome, outcome) << result.message;
  for (const std::string& part : parts) {
    EXPECT_NE(result.message.find(part), std::string::npos) << "wanted: " << part << "\ngot: " << result.message;
  }
}

TEST(Grid, EveryThreadRunsOnce) {
  for (uint64_t seed : kSeeds) {
    std::vector<int32_t> seen(3 * 96);
    expect_finished(run_grid({.blocks = 3, .threads = 96, .seed = seed},
                             [&] { ++seen[static_cast<size_t>(block_index() * 96 + thread_index())]; }));
    for (int32_t count : seen) EXPECT_EQ(count, 1);
  }
}

TEST(Grid, SameSeedSameRun) {
  const auto order_of = [](uint64_t seed) {
    std::vector<int32_t> order;
    expect_finished(run_grid({.blocks = 2, .threads = 128, .seed = seed}, [&] {
      for (int32_t i = 0; i < 5; ++i) {
        order.push_back(block_index() * 1000 + thread_index());
        spin_hint();
      }
    }));
    return order;
  };
  EXPECT_EQ(order_of(0), order_of(0));
  EXPECT_EQ(order_of(7), order_of(7));
  EXPECT_NE(order_of(7), order_of(8));
  EXPECT_NE(order_of(7), order_of(0));
}

TEST(Warp, Shuffles) {
  run_block(1, [] {
    const uint32_t lane = static_cast<uint32_t>(thread_index());
    EXPECT_EQ(shuffle(lane * 3, 7), 21u);
    EXPECT_EQ(shuffle(lane, static_cast<int32_t>(lane) + 33), (lane + 1) % 32);
    EXPECT_EQ(shuffle_xor(lane, 5), lane ^ 5u);
    EXPECT_EQ(shuffle_xor(static_cast<float>(lane), 16), static_cast<float>(lane ^ 16u));
    EXPECT_EQ(shuffle_down(lane, 3), lane + 3 < 32 ? lane + 3 : lane);
    EXPECT_EQ(shuffle_down(static_cast<float>(lane) + 0.5f, 31), (lane == 0 ? 31.0f : static_cast<float>(lane)) + 0.5f);
  });
}

TEST(Warp, VotesAndMaximum) {
  expect_finished(run_block(2, [] {
    const uint32_t lane = static_cast<uint32_t>(thread_index()) % 32;
    EXPECT_EQ(reduce_max(lane * 7 % 32), 31u);
    EXPECT_EQ(reduce_max(lane == 9 ? ~0u : 5u), ~0u);
    EXPECT_TRUE(all_lanes(true));
    EXPECT_FALSE(all_lanes(lane != 17));
    EXPECT_EQ(ballot(lane % 4 == 1), 0x22222222u);
    EXPECT_EQ(bits_set(ballot(lane > 20)), 11);
  }));
}

// A lane is far into the next meeting while others leave the last; lanes and warps in many orders.
TEST(Warp, ManyMeetingsInARow) {
  for (uint64_t seed : kSeeds) {
    const auto kernel = [] {
      const uint32_t lane = static_cast<uint32_t>(thread_index()) % 32;
      uint32_t value = lane;
      for (uint32_t i = 0; i < 64; ++i) {
        if (lane % 3 == i % 3) spin_hint();
        value = shuffle(value, static_cast<int32_t>(lane + 1));
        EXPECT_EQ(value, (lane + i + 1) % 32);
      }
    };
    expect_finished(run_block(3, kernel, seed));
  }
}

float bf16_value(Prng& random) { return float_of(pack_bf16(random.uniform() * 4 - 2, 0) << 16); }

TEST(Warp, MmaAgreesWithDoubles) {
  const uint64_t seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Prng random(seed);
  std::array<std::array<float, 16>, 16> a;         // [row][k]
  std::array<std::array<float, 8>, 16> b, d, out;  // [k][column], [row][column]
  for (auto& row : a)
    for (float& x : row) x = bf16_value(random);
  for (auto& row : b)
    for (float& x : row) x = bf16_value(random);
  for (auto& row : d)
    for (float& x : row) x = random.uniform();
  expect_finished(run_block(1, [&] {
    const size_t lane = static_cast<size_t>(thread_index()), g = lane / 4, c = lane % 4 * 2;
    const auto pair_of_a = [&](size_t row, size_t column) { return pack_bf16(a[row][column], a[row][column + 1]); };
    float sums[4] = {d[g][c], d[g][c + 1], d[g + 8][c], d[g + 8][c + 1]};
    mma_bf16(sums, pair_of_a(g, c), pair_of_a(g + 8, c), pair_of_a(g, c + 8), pair_of_a(g + 8, c + 8),
             pack_bf16(b[c][g], b[c + 1][g]), pack_bf16(b[c + 8][g], b[c + 9][g]));
    out[g][c] = sums[0], out[g][c + 1] = sums[1], out[g + 8][c] = sums[2], out[g + 8][c + 1] = sums[3];
  }));
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      double wanted = d[row][column], size = std::abs(wanted);
      for (size_t k = 0; k < 16; ++k) {
        wanted += double{a[row][k]} * b[k][column];
        size += std::abs(double{a[row][k]} * b[k][column]);
      }
      EXPECT_NEAR(out[row][column], wanted, size * 17 * 0x1p-24) << row << "," << column;
    }
  }
}

TEST(Warp, Transpose) {
  expect_finished(run_block(1, [] {
    const uint32_t lane = static_cast<uint32_t>(thread_index()), row = lane / 4, column = lane % 4 * 2;
    const auto element = [](uint32_t r, uint32_t c) { return r * 100 + c; };
    const uint32_t value = transpose_8x8(element(row, column) | element(row, column + 1) << 16);
    EXPECT_EQ(value, element(column, row) | element(column + 1, row) << 16);
  }));
}

TEST(Warp, DifferentCollectivesAreAnError) {
  const GridResult result = run_block(2, [] {
    if (thread_index() == 35) ballot(true);
    else shuffle_xor(1.0f, 1);
  });
  expect_failed(result, Outcome::kError, {"emulation_test.cc:", "warp 1", "ballot", "shuffle_xor"});
}

TEST(Warp, DivergedMmaIsAnError) {
  const GridResult result = run_block(1, [] {
    float d[4] = {};
    if (thread_index() < 16) mma_bf16(d, 0, 0, 0, 0, 0, 0);
    else mma_bf16(d, 0, 0, 0, 0, 0, 0);
  });
  expect_failed(result, Outcome::kError, {"mma_bf16", "lane"});
}

TEST(Warp, ALaneThatReturnsEarlyIsAnError) {
  for (uint64_t seed : kSeeds) {
    const GridResult result = run_block(
        1,
        [] {
          if (thread_index() != 3) warp_sync();
        },
        seed);
    expect_failed(result, Outcome::kError, {"lane 3", "return"});
  }
}

TEST(Barriers, NamedBarrierHoldsItsThreadsAndNoOthers) {
  for (uint64_t seed : kSeeds) {
    std::array<int32_t, 2> arrived{};
    expect_finished(run_block(
        5,
        [&] {
          const int32_t warp = thread_index() / 32;
          if (warp == 4) return;
          const size_t half = static_cast<size_t>(warp / 2);
          for (int32_t round = 1; round <= 20; ++round) {
            ++arrived[half];
            named_barrier(1 + static_cast<int32_t>(half), 64);
            EXPECT_EQ(arrived[half], round * 64);
            named_barrier(1 + static_cast<int32_t>(half), 64);
          }
        },
        seed));
  }
}

TEST(Barriers, BlockSync) {
  for (uint64_t seed : kSeeds) {
    std::array<int32_t, 2> arrived{};
    expect_finished(run_grid({.blocks = 2, .threads = 160, .seed = seed}, [&] {
      ++arrived[static_cast<size_t>(block_index())];
      block_sync();
      EXPECT_EQ(arrived[static_cast<size_t>(block_index())], 160);
    }));
  }
}

TEST(Barriers, WrongCountsAreErrors) {
  expect_failed(run_block(2, [] { named_barrier(1, thread_index() < 32 ? 64 : 32); }), Outcome::kError, {"barrier 1"});
  expect_failed(run_block(2, [] { named_barrier(1, 40); }), Outcome::kError, {"multiple of 32"});
  expect_failed(run_block(2, [] { named_barrier(0, 64); }), Outcome::kError, {"1 to 15"});
  expect_failed(run_block(2, [] { named_barrier(1 + thread_index() % 2, 64); }), Outcome::kError, {"different named"});
}

TEST(Barriers, DeadlockNamesWhoWaits) {
  const GridResult result = run_block(3, [] {
    if (thread_index() < 32) named_barrier(2, 64);
    if (thread_index() >= 64) block_sync();
  });
  expect_failed(result, Outcome::kDeadlock,
                {"block 0 warp 0 all lanes: named_barrier 2 of 64 threads at emulation_test.cc",
                 "block 0 warp 2 all lanes: block_sync"});
}

TEST(Numbers, PackRoundsToNearestEven) {
  const auto packed = [](uint32_t bits) { return pack_bf16(float_of(bits), 0.0f); };
  EXPECT_EQ(packed(0x3f808000u), 0x3f80u);
  EXPECT_EQ(packed(0x3f818000u), 0x3f82u);
  EXPECT_EQ(packed(0x3f808001u), 0x3f81u);
  EXPECT_EQ(packed(0x80000001u), 0x8000u);
  EXPECT_EQ(packed(0x7f7fffffu), 0x7f80u);
  EXPECT_EQ(packed(0xff800000u), 0xff80u);
  EXPECT_EQ(packed(0x7f800001u), 0x7fffu);
  EXPECT_EQ(packed(0xffc00000u), 0x7fffu);
  EXPECT_EQ(pack_bf16(1.0f, -2.0f), 0xc0003f80u);
}

TEST(Numbers, Exp2FlushesDenormals) {
  EXPECT_EQ(exp2_approximate(3.0f), 8.0f);
  EXPECT_EQ(exp2_approximate(-126.0f), 0x1p-126f);
  EXPECT_EQ(exp2_approximate(-126.5f), 0.0f);
  EXPECT_EQ(exp2_approximate(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(exp2_approximate(NAN)));
  EXPECT_EQ(multiply_add(1 + 0x1p-12f, 1 + 0x1p-12f, -1.0f), 0x1p-11f + 0x1p-24f);
}

TEST(Faults, StopEndsTheRun) {
  const GridResult result = run_grid({.blocks = 2, .threads = 64, .seed = 3}, [] {
    if (block_index() == 1 && thread_index() == 40) stop_kernel();
    while (true) spin_hint();
  });
  expect_failed(result, Outcome::kStopped, {"emulation_test.cc", "block 1 warp 1 lane 8", "stop_kernel"});
}

// A poll with a deadline sees it pass though nothing else happens.
TEST(Faults, ClockPassesDeadlines) {
  const GridResult result = run_grid({.blocks = 2, .threads = 64, .clock_per_switch = 1000}, [] {
    const uint64_t begin = clock_now();
    while (clock_now() - begin < 1000000) spin_hint();
    if (thread_index() == 0) stop_kernel();
  });
  expect_failed(result, Outcome::kStopped, {"lane 0"});
  EXPECT_GE(result.clock, 1000000u);
  expect_finished(run_block(1, [] {
    const uint64_t begin = clock_now();
    while (clock_now() - begin < 10000) {
    }
  }));
}

TEST(Faults, PollingInVainIsADeadlock) {
  expect_failed(run_block(2,
                          [] {
                            while (!all_lanes(false)) spin_hint();
                          }),
                Outcome::kDeadlock, {"polling in vain", "warp 1 all lanes: spin_hint at emulation_test.cc"});
}

TEST(Faults, ClaimHasOneWinner) {
  for (uint64_t seed : kSeeds) {
    uint32_t word = 0;
    int32_t winners = 0;
    expect_finished(run_grid({.blocks = 3, .threads = 64, .seed = seed}, [&] { winners += claim(&word); }));
    EXPECT_EQ(winners, 1);
  }
}

}  // namespace
}  // namespace boreas::cuda
