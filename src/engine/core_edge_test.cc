// EngineCore at its edges: the smallest pools, the longest prompts, one token, cancels at every step. What must come
// out is what a wide engine gives the same request alone.
#include <algorithm>

#include "engine/core_testing.h"
#include "exec/fake/fake_executor.h"

namespace boreas {
namespace {

using CoreTest = CoreFixture<FakeExecutor, FakeOptions>;

class CoreEdgeTest : public CoreTest {
 protected:
  // With all the pages in the world.
  std::vector<TokenId> alone_and_wide(const Request& wanted, int32_t choice) {
    FakeOptions wide;
    wide.window = fake.window;
    EngineOptions same_context;
    same_context.context_max = core().limits().context_max;
    return alone(wanted, wide, same_context).tokens(choice);
  }
  // All at once on a fresh engine, each equal to its run alone.
  void expect_alone(const std::vector<Request>& requests) {
    start_over();
    for (const Request& each : requests) add(each);
    finish_all();
    for (size_t i = 0; i < requests.size(); ++i) {
      for (int32_t choice = 0; choice < requests[i].choices; ++choice) {
        EXPECT_EQ(logs[i + 1].finish(choice), FinishReason::kLength) << i << " " << choice;
        EXPECT_EQ(logs[i + 1].tokens(choice), alone_and_wide(requests[i], choice)) << i << " " << choice;
      }
    }
    EXPECT_EQ(executor().wrong_reads() + executor().wrong_texts(), 0);
  }
};

TEST_F(CoreEdgeTest, PoolsOfOneToThreePages) {
  for (const int32_t pages : {1, 2, 3}) {
    for (const int32_t window : {0, 1, 64, 128}) {
      SCOPED_TRACE(std::to_string(pages) + " pages, window " + std::to_string(window));
      fake.pages_full = fake.pages_sliding = pages;
      fake.window = window;
      start_over();
      const int32_t context = core().limits().context_max;
      EXPECT_EQ(context, pages * kPagePositions);
      std::vector<Request> requests;
      for (const int32_t prompt : {1, 2, 3, 62, 63, 64, 65, 127, 128, context - 1}) {
        for (const int32_t choices : {1, 3}) {
          Request each = request(std::min(prompt, context - 1), INT32_MAX);
          each.choices = choices;
          each.sampling.seed = 9;
          requests.push_back(each);
        }
      }
      expect_alone(requests);
    }
  }
}

TEST_F(CoreEdgeTest, MoreChoicesThanSlots) {
  fake.sequence_slots = 1;
  fake.steps_in_flight_max = 2;
  Request wide = request(130, 5);
  wide.choices = 40;
  wide.sampling.temperature = 1;
  expect_alone({wide, request(64, 1), wide});
}

TEST_F(CoreEdgeTest, StepsOfTheFewestTokens) {
  options.step_tokens_max = kStepTokensMin;
  Request scored = request(70, 2);
  scored.prompt_top_logprobs = 0;
  expect_alone({request(64, 3), request(65, 1), scored, request(2, 70), scored});
}

TEST_F(CoreEdgeTest, AllOfTheContextIsPrompt) {
  options.context_max = 256;
  for (const int32_t max_tokens : {1, INT32_MAX}) expect_alone({request(255, max_tokens), request(192, 64)});
  start_over();
  Request scored = request(256, 0);
  scored.prompt_top_logprobs = 1;
  EXPECT_FALSE(never_fits(core().limits(), scored));
  EXPECT_TRUE(never_fits(core().limits(), request(256, 1)));
  Log& log = add(scored);
  Log& nothing = add(request(256, 0));
  finish_all();
  EXPECT_EQ(log.events.back().prompt_logprobs.size(), 255u);
  EXPECT_EQ(nothing.finish(), FinishReason::kLength);
  EXPECT_EQ(nothing.events.size(), 1u);
}

TEST_F(CoreEdgeTest, TheFirstTokenMayBeTheLast) {
  fake.steps_in_flight_max = 3;
  fake.script = [](std::span<const TokenId>, int32_t) { return 5; };
  Request stops = request(128, 100);
  stops.stop_ids = {5, 5, -1, INT32_MAX};
  stops.choices = 3;
  Log& stop = add(stops);
  Log& one = add(request(1, 1));
  finish_all();
  for (int32_t choice = 0; choice < 3; ++choice) EXPECT_EQ(stop.tokens(choice), std::vector<TokenId>{5});
  EXPECT_EQ(stop.finish(2), FinishReason::kStop);
  EXPECT_EQ(one.finish(), FinishReason::kLength);
}

TEST_F(CoreEdgeTest, PrioritiesFromEndToEnd) {
  options.running_max = 1;
  std::vector<uint64_t> order;
  uint64_t id = 0;
  for (const int32_t priority : {0, INT32_MAX, INT32_MIN, -1, INT32_MAX, INT32_MIN}) {
    Request each = request(10, 3);
    each.priority = priority;
    core().add(RequestId(++id), each, [&order](TokenEvent&& event) {
      if (event.finish) order.push_back(event.request.value);
    });
  }
  finish_all();
  EXPECT_EQ(order, (std::vector<uint64_t>{3, 6, 4, 1, 2, 5}));
}

TEST_F(CoreEdgeTest, DeadlinesLongPastAndFarAway) {
  clock.advance_ns(1000);
  Request late = request(200, 50);
  late.deadline_ns = 1;
  late.choices = 2;
  Log& past = add(late);
  Request patient = request(20, 50);
  patient.deadline_ns = INT64_MAX;
  Log& patient_log = add(patient);
  core().step();
  EXPECT_EQ(past.finish(0), FinishReason::kError);
  EXPECT_EQ(past.finish(1), FinishReason::kError);
  finish_all();
  EXPECT_EQ(patient_log.finish(), FinishReason::kLength);
}

// Every request of a crowd that is preempted, shares pages and scores is cancelled before every step.
TEST_F(CoreEdgeTest, ACancelAtAnyStepLeavesNothingBehind) {
  fake.pages_full = 8;
  fake.pages_sliding = 8;
  fake.steps_in_flight_max = 2;
  options.step_tokens_max = 60;
  options.swap_bytes_max = int64_t{1} << 20;
  std::vector<Request> crowd = {request(100, 60), request(130, 40), request(90, 50), request(128, 30)};
  crowd[1].choices = 3;
  crowd[2].prompt_top_logprobs = 0;
  int64_t preemptions = 0;
  bool ended_before = false;  // the last step was after the end
  for (int cancel_step = 0; !ended_before; ++cancel_step) {
    for (uint64_t victim = 1; victim <= crowd.size(); ++victim) {
      start_over();
      for (const Request& each : crowd) add(each);
      for (int step = 0; step < cancel_step && !core().idle(); ++step) core().step();
      ended_before = core().idle();
      core().cancel(RequestId(victim));
      finish_all();
      preemptions += core().stats().preemptions;
      EXPECT_EQ(core().stats().swap_bytes_used, 0);
      EXPECT_EQ(core().requests_waiting(), 0);
      EXPECT_TRUE(core().requests().empty());
      for (uint64_t i = 1; i <= crowd.size(); ++i) EXPECT_TRUE(logs[i].finish().has_value()) << cancel_step;
    }
    ASSERT_FALSE(HasFailure()) << "cancelled before step " << cancel_step;
  }
  EXPECT_GT(preemptions, 100);
}

// More and more urgent requests of two choices: the first choice of each ends before the second choice of any begins.
// None may drop out of what bounds the queue.
TEST_F(CoreEdgeTest, RequestsThatHaveBegunStillWait) {
  options.running_max = 1;
  for (int32_t i = 1; i <= 10; ++i) {
    Request urgent = request(20, 1);
    urgent.priority = -i;
    urgent.choices = 2;
    Log& log = add(urgent);
    while (!log.finish(0)) core().step();
    EXPECT_EQ(core().requests_waiting(), i);
    EXPECT_EQ(core().stats().waiting_tokens, 20 * i);
    EXPECT_EQ(core().requests_started(), i);
  }
  finish_all();
  EXPECT_EQ(core().requests_waiting(), 0);
  EXPECT_EQ(core().stats().waiting_tokens, 0);
  EXPECT_EQ(core().requests_started(), 10);
}

TEST_F(CoreEdgeTest, TextsThatNeverComeBackDoNotPileUp) {
  fake.pages_full = fake.pages_sliding = 8;
  for (int i = 0; i < 2000; ++i) {
    Request unique = request(130, 2);
    unique.cache_salt = "salt " + std::to_string(i);
    add(unique);
    finish_all();
  }
  // A root and two nodes of each text whose pages are still there, and those of the one that runs.
  EXPECT_LE(core().ledger().cache().nodes_end(), 2 * 8 + 3);
  EXPECT_EQ(core().stats().pages_full_cached, 7);  // the last page of a text is not whole
}

}  // namespace
}  // namespace boreas
