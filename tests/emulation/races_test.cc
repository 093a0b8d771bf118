#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "exec/cuda/ptx.cuh"

namespace boreas::cuda {
namespace {

using emulation::GridResult;
using emulation::Outcome;

constexpr uint64_t kSeedCount = 10;

class Races : public testing::Test {
 protected:
  Races() { emulation::register_memory(source_, sizeof source_, "source"); }
  ~Races() override { emulation::forget_memory(); }

  static GridResult run(uint64_t seed, const std::function<void()>& kernel) {
    return emulation::run_grid(
        {.threads = 96, .shared_bytes = 4096, .seed = seed, .check_races = true, .polled_words = {64}}, kernel);
  }
  // Ordered, whatever happens first.
  static void expect_none(const std::function<void()>& kernel) {
    for (uint64_t seed = 0; seed < kSeedCount; ++seed) {
      const GridResult result = run(seed, kernel);
      EXPECT_EQ(result.outcome, Outcome::kFinished) << "seed " << seed << ": " << result.message;
    }
  }
  // Found in every run, also where the accesses came in a good order.
  static void expect_race(const std::string& part, const std::function<void()>& kernel) {
    for (uint64_t seed = 0; seed < kSeedCount; ++seed) {
      const GridResult result = run(seed, kernel);
      EXPECT_EQ(result.outcome, Outcome::kError) << "seed " << seed;
      EXPECT_NE(result.message.find("race: "), std::string::npos) << result.message;
      EXPECT_NE(result.message.find(part), std::string::npos) << result.message;
    }
  }
  static int32_t warp() { return thread_index() / 32; }
  static int32_t lane() { return thread_index() % 32; }
  static uint32_t own() { return 1024 + 4 * static_cast<uint32_t>(thread_index()); }
  static uint32_t of_thread(int32_t thread) { return 1024 + 4 * static_cast<uint32_t>(thread); }

