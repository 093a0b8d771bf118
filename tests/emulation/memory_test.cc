#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/prng.h"
#include "exec/cuda/ptx.cuh"
#include "program/pipeline.h"

namespace boreas::cuda {
namespace {

using emulation::GridResult;
using emulation::Outcome;
using emulation::run_grid;

constexpr uint64_t kSeedCount = 40;

class Memory : public testing::Test {
 protected:
  ~Memory() override { emulation::forget_memory(); }

  static GridResult run_block(int32_t warps, const std::function<void()>& kernel, uint64_t seed = 0) {
    return run_grid({.threads = warps * 32, .shared_bytes = 4096, .seed = seed}, kernel);
  }
  static GridResult run_thread(const std::function<void()>& kernel) {
    return run_block(1, [&] {
      if (thread_index() == 0) kernel();
    });
  }
  static void expect_finished(const GridResult& result) {
    EXPECT_EQ(result.outcome, Outcome::kFinished) << result.message;
  }
  static void expect_error(const std::function<void()>& kernel, const std::string& part) {
    const GridResult result = run_thread(kernel);
    EXPECT_EQ(result.outcome, Outcome::kError);
    EXPECT_NE(result.message.find(part), std::string::npos) << "wanted: " << part << "\ngot: " << result.message;
  }
};

struct alignas(16) Line {
  uint32_t words[4];
};

TEST_F(Memory, SharedLoadsSeeStores) {
  expect_finished(run_thread([] {
    store_shared_32(16, 0x11223344u);
    store_shared_16(20, 0xabcd5566u);
    store_shared_16(22, 0x7788u);
    store_shared_float(24, 1.5f);
    store_shared_32(28, 9);
    EXPECT_EQ(load_shared_32(20), 0x77885566u);
    EXPECT_EQ(load_shared_float(24), 1.5f);
    EXPECT_EQ(load_shared_64(16).x, 0x11223344u);
    EXPECT_EQ(load_shared_64(16).y, 0x77885566u);
    EXPECT_EQ(load_shared_128(16).w, 9u);
  }));
}

TEST_F(Memory, SharedRules) {
  expect_error([] { store_shared_32(6, 1); }, "misaligned");
  expect_error([] { store_shared_32(4096, 1); }, "4096 bytes");
  expect_error([] { load_shared_128(0xfffffff0u); }, "4096 bytes");
  expect_error([] { load_shared_32(64); }, "nobody has written");
  expect_error(
      [] {
        store_shared_32(0, 1), store_shared_32(4, 1), store_shared_16(12, 1);
        EXPECT_EQ(load_shared_32(12), 0xffff0001u) << "a word of which a part was written";
        load_shared_128(0);
      },
      "at 0x0: nobody has written a whole word of them");
  expect_error(
      [] {
        mbarrier_init(8, 1);
        store_shared_32(12, 1);
      },
      "an mbarrier lies there");
}

TEST_F(Memory, UnwrittenReadsPassWhereUnchecked) {
  expect_finished(run_grid({.shared_bytes = 64, .check_shared = false}, [] { load_shared_128(0); }));
}

TEST_F(Memory, MbarrierPhases) {
  expect_finished(run_thread([] {
    mbarrier_init(0, 2);
    EXPECT_TRUE(mbarrier_try(0, 1)) << "a fresh barrier has completed the phase before";
    EXPECT_FALSE(mbarrier_try(0, 0));
    mbarrier_arrive(0);
    EXPECT_FALSE(mbarrier_try(0, 0));
    mbarrier_arrive(0);
    EXPECT_TRUE(mbarrier_try(0, 0));
    EXPECT_FALSE(mbarrier_try(0, 1));
    mbarrier_arrive(0), mbarrier_arrive(0);
    EXPECT_TRUE(mbarrier_try(0, 1));
    EXPECT_FALSE(mbarrier_try(0, 0));
  }));
}

TEST_F(Memory, MbarrierRules) {
  expect_error([] { mbarrier_arrive(0); }, "no mbarrier was initialised");
  expect_error([] { mbarrier_init(4, 1); }, "multiple of 8");
  expect_error([] { mbarrier_init(0, 0); }, "0 arrivals");
  expect_error([] { mbarrier_init(0, 1), mbarrier_init(0, 1); }, "an mbarrier");
  expect_error([] { mbarrier_init(0, 1), mbarrier_arrive_expect(0, 1u << 20); }, "that many bytes");
  // Bytes are owed, so the phase stays open and its second arrival is one too many.
  expect_error([] { mbarrier_init(0, 1), mbarrier_arrive_expect(0, 16), mbarrier_arrive(0); }, "one arrival too many");
}

TEST_F(Memory, CopyCompletesThePhaseThatExpectsIt) {
  std::vector<Line> source(64);
  for (uint32_t i = 0; i < 256; ++i) source[i / 4].words[i % 4] = i * i;
  emulation::register_memory(source.data(), source.size() * sizeof(Line), "source");
  for (uint64_t seed = 0; seed < kSeedCount; ++seed) {
    const auto kernel = [&] {
      if (thread_index() != 0) return;
      mbarrier_init(0, 1);
      bulk_copy(1024, &source[8], 256, 0, evict_first_policy());  // before its bytes are expected: they go below zero
      for (uint32_t i = 0; i < seed; ++i) spin_hint();
      EXPECT_FALSE(mbarrier_try(0, 0));
      mbarrier_arrive_expect(0, 256 + 32);
      bulk_copy(512, &source[0], 32, 0, evict_first_policy());
      while (!mbarrier_try(0, 0)) spin_hint();
      for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(load_shared_32(1024 + 4 * i), (32 + i) * (32 + i));
      EXPECT_EQ(load_shared_64(512 + 24).y, 49u);
    };
    expect_finished(run_block(2, kernel, seed));
  }
}

TEST_F(Memory, CopyRules) {
  alignas(16) static uint8_t source[256];
  emulation::register_memory(source, sizeof source, "source");
  const auto copy = [](uint32_t to, const void* from, uint32_t bytes) {
    mbarrier_init(0, 1);
    mbarrier_arrive_expect(0, bytes);
    bulk_copy(to, from, bytes, 0, evict_first_policy());
  };
  expect_error([&] { copy(24, source, 16); }, "multiples of 16");
  expect_error([&] { copy(32, source + 8, 16); }, "multiples of 16");
  expect_error([&] { copy(32, source, 8); }, "multiples of 16");
  expect_error([&] { copy(4096 - 16, source, 32); }, "4096 bytes");
  expect_error([&] { copy(32, source + 240, 32); }, "byte 240 of source, of 256 bytes");
  expect_error([&] { copy(0, source, 32); }, "an mbarrier");
  expect_error([&] { copy(32, source, 64), bulk_copy(80, source, 16, 0, 1); }, "another copy");
  expect_error([&] { bulk_copy(32, source, 16, 8, 1); }, "no mbarrier");
  expect_error([&] { copy(32, source, 64); }, "have not landed");
  expect_error([&] { copy(32, source, 64), load_shared_32(64); }, "a bulk copy fills them");
  expect_error([&] { copy(32, source, 64), store_shared_32(64, 0); }, "a bulk copy fills them");
}

// Landed bytes may be read only when the whole phase has completed.
TEST_F(Memory, ReadingBeforeThePhaseCompletesIsAnError) {
  alignas(16) static uint8_t source[64];
  emulation::register_memory(source, sizeof source, "source");
  expect_error(
      [] {
        mbarrier_init(0, 2);
        mbarrier_arrive_expect(0, 64);
        bulk_copy(64, source, 64, 0, evict_first_policy());
        for (int32_t i = 0; i < 100; ++i) spin_hint();
        load_shared_32(64);
      },
      "its phase has not completed");
}

TEST_F(Memory, WordsTravelBetweenBlocks) {
  std::vector<Word> words(64);
  emulation::register_memory(words.data(), words.size() * sizeof(Word), "words");
  for (uint64_t seed = 0; seed < kSeedCount; ++seed) {
    std::fill(words.begin(), words.end(), Word{});
    const auto kernel = [&] {
      const uint32_t lane = static_cast<uint32_t>(thread_index());
      for (uint32_t epoch = 1; epoch <= 5; ++epoch) {
        Word* const own = &words[static_cast<size_t>(block_index()) * 32 + lane];
        const Word* const other = &words[static_cast<size_t>(1 - block_index()) * 32 + (31 - lane)];
        store_word(own, lane, lane + epoch, 7, epoch);
        Word seen;
        do {
          seen = load_word(other);
        } while (!all_lanes(seen.epoch >= epoch));
        EXPECT_EQ(seen.payload[0], 31 - lane);
        EXPECT_EQ(seen.payload[1], 31 - lane + seen.epoch);
        EXPECT_LE(seen.epoch, epoch + 1);
      }
    };
    expect_finished(run_grid({.blocks = 2, .threads = 32, .seed = seed}, kernel));
  }
  expect_error([&] { load_word(&words[0] + 64); }, "load_word");
  expect_error([] { store_word(nullptr, 1, 2, 3, 4); }, "store_word");
  expect_error([&] { load_constant_32(words.data() + 64); }, "load_constant_32");
}

// ---- the worker's ring, with its own state machines

struct RingCase {
  PipelineShape shape;
  int32_t chunks;
  bool empty_ignored = false;  // planted fault: producers do not wait for `empty`
};

constexpr uint32_t kChunkBytes = 64;
constexpr uint32_t kCounterAt = 8, kFullAt = 128, kEmptyAt = 256, kStagesAt = 512;

struct Ring {
  const RingCase& config;
  const std::vector<Line>& source;
  std::vector<int32_t>& consumed;  // times by chunk, only where all lanes saw its bytes

