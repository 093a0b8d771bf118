// The Engine's thread: requests, cancels and statistics from many threads at once. Run under TSan as well.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <future>
#include <mutex>
#include <thread>

#include "base/prng.h"
#include "engine/engine.h"
#include "exec/fake/fake_executor.h"
#include "lone_run.h"
#include "seeds.h"

namespace boreas {
namespace {

// A client's view of one request; finished() can be waited for.
class Listener {
 public:
  EventSink sink() {
    return [this](TokenEvent&& event) {
      const std::lock_guard lock(mutex_);
      for (const SampledToken& token : event.tokens) tokens_.push_back(token.id);
      if (event.finish) {
        EXPECT_FALSE(finish_.has_value());
        finish_ = event.finish;
        changed_.notify_all();
      }
    };
  }
  FinishReason finished() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finish_.has_value(); });
    return *finish_;
  }
  std::vector<TokenId> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  std::optional<FinishReason> finish_;
};

// Stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }
  void advance_ms(int64_t ms) { now_ns_ += ms * 1'000'000; }

 private:
  std::atomic<int64_t> now_ns_ = 1;
};

Request some_request(Prng& prng) {
  Request request;
  for (uint32_t i = 1 + prng.below(150); i > 0; --i) request.prompt.push_back(static_cast<TokenId>(prng.below(64)));
  request.max_tokens = static_cast<int32_t>(1 + prng.below(40));
  request.sampling.seed = prng.next_u64();
  return request;
}

void many_threads_submit_and_cancel(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  FakeOptions fake;
  fake.pages_full = 20;
  fake.steps_in_flight_max = 2;
  FakeExecutor executor(fake);
  SteadyClock clock;
  std::atomic<int> flushes = 0;
  std::atomic<int> complete = 0;
  {
    Engine engine(executor, {}, clock);
    engine.set_step_hook([&flushes] { ++flushes; });
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Prng prng(100 * seed + t);
        for (int i = 0; i < 40; ++i) {
          const Request request = some_request(prng);
          Listener listener;
          const auto submitted = engine.submit(request, listener.sink());
          ASSERT_FALSE(submitted.error.has_value());
          (void)engine.stats();
          const bool cancelled = prng.below(3) == 0;
          if (cancelled) engine.cancel(submitted.id);
          const FinishReason reason = listener.finished();
          if (reason == FinishReason::kAbort) {
            EXPECT_TRUE(cancelled);
            continue;
          }
          ++complete;
          std::vector<TokenId> alone;
          for (const auto& token : lone_run(fake, request, 0, engine.context_max()).tokens) alone.push_back(token.id);
          EXPECT_EQ(listener.tokens(), alone);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.drain(60000);
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.running + stats.waiting, 0);
    EXPECT_EQ(stats.pages_full_free, stats.pages_full);
    EXPECT_TRUE(stats.draining);
    Prng prng(1);
    EXPECT_EQ(engine.submit(some_request(prng), [](TokenEvent&&) {}).error, SubmitError::kDraining);
  }
  EXPECT_GT(flushes, 0);
  EXPECT_GT(complete, 60);
  EXPECT_EQ(executor.wrong_reads(), 0);
}

TEST(EngineThread, ManyThreadsSubmitAndCancel) {
  for (Seeds seeds(1, 4); seeds.next() && !::testing::Test::HasFailure();) many_threads_submit_and_cancel(seeds.seed());
}

TEST(EngineThread, QueueLimits) {
  FakeOptions fake;
  fake.step_ns = 10000000;
  fake.context_max = 10000;
  FakeExecutor executor(fake);
  SteadyClock clock;
  EngineOptions options;
  options.running_max = 1;
  options.waiting_max = 2;
  options.waiting_tokens_max = 100;
  Engine engine(executor, options, clock);
  Request request;
  request.prompt.assign(40, 1);
  request.max_tokens = 9000;  // 90 s
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<RequestId> ids;
  std::optional<SubmitError> error;
  while (!error && listeners.size() < 10) {
    listeners.push_back(std::make_unique<Listener>());
    const auto submitted = engine.submit(request, listeners.back()->sink());
    error = submitted.error;
    if (!error) ids.push_back(submitted.id);
  }
  EXPECT_EQ(error, SubmitError::kQueueFull);
  EXPECT_LE(ids.size(), 3u);
  request.prompt.assign(20000, 1);
  EXPECT_EQ(engine.submit(request, [](TokenEvent&&) {}).error, SubmitError::kNeverFits);
  for (const RequestId id : ids) engine.cancel(id);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(listeners[i]->finished(), FinishReason::kAbort);
}

