// EngineCore, one behaviour a test; the simulation in tests/sim covers their mixtures.
#include "engine/core_testing.h"
#include "exec/fake/fake_executor.h"

namespace boreas {
namespace {

using CoreTest = CoreFixture<FakeExecutor, FakeOptions>;

TEST_F(CoreTest, AnArrivalDuringAnotherRequestGetsItsFirstTokenAtOnce) {
  Log& first = add(request(20, 200));
  while (first.tokens().size() < 10) core().step();
  Log& second = add(request(20, 5));
  core().step();
  EXPECT_EQ(second.tokens().size(), 1u);
  EXPECT_EQ(first.tokens().size(), 11u);
  finish_all();
  EXPECT_EQ(first.tokens().size(), 200u);
  EXPECT_EQ(first.finish(), FinishReason::kLength);
}

TEST_F(CoreTest, ALongPrefillDoesNotStopDecodes) {
  options.step_tokens_max = 32;
  Log& decoding = add(request(4, 300));
  core().step();
  Log& long_one = add(request(2000, 3));
  Log& short_one = add(request(30, 3));
  int steps = 0;
  for (; long_one.tokens().empty(); ++steps) {
    const size_t before = decoding.tokens().size();
    core().step();
    ASSERT_EQ(decoding.tokens().size(), before + 1);
    EXPECT_EQ(short_one.tokens().empty(), steps < 1);  // half of 31 tokens a step
  }
  EXPECT_LE(steps, 2000 / 31 + 5);
  finish_all();
}

TEST_F(CoreTest, StopIdsMaxTokensAndContext) {
  fake.script = [](std::span<const TokenId>, int32_t index) { return index == 4 ? 7 : 1; };
  fake.context_max = 64;
  Request stops = request(5, 50);
  stops.stop_ids = {9, 7};
  Log& stop = add(stops);
  Log& length = add(request(5, 2));
  Log& context = add(request(60, 50));
  finish_all();
  EXPECT_EQ(stop.finish(), FinishReason::kStop);
  EXPECT_EQ(stop.tokens(), (std::vector<TokenId>{1, 1, 1, 1, 7}));
  EXPECT_EQ(length.finish(), FinishReason::kLength);
  EXPECT_EQ(length.tokens().size(), 2u);
  EXPECT_EQ(context.finish(), FinishReason::kLength);
  EXPECT_EQ(context.tokens().size(), 4u);
  EXPECT_EQ(stop.events.back().output_tokens, 5);
}

TEST_F(CoreTest, TheContextIsNeverMoreThanThePools) {
  fake.pages_full = 5;
  EXPECT_EQ(core().limits().context_max, 320);
  EXPECT_TRUE(never_fits(core().limits(), request(320, 1)));
  EXPECT_FALSE(never_fits(core().limits(), request(320, 0)));
  Log& log = add(request(200, 1000));
  finish_all();
  EXPECT_EQ(log.finish(), FinishReason::kLength);
  EXPECT_EQ(log.tokens().size(), 120u);
}

TEST_F(CoreTest, PreemptionIsExactAndInOrder) {
  for (const bool one_arithmetic : {true, false}) {
    FakeOptions small = fake;
    small.pages_full = 8;
    small.one_arithmetic = one_arithmetic;
    FakeExecutor shared(small);
    EngineCore together(shared, options, clock);
    std::vector<Log> together_logs(3);
    std::vector<uint64_t> ended;
    for (size_t i = 0; i < 3; ++i) {
      together.add(RequestId(i + 1), request(60 + static_cast<int32_t>(i), 200),
                   [&ended, &log = together_logs[i]](TokenEvent&& event) {
                     if (event.finish) ended.push_back(event.request.value);
                     log.events.push_back(event);
                   });
    }
    bool oldest_started = false;
    while (!together.idle()) {
      together.step();
      const auto oldest = together.requests().find(RequestId(1));
      if (oldest == together.requests().end()) continue;
      const bool runs = oldest->second->sequences[0].state == SequenceState::kRunning;
      EXPECT_TRUE(runs || !oldest_started);  // the youngest are preempted
      oldest_started = oldest_started || runs;
    }
    EXPECT_EQ(ended, (std::vector<uint64_t>{1, 2, 3}));
    EXPECT_GT(together.stats().preemptions, 0);
    for (size_t i = 0; i < 3; ++i) {
      const Request same = request(60 + static_cast<int32_t>(i), 200);
      EXPECT_EQ(together_logs[i].tokens(), alone(same, small, options).tokens());
    }
    EXPECT_EQ(together.stats().output_tokens, 600);
  }
}

// Three small ones fit beside the first, so several start in one step, and 32 is no multiple of three.
TEST_F(CoreTest, ALargeRequestIsOvertaken32Times) {
  fake.pages_full = 10;
  options.context_max = 640;
  Log& first = add(request(384, 60));  // 7 pages
  core().step();
  Log& large = add(request(500, 1));  // 8
  for (int i = 0; i < 200; ++i) add(request(10, 1));
  const auto overtook = [&] {
    int count = 0;
    for (const auto& [id, log] : logs) count += id > 2 && !log.tokens().empty();
    return count;
  };
  while (!first.finish()) core().step();
  EXPECT_EQ(overtook(), EngineCore::kBypassMax);
  EXPECT_TRUE(large.tokens().empty());
  finish_all();
  EXPECT_EQ(large.finish(), FinishReason::kLength);
}

// Each time: one that ran and was preempted is overtaken anew, and no more often.
TEST_F(CoreTest, APreemptedRequestIsOvertaken32TimesToo) {
  fake.pages_full = 10;
  options.context_max = 640;
  add(request(300, 200));  // 5 pages, at last 8
  Log& large = add(request(250, 100));
  const auto is_away = [&] {
    const auto found = core().requests().find(RequestId(2));
    return found != core().requests().end() && found->second->sequences[0].preempted;
  };
  while (!is_away()) core().step();
  const size_t before = large.tokens().size();
  EXPECT_GT(before, 0u);
  for (int i = 0; i < 200; ++i) add(request(10, 1));
  int overtook = 0;
  while (large.tokens().size() == before) {
    overtook = 0;
    for (const auto& [id, log] : logs) overtook += id > 2 && !log.tokens().empty();
    core().step();
  }
  EXPECT_EQ(overtook, EngineCore::kBypassMax);
  finish_all();
}

TEST_F(CoreTest, PrioritiesRunFirst) {
  options.running_max = 1;
  add(request(10, 5));
  core().step();
  Log& later = add(request(10, 5));
  Request urgent_request = request(10, 5);
  urgent_request.priority = -1;
  Log& urgent = add(urgent_request);
  while (!urgent.finish()) core().step();
  EXPECT_TRUE(later.tokens().empty());
  finish_all();
}

TEST_F(CoreTest, ChoicesSharePromptPages) {
  Request shared = request(300, 10);
  shared.choices = 4;
  shared.sampling.seed = 5;
  Log& log = add(shared);
  int32_t used_max = 0;
  while (!core().idle()) {
    core().step();
    used_max = std::max(used_max, core().stats().pages_full - core().stats().pages_full_free);
  }
  EXPECT_EQ(used_max, 4 + 4);  // 4 shared pages and one for each choice
  EXPECT_LT(executor().tokens_computed(), 300 + 3 * 66 + 4 * 10);
  for (int32_t choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(log.tokens(choice).size(), 10u);
    EXPECT_EQ(log.finish(choice), FinishReason::kLength);
  }
  EXPECT_NE(log.tokens(0), log.tokens(1));
  finish_all();
}

TEST_F(CoreTest, CancelOfOneChoiceLeavesTheOthers) {
  options.step_tokens_max = 32;
  Request shared = request(300, 10);
  shared.choices = 3;
  Log& log = add(shared);
  core().step();
  core().cancel(RequestId(1), 0);  // the choice that the others wait for
  EXPECT_EQ(log.finish(0), FinishReason::kAbort);
  finish_all();
  EXPECT_TRUE(log.tokens(0).empty());
  EXPECT_EQ(log.tokens(1).size(), 10u);
  EXPECT_EQ(log.tokens(2).size(), 10u);
  core().cancel(RequestId(1));  // long gone
  core().cancel(RequestId(77));
}

TEST_F(CoreTest, ScoringComesInSlicesAndCountsNothing) {
  Request scored = request(200, 0);
  scored.prompt_top_logprobs = 2;
  scored.choices = 2;
  Log& log = add(scored);
  Request both = request(150, 4);
  both.prompt_top_logprobs = 0;
  both.sampling.min_tokens = 2;
  Log& with_output = add(both);
  finish_all();
  ASSERT_EQ(log.events.size(), 2u);
  EXPECT_EQ(log.finish(0), FinishReason::kLength);
  EXPECT_EQ(log.finish(1), FinishReason::kLength);
  const auto& scores = log.events.back().prompt_logprobs;
  ASSERT_EQ(scores.size(), 199u);
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].id, scored.prompt[i + 1]);
    EXPECT_EQ(scores[i].top.size(), 2u);
  }
  ASSERT_EQ(with_output.events.size(), 4u);
  EXPECT_EQ(with_output.events[0].prompt_logprobs.size(), 149u);
  EXPECT_EQ(with_output.tokens().size(), 4u);
  EXPECT_EQ(core().stats().prompt_tokens, 350);
}