  alignas(16) static inline uint8_t source_[256] = {};
};

TEST_F(Races, BarriersOrder) {
  expect_none([] {
    for (int32_t i = 1; i <= 3; ++i) {
      store_shared_32(own(), 1);
      block_sync();
      load_shared_32(of_thread((thread_index() + 40 * i) % 96));
      block_sync();
    }
  });
}

TEST_F(Races, AMissingSecondBarrierIsFound) {
  expect_race("by warp", [] {
    store_shared_32(own(), 1);
    block_sync();
    load_shared_32(of_thread((thread_index() + 40) % 96));
    store_shared_32(own(), 2);
  });
}

TEST_F(Races, ABarrierOfOthersDoesNotOrder) {
  expect_race("by warp", [] {
    store_shared_32(own(), 1);
    block_sync();
    store_shared_32(own(), 2);
    if (warp() < 2) {
      named_barrier(1, 64);
      if (warp() == 0) load_shared_32(of_thread(64));
    }
  });
}

TEST_F(Races, WithinAWarpOnlyWarpSyncOrders) {
  expect_none([] {
    store_shared_32(own(), 1);
    warp_sync();
    load_shared_32(own() ^ 4u);
  });
  expect_race("was written by warp", [] {
    store_shared_32(own(), 1);
    ballot(true);
    load_shared_32(own() ^ 4u);
  });
}

TEST_F(Races, HalvesOfAWordAreApart) {
  expect_none([] { store_shared_16(1024 + 2 * static_cast<uint32_t>(thread_index()), 1); });
}

void wait(uint32_t barrier, uint32_t parity) {
  while (!mbarrier_try(barrier, parity)) spin_hint();
}

// Warp 0 hands a value to warp 1, which hands back the place.
void hand_over(bool sync_before_arrival, bool wait_for_place) {
  const int32_t warp = thread_index() / 32, lane = thread_index() % 32;
  if (thread_index() == 0) mbarrier_init(0, 1), mbarrier_init(8, 1);
  block_sync();
  const uint32_t own = 1024 + 4 * static_cast<uint32_t>(lane);
  for (uint32_t round = 0; round < 4; ++round) {
    if (warp == 0) {
      if (wait_for_place) wait(8, round % 2 ^ 1);
      store_shared_32(own, round);
      warp_sync();
      if (lane == 0) mbarrier_arrive(0);
      if (!wait_for_place) wait(0, round % 2);
    } else if (warp == 1) {
      wait(0, round % 2);
      load_shared_32(own);
      if (sync_before_arrival) warp_sync();
      if (lane == 0) mbarrier_arrive(8);
    }
  }
}

TEST_F(Races, MbarriersOrder) {
  expect_none([] { hand_over(true, true); });
}

TEST_F(Races, AnArrivalSpeaksForItsOwnLaneOnly) {
  expect_race("was read by warp 1", [] { hand_over(false, true); });
}

TEST_F(Races, PolledWordsOrder) {
  const auto poll = [](uint32_t word) {
    if (thread_index() == 0) store_shared_32(word, 0);
    block_sync();
    if (thread_index() == 0) {
      store_shared_32(own(), 5);
      store_shared_32(word, 1);
    }
    if (warp() == 1) {
      while (load_shared_32(word) == 0) spin_hint();
      EXPECT_EQ(load_shared_32(of_thread(0)), 5u);
    }
  };
  expect_none([&] { poll(64); });
  expect_race("shared 0x80", [&] { poll(128); });
}

// Warp 0 copies, warp 1 reads; `wait_first` before it reads, `give_back` before the next copy.
void copy_twice(const uint8_t* source, bool wait_first, bool give_back) {
  const int32_t warp = thread_index() / 32, lane = thread_index() % 32;
  if (thread_index() == 0) mbarrier_init(0, 1), mbarrier_init(8, 1), mbarrier_init(16, 1);
  block_sync();
  for (uint32_t round = 0; round < 2; ++round) {
    if (thread_index() == 0) {
      if (give_back) wait(8, round ^ 1);
      mbarrier_arrive_expect(0, 128);
      bulk_copy(1024, source, 128, 0, evict_first_policy());
      wait(0, round);
      mbarrier_arrive(16);
    } else if (warp == 1) {
      wait(16, round);  // says that the copy landed, which warp 0 has heard
      if (wait_first) wait(0, round);
      load_shared_32(1024 + 4 * static_cast<uint32_t>(lane));
      warp_sync();
      if (lane == 0) mbarrier_arrive(8);
    }
  }
}

TEST_F(Races, CopiesAreOrderedByTheirPhase) {
  expect_none([] { copy_twice(source_, true, true); });
  expect_none([] { copy_twice(source_, false, true); });  // heard from who has waited
}

TEST_F(Races, ReadingACopyWithoutHavingWaitedIsFound) {
  expect_race("by a bulk copy", [] {
    if (thread_index() == 0) {
      mbarrier_init(0, 1);
      mbarrier_arrive_expect(0, 128);
      bulk_copy(1024, source_, 128, 0, evict_first_policy());
      wait(0, 0);
    }
    if (warp() == 1) {
      while (emulation::grid->result.copies == 0 || !emulation::grid->copies.empty()) spin_hint();
      load_shared_32(1024);
    }
  });
}

TEST_F(Races, CopyingOverWhatIsStillReadIsFound) {
  expect_race("copies over", [] {
    if (thread_index() == 0) mbarrier_init(0, 1);
    if (warp() == 1) {
      store_shared_32(own(), 1);
    } else if (thread_index() == 0) {
      for (int32_t i = 0; i < 200; ++i) spin_hint();
      mbarrier_arrive_expect(0, 256);
      bulk_copy(1024, source_, 256, 0, evict_first_policy());
      wait(0, 0);
    }
  });
}

}  // namespace
}  // namespace boreas::cuda