TEST(EngineThread, ARefusedRequestHearsWhenToComeBack) {
  FakeOptions fake;
  fake.step_ns = 5000000;
  fake.context_max = 10000;
  fake.script = [](std::span<const TokenId>, int32_t) { return 1; };
  FakeExecutor executor(fake);
  ManualClock clock;
  EngineOptions options;
  options.running_max = 1;
  options.waiting_max = 2;
  Engine engine(executor, options, clock);
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 9000;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<RequestId> ids;
  const auto submit = [&] {
    listeners.push_back(std::make_unique<Listener>());
    return engine.submit(request, listeners.back()->sink());
  };
  const auto refused_for_ms = [&] {
    const auto submitted = engine.submit(request, [](TokenEvent&&) {});
    EXPECT_EQ(submitted.error, SubmitError::kQueueFull);
    return submitted.retry_after_ms;
  };
  const auto wait_until_running = [&] {
    while (engine.stats().running == 0) std::this_thread::yield();
  };
  ids.push_back(submit().id);
  wait_until_running();
  for (int i = 0; i < 2; ++i) ids.push_back(submit().id);
  EXPECT_EQ(refused_for_ms(), 1000);
  clock.advance_ms(4000);  // nobody has left the queue: one every 4 s at best, and there are three with this one
  EXPECT_EQ(refused_for_ms(), 12000);
  engine.cancel(ids[0]);
  EXPECT_EQ(listeners[0]->finished(), FinishReason::kAbort);
  while (engine.stats().waiting == 2 || engine.stats().running == 0) std::this_thread::yield();
  ids.push_back(submit().id);
  EXPECT_EQ(refused_for_ms(), 6000);  // one has left in these 4 s
  clock.advance_ms(1000000);
  EXPECT_EQ(refused_for_ms(), 60000);
  const auto cancel_all = [&] {
    for (const RequestId id : ids) engine.cancel(id);
    for (const auto& listener : listeners) EXPECT_EQ(listener->finished(), FinishReason::kAbort);
  };
  cancel_all();
  // The idle time before a burst does not count, also if the queue is full before the first step is over.
  while (engine.stats().running + engine.stats().waiting > 0) std::this_thread::yield();
  clock.advance_ms(3600000);
  for (int i = 0; i < 3; ++i) ids.push_back(submit().id);
  EXPECT_EQ(refused_for_ms(), 1000);
  cancel_all();
}

// Drains, statistics, hooks, cancels of ids that never were, and submissions until the first drain is noticed.
TEST(EngineThread, EverythingAtOnce) {
  FakeExecutor executor({});
  SteadyClock clock;
  EngineOptions options;
  options.waiting_max = 16;
  std::atomic<int> ended = 0;
  {
    Engine engine(executor, options, clock);
    std::vector<std::thread> threads;
    std::atomic<int> submitted = 0;
    for (uint64_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        Prng prng(t);
        for (;;) {
          const auto result = engine.submit(some_request(prng), [&ended](TokenEvent&& event) {
            if (event.finish) ++ended;
          });
          if (result.error == SubmitError::kDraining) return;
          if (result.error) continue;  // full
          ++submitted;
          engine.cancel(RequestId(prng.next_u64()));
          engine.cancel(result.id, 7);
        }
      });
    }
    for (int i = 0; i < 200; ++i) {
      engine.set_step_hook([i] { (void)i; });
      engine.set_fault_hook([i](const std::string&) { (void)i; });
      (void)engine.stats();
    }
    while (submitted < 20) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) threads.emplace_back([&engine] { engine.drain(INT64_MAX); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ended, submitted);
    engine.drain(-1);
  }
  EXPECT_EQ(executor.open_slots(), 0);
}

TEST(EngineThread, DrainCancelsWhatIsLeft) {
  FakeOptions fake;
  fake.step_ns = 20000000;  // 80 s of work: there is something left however slow the machine is
  FakeExecutor executor(fake);
  SteadyClock clock;
  Engine engine(executor, {}, clock);
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4000;
  Listener listener;
  ASSERT_FALSE(engine.submit(request, listener.sink()).error.has_value());
  engine.drain(20);
  EXPECT_EQ(listener.finished(), FinishReason::kAbort);
}

TEST(EngineThread, DrainWithoutEndWaitsForAll) {
  FakeOptions fake;
  fake.step_ns = 5000000;
  FakeExecutor executor(fake);
  SteadyClock clock;
  Engine engine(executor, {}, clock);
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 20;
  Listener listener;
  ASSERT_FALSE(engine.submit(request, listener.sink()).error.has_value());
  engine.drain(INT64_MAX);
  EXPECT_EQ(listener.finished(), FinishReason::kLength);
}

TEST(EngineThread, DestructionCancelsWhatIsLeft) {
  FakeOptions fake;
  fake.step_ns = 20000000;
  fake.steps_in_flight_max = 2;
  FakeExecutor executor(fake);
  SteadyClock clock;
  Listener first, second;
  {
    Engine engine(executor, {}, clock);
    Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 4000;
    ASSERT_FALSE(engine.submit(request, first.sink()).error.has_value());
    ASSERT_FALSE(engine.submit(request, second.sink()).error.has_value());
  }
  EXPECT_EQ(first.finished(), FinishReason::kAbort);
  EXPECT_EQ(second.finished(), FinishReason::kAbort);
  EXPECT_EQ(executor.open_slots(), 0);
}

TEST(EngineThread, AFaultIsReportedOnceAndNothingIsAcceptedAfterwards) {
  FakeExecutor executor({});
  FakeFaults faults;
  faults.wait_error_step = 3;
  executor.set_faults(std::move(faults));
  SteadyClock clock;
  Engine engine(executor, {}, clock);
  std::promise<std::string> fault;
  engine.set_fault_hook([&fault](const std::string& message) { fault.set_value(message); });
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 100;
  Listener listener;
  ASSERT_FALSE(engine.submit(request, listener.sink()).error.has_value());
  EXPECT_EQ(listener.finished(), FinishReason::kError);
  EXPECT_NE(fault.get_future().get().find("injected"), std::string::npos);
  EXPECT_FALSE(engine.stats().healthy);
  EXPECT_EQ(engine.submit(request, [](TokenEvent&&) {}).error, SubmitError::kDead);
  engine.drain(1000);
}

TEST(EngineThread, ASinkMayCancel) {
  FakeExecutor executor({});
  SteadyClock clock;
  Engine engine(executor, {}, clock);
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4000;
  std::promise<int32_t> tokens;
  const EventSink sink = [&](TokenEvent&& event) {
    if (event.output_tokens == 5) engine.cancel(event.request);
    if (event.finish) tokens.set_value(event.output_tokens);
  };
  ASSERT_FALSE(engine.submit(request, sink).error.has_value());
  EXPECT_LE(tokens.get_future().get(), 6);
}

}  // namespace
}  // namespace boreas