TEST_F(CoreTest, CorruptedLogitsFailOneRequest) {
  FakeFaults faults;
  faults.corrupt_row = [](int64_t step, const StepRow& row) { return step == 5 && row.slot == 0; };
  executor().set_faults(std::move(faults));
  Log& bad = add(request(10, 20));
  Log& good = add(request(11, 20));
  finish_all();
  EXPECT_EQ(bad.finish(), FinishReason::kError);
  EXPECT_FALSE(bad.events.back().error.empty());
  EXPECT_EQ(good.tokens().size(), 20u);
  EXPECT_TRUE(core().healthy());
}

TEST_F(CoreTest, AnExecutorFaultFailsAll) {
  fake.steps_in_flight_max = 2;
  FakeFaults faults;
  faults.wait_error_step = 4;
  executor().set_faults(std::move(faults));
  Log& one = add(request(10, 20));
  Log& two = add(request(10, 20));
  while (!core().idle()) core().step();
  EXPECT_FALSE(core().healthy());
  EXPECT_EQ(one.finish(), FinishReason::kError);
  EXPECT_EQ(two.finish(), FinishReason::kError);
  EXPECT_NE(two.events.back().error.find("injected fault"), std::string::npos);
  EXPECT_EQ(core().stats().pages_full_free, core().stats().pages_full);
  Log& after = add(request(10, 20));
  EXPECT_EQ(after.finish(), FinishReason::kError);
}

