// EngineCore under too little memory: preemption by swap, one behaviour a test.
#include <set>

#include "engine/core_testing.h"
#include "exec/fake/fake_executor.h"

namespace boreas {
namespace {

using CoreTest = CoreFixture<FakeExecutor, FakeOptions>;

class CoreSwapTest : public CoreTest {
 protected:
  // Three requests that do not fit together.
  void crowd() {
    fake.pages_full = 8;
    for (int32_t i = 0; i < 3; ++i) add(request(60 + i, 200));
  }
  void step_until_swapped() {
    while (core().stats().swap_bytes_used == 0) {
      ASSERT_FALSE(core().idle());
      core().step();
    }
  }
};

TEST_F(CoreSwapTest, NothingIsComputedTwice) {
  options.prefix_cache = false;
  crowd();
  finish_all();
  const EngineStats stats = core().stats();
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_EQ(stats.recomputations, 0);
  EXPECT_EQ(stats.swapped_in_pages, stats.swapped_out_pages);
  EXPECT_EQ(stats.computed_tokens, 60 + 61 + 62 + 3 * 199);
  EXPECT_EQ(stats.swap_bytes_used, 0);
  for (uint64_t i = 0; i < 3; ++i)
    EXPECT_EQ(logs[i + 1].tokens(), alone(request(60 + static_cast<int32_t>(i), 200)).tokens());
}

TEST_F(CoreSwapTest, WithoutHostMemoryTheTextIsComputedAgain) {
  options.swap_bytes_max = 0;
  for (const bool one_arithmetic : {true, false}) {
    fake.one_arithmetic = one_arithmetic;
    options.prefix_cache = one_arithmetic;
    start_over();
    crowd();
    finish_all();
    EXPECT_EQ(core().stats().recomputations, core().stats().preemptions);
    EXPECT_GT(core().stats().recomputations, 0);
    EXPECT_EQ(core().stats().output_tokens, 600);
    for (uint64_t i = 0; i < 3; ++i)
      EXPECT_EQ(logs[i + 1].tokens(), alone(request(60 + static_cast<int32_t>(i), 200)).tokens());
  }
}

// Tokens whose logits were wanted take the slow arithmetic again, so they come as they came before: 64 a step.
TEST_F(CoreSwapTest, AScoredPromptIsComputedAgainInSlices) {
  options.swap_bytes_max = 0;
  options.prefix_cache = false;
  fake.one_arithmetic = false;
  fake.pages_full = 8;
  Request scored = request(260, 200);
  scored.prompt_top_logprobs = 0;
  add(request(100, 300));
  add(scored);
  while (core().stats().preemptions == 0) core().step();
  while (!core().idle()) {
    const int64_t before = core().stats().computed_tokens;
    core().step();
    EXPECT_LE(core().stats().computed_tokens - before, 64 + 1);
  }
  EXPECT_GT(core().stats().recomputations, 0);
  EXPECT_EQ(logs[2].tokens(), alone(scored).tokens());
}

// A window of 205 and a chunk of 64 want six sliding pages. There are five: such a sequence starts only while it is
// alone, and what it takes is then not there for the next.
TEST_F(CoreSwapTest, WhoStartsAloneLeavesNoRoomForTheNext) {
  fake.window = 205;
  fake.pages_sliding = 5;
  Log& long_one = add(request(60, 400));
  add(request(100, 150));  // preempted first
  while (long_one.tokens().size() < 280) core().step();
  Request urgent = request(10, 100);
  urgent.priority = -1;
  Log& third = add(urgent);
  while (!third.finish()) core().step();
  EXPECT_EQ(core().stats().preemptions, 2);
  finish_all();
  EXPECT_EQ(long_one.tokens(), alone(request(60, 400)).tokens());
  EXPECT_EQ(logs[2].tokens(), alone(request(100, 150)).tokens());
}

TEST_F(CoreSwapTest, ACancelledSequenceLeavesHostMemory) {
  crowd();
  step_until_swapped();
  core().cancel(RequestId(3));
  EXPECT_EQ(core().stats().swap_bytes_used, 0);
  EXPECT_EQ(logs[3].finish(), FinishReason::kAbort);
  finish_all();
  EXPECT_EQ(logs[1].tokens(), alone(request(60, 200)).tokens());
}

TEST_F(CoreSwapTest, AnExpiredSequenceToo) {
  fake.pages_full = 8;
  fake.clock = &clock;
  fake.step_ns = 1000;
  add(request(60, 200));
  add(request(61, 200));
  Request timed = request(62, 200);
  timed.deadline_ns = 300000;
  Log& log = add(timed);
  step_until_swapped();
  clock.advance_ns(300000);
  core().step();
  EXPECT_EQ(log.finish(), FinishReason::kError);
  EXPECT_EQ(core().stats().swap_bytes_used, 0);
  finish_all();
}

TEST_F(CoreSwapTest, AFailedCopyFailsAll) {
  for (const int64_t call : {0, 2, 5}) {
    start_over();
    fake.pages_full = 8;
    FakeFaults faults;
    faults.swap_error_call = call;
    executor().set_faults(std::move(faults));
    crowd();
    while (!core().idle()) core().step();
    EXPECT_FALSE(core().healthy());
    EXPECT_NE(core().fault().find("injected"), std::string::npos);
    for (uint64_t i = 1; i <= 3; ++i) EXPECT_TRUE(logs[i].finish().has_value());
    EXPECT_EQ(core().stats().pages_full_free, core().stats().pages_full);
    EXPECT_EQ(core().stats().swap_bytes_used, 0);
  }
}

TEST_F(CoreSwapTest, SharedPagesAreStoredOnceAndTakenFromTheCacheAgain) {
  fake.pages_full = 12;
  Request shared = request(260, 150);
  shared.choices = 4;
  shared.sampling.seed = 3;
  add(shared);
  finish_all();
  const EngineStats stats = core().stats();
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_EQ(stats.recomputations, 0);
  // Each preemption needs the 4 shared pages and up to 3 of its own in both pools; the shared ones stay where they are.
  EXPECT_LT(stats.swapped_in_pages, stats.preemptions * 6);
  EXPECT_EQ(stats.output_tokens, 600);
}

TEST_F(CoreSwapTest, PreemptedSequencesReturnInTheirOrder) {
  crowd();
  int32_t returned = 0;
  std::set<uint64_t> away;
  while (!core().idle()) {
    core().step();
    std::set<uint64_t> away_now;
    for (const auto& [id, state] : core().requests()) {
      const Sequence& sequence = state->sequences[0];
      if (sequence.preempted && sequence.state == SequenceState::kWaiting) away_now.insert(id.value);
    }
    // Whoever came back in this step leaves nobody behind who was away before and is older.
    for (const uint64_t id : away) {
      if (away_now.count(id) > 0) continue;
      ++returned;
      for (const uint64_t other : away)
        EXPECT_FALSE(other < id && away_now.count(other) > 0) << other << " waits, " << id << " runs";
    }
    away = away_now;
  }
  EXPECT_GT(returned, 0);
}

}  // namespace
}  // namespace boreas