  static void wait(uint32_t barrier, int32_t parity) {
    while (!mbarrier_try(barrier, static_cast<uint32_t>(parity))) spin_hint();
  }
  static uint32_t of(uint32_t base, int32_t stage) { return base + 8 * static_cast<uint32_t>(stage); }
  static uint32_t stage_at(int32_t stage) { return kStagesAt + kChunkBytes * static_cast<uint32_t>(stage); }

  void produce(int32_t warp) const {
    if (thread_index() % 32 != 0) return;
    for (ProducerTurn turn(config.shape, warp); turn.has_chunk_before(config.chunks); turn.advance()) {
      if (!config.empty_ignored) wait(of(kEmptyAt, turn.stage()), turn.empty_parity());
      mbarrier_arrive_expect(of(kFullAt, turn.stage()), kChunkBytes);
      while (!turn.has_credit(static_cast<int32_t>(load_shared_32(kCounterAt)))) spin_hint();
      bulk_copy(stage_at(turn.stage()), &source[static_cast<size_t>(turn.chunk()) * 4], kChunkBytes,
                of(kFullAt, turn.stage()), evict_first_policy());
    }
  }
  void count() const {
    if (thread_index() % 32 != 0) return;
    for (ArrivalCounter counter(config.shape); counter.arrived() < config.chunks;) {
      wait(of(kFullAt, counter.stage()), counter.full_parity());
      store_shared_32(kCounterAt, static_cast<uint32_t>(counter.arrived()) + 1);
      counter.advance();
    }
  }
  void consume(int32_t group) const {
    for (ConsumerTurn turn(config.shape, group); turn.has_chunk_before(config.chunks); turn.advance()) {
      wait(of(kFullAt, turn.stage()), turn.full_parity());
      const uint32_t lane = static_cast<uint32_t>(thread_index()) % 32, word = lane % 16;
      const uint32_t seen = load_shared_32(stage_at(turn.stage()) + 4 * word);
      const bool right = all_lanes(seen == source[static_cast<size_t>(turn.chunk()) * 4 + word / 4].words[word % 4]);
      if (lane == 0) {
        consumed[static_cast<size_t>(turn.chunk())] += right;
        mbarrier_arrive(of(kEmptyAt, turn.stage()));
      }
    }
  }
  void run() const {
    const int32_t warp = thread_index() / 32;
    if (thread_index() == 0) {
      store_shared_32(kCounterAt, 0);
      for (int32_t stage = 0; stage < config.shape.stages; ++stage) {
        mbarrier_init(of(kFullAt, stage), 1);
        mbarrier_init(of(kEmptyAt, stage), 1);
      }
      mbarrier_init_done();
    }
    block_sync();
    if (warp < config.shape.producers) produce(warp);
    else if (warp == config.shape.producers) count();
    else consume(warp - config.shape.producers - 1);
  }
};

GridResult run_ring(const RingCase& config, uint64_t seed, std::vector<int32_t>& consumed) {
  std::vector<Line> source(static_cast<size_t>(config.chunks) * 4);
  Prng random(seed + 1);
  for (Line& line : source) {
    for (uint32_t& word : line.words) word = random.next_u32();
  }
  emulation::register_memory(source.data(), source.size() * sizeof(Line), "chunks");
  consumed.assign(static_cast<size_t>(config.chunks), 0);
  const Ring ring{config, source, consumed};
  const int32_t warps = config.shape.producers + 1 + config.shape.groups;
  const GridResult result = run_grid({.threads = warps * 32, .shared_bytes = 2048, .seed = seed}, [&] { ring.run(); });
  emulation::forget_memory();
  return result;
}

TEST_F(Memory, RingDeliversEveryChunkOnce) {
  const RingCase cases[] = {
      {{.stages = 4, .producers = 2, .groups = 2, .turn = 1, .credits = 3}, 40},
      {{.stages = 4, .producers = 1, .groups = 1, .turn = 2, .credits = 4}, 21},
      {{.stages = 12, .producers = 3, .groups = 2, .turn = 2, .credits = 5}, 50},
      {{.stages = 2, .producers = 2, .groups = 1, .turn = 1, .credits = 1}, 9},
  };
  for (const RingCase& config : cases) {
    ASSERT_TRUE(is_valid(config.shape));
    for (uint64_t seed = 0; seed < kSeedCount; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::vector<int32_t> consumed;
      expect_finished(run_ring(config, seed, consumed));
      for (int32_t count : consumed) EXPECT_EQ(count, 1);
    }
  }
}

// Without the wait for `empty` some order of things overwrites a stage that is still read, or arms it twice.
TEST_F(Memory, RingWithoutEmptyIsCaught) {
  const RingCase config{{.stages = 4, .producers = 2, .groups = 2, .turn = 1, .credits = 4}, 40, true};
  int32_t caught = 0;
  for (uint64_t seed = 0; seed < kSeedCount; ++seed) {
    std::vector<int32_t> consumed;
    const GridResult result = run_ring(config, seed, consumed);
    caught += result.outcome != Outcome::kFinished || std::count(consumed.begin(), consumed.end(), 1) != config.chunks;
  }
  EXPECT_GT(caught, 0);
  RecordProperty("caught", caught);
}

}  // namespace
}  // namespace boreas::cuda