TEST_F(CoreTest, DeadlinesEndWaitingAndRunningRequests) {
  fake.clock = &clock;
  fake.step_ns = 1000;
  options.running_max = 1;
  Request first = request(10, 1000);
  first.deadline_ns = 20000;
  Log& running = add(first);
  first.deadline_ns = 10000;
  Log& waiting = add(first);
  finish_all();
  EXPECT_EQ(running.finish(), FinishReason::kError);
  EXPECT_NE(running.events.back().error.find("deadline"), std::string::npos);
  EXPECT_EQ(running.tokens().size(), 20u);
  EXPECT_EQ(waiting.finish(), FinishReason::kError);
  EXPECT_TRUE(waiting.tokens().empty());
}

TEST_F(CoreTest, AWindowOf4096HoldsAtMost65SlidingPages) {
  fake.window = 4096;
  fake.context_max = 6000;
  fake.pages_full = 100;
  fake.pages_sliding = 120;
  fake.tokens_max = 1024;
  Log& log = add(request(5000, 200));
  while (log.tokens().empty()) core().step();
  core().step();
  while (!core().idle()) {
    EXPECT_LE(core().stats().pages_sliding - core().stats().pages_sliding_free, 65);
    core().step();
  }
  finish_all();
}

TEST_F(CoreTest, PlansInFlightKeepTheTextAndDropTheExtraRow) {
  std::vector<TokenId> text;
  for (const int32_t in_flight : {1, 2, 3}) {
    FakeOptions deep = fake;
    deep.steps_in_flight_max = in_flight;
    FakeExecutor deep_executor(deep);
    EngineCore deep_core(deep_executor, options, clock);
    Log log;
    Request stops = request(70, 200);
    stops.sampling.temperature = 0.9f;
    stops.sampling.frequency_penalty = 0.5f;
    stops.sampling.min_tokens = 30;
    stops.stop_ids = stops.sampling.suppressed_ids = {1, 2, 3, 4, 5, 6};
    deep_core.add(RequestId(1), stops, [&log](TokenEvent&& event) { log.events.push_back(event); });
    while (!deep_core.idle()) deep_core.step();
    EXPECT_EQ(log.finish(), FinishReason::kStop);
    if (in_flight == 1) text = log.tokens();
    EXPECT_EQ(log.tokens(), text);
    EXPECT_EQ(deep_executor.steps(), static_cast<int64_t>(text.size()) + in_flight - 1);
  }
}

}  // namespace
}  // namespace boreas
