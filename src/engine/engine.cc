// The Engine's thread and its inbox. Everything else is EngineCore, which only that thread touches.
//
// Shared state is small and under one mutex: what callers hand in (requests, cancels, orders) and what the thread
// publishes after each step (stats). Without work the thread sleeps on a condition variable; nothing polls.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engine/core.h"
#include "engine/queue_pace.h"

namespace boreas {

namespace {

constexpr int64_t kDrainMsMax = int64_t{1} << 40;  // 34 years; in nanoseconds an int64_t still counts them

EngineOptions with_hash_seed(EngineOptions options) {
  std::random_device device;
  while (options.prefix_hash_seed == 0) options.prefix_hash_seed = uint64_t{device()} << 32 | device();
  return options;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Executor& executor, const EngineOptions& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        core_(executor, with_hash_seed(options), clock),
        limits_(core_.limits()),
        published_(core_.stats()) {
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  Submitted submit(Request request, EventSink sink) {
    if (never_fits(limits_, request)) return {SubmitError::kNeverFits, {}, 0};
    const auto tokens = static_cast<int64_t>(request.prompt.size());
    Submitted submitted;
    {
      const std::lock_guard lock(mutex_);
      if (!published_.healthy) return {SubmitError::kDead, {}, 0};
      if (draining_ || stopping_) return {SubmitError::kDraining, {}, 0};
      if (queued() == 0 && published_.running == 0) pace_.begin(clock_.now_ns());
      if (queue_full(tokens)) return {SubmitError::kQueueFull, {}, pace_.retry_after_ms(clock_.now_ns(), queued())};
      submitted.id = RequestId(next_id_++);
      inbox_tokens_ += tokens;
      inbox_.push_back({submitted.id, std::move(request), std::move(sink)});
    }
    wake_.notify_one();
    return submitted;
  }

  void cancel(RequestId id, int32_t choice, FinishReason reason) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      cancels_.push_back({id, choice, reason});
    }
    wake_.notify_one();
  }

  EngineStats stats() const {
    const std::lock_guard lock(mutex_);
    EngineStats stats = published_;
    stats.waiting += static_cast<int32_t>(inbox_.size());
    stats.waiting_tokens += inbox_tokens_;
    stats.draining = draining_ || stopping_;
    return stats;
  }

  void drain(int64_t timeout_ms) {
    std::unique_lock lock(mutex_);
    draining_ = true;
    const auto finished = [this] { return inbox_.empty() && !busy_; };
    const std::chrono::milliseconds timeout(std::clamp<int64_t>(timeout_ms, 0, kDrainMsMax));
    if (idle_.wait_for(lock, timeout, finished)) return;
    abort_ = true;
    wake_.notify_one();
    idle_.wait(lock, finished);
  }

  void set_step_hook(std::function<void()> hook) {
    const std::lock_guard lock(mutex_);
    step_hook_ = std::make_shared<const std::function<void()>>(std::move(hook));
  }

  void set_fault_hook(std::function<void(const std::string&)> hook) {
    const std::lock_guard lock(mutex_);
    fault_hook_ = std::move(hook);
  }

  int32_t context_max() const { return limits_.context_max; }
  int32_t running_max() const { return limits_.running_max; }

 private:
  struct Submission {
    RequestId id;
    Request request;
    EventSink sink;
  };
  struct Cancel {
    RequestId id;
    int32_t choice = -1;
    FinishReason reason = FinishReason::kAbort;
  };
  struct Orders {
    std::vector<Submission> inbox;
    std::vector<Cancel> cancels;
    bool abort = false;
    bool stop = false;
  };

  // Requests of which nothing runs.
  int64_t queued() const { return static_cast<int64_t>(inbox_.size()) + waiting_; }

  // As many as could start at once do not fill the queue.
  bool queue_full(int64_t tokens) const {
    const int32_t idle_places = std::max(limits_.running_max - published_.running, 0);
    const int64_t queued_tokens = inbox_tokens_ + published_.waiting_tokens;
    if (queued() >= int64_t{options_.waiting_max} + idle_places) return true;
    return queued() > 0 && queued_tokens + tokens > options_.waiting_tokens_max;
  }

  Orders take_orders() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stopping_ || abort_ || !inbox_.empty() || !cancels_.empty() || !core_.idle(); });
    Orders orders;
    orders.inbox.swap(inbox_);
    orders.cancels.swap(cancels_);
    orders.abort = std::exchange(abort_, false);
    orders.stop = stopping_;
    // Until the next publish() the requests taken count as before.
    waiting_ += static_cast<int64_t>(orders.inbox.size());
    published_.waiting += static_cast<int32_t>(orders.inbox.size());
    published_.waiting_tokens += std::exchange(inbox_tokens_, 0);
    busy_ = true;
    return orders;
  }

  void run() {
    for (;;) {
      Orders orders = take_orders();
      const int64_t events_before = core_.events();
      const bool healthy_before = core_.healthy();
      for (Submission& submission : orders.inbox) {
        core_.add(submission.id, std::move(submission.request), std::move(submission.sink));
      }
      for (const Cancel& cancel : orders.cancels) core_.cancel(cancel.id, cancel.choice, cancel.reason);
      if (orders.abort || orders.stop) core_.abort_all();
      if (!core_.idle()) core_.step();
      while (orders.stop && !core_.idle()) core_.step();  // steps in flight point into the core
      publish(core_.events() != events_before, healthy_before && !core_.healthy());
      if (orders.stop) return;
    }
  }

  void publish(bool has_events, bool has_fault) {
    std::shared_ptr<const std::function<void()>> step_hook;
    std::function<void(const std::string&)> fault_hook;
    {
      const std::lock_guard lock(mutex_);
      published_ = core_.stats();
      waiting_ = core_.requests_waiting();
      const bool must_wait = waiting_ > 0 || published_.running >= limits_.running_max;
      pace_.observe(clock_.now_ns(), must_wait, core_.requests_started());
      if (has_events) step_hook = step_hook_;
      if (has_fault) fault_hook = fault_hook_;
    }
    if (step_hook != nullptr && *step_hook) (*step_hook)();
    if (fault_hook) fault_hook(core_.fault());
    if (!core_.idle()) return;
    // Only now: who waits for the end has also had its hooks called.
    const std::lock_guard lock(mutex_);
    busy_ = false;
    idle_.notify_all();
  }

  const EngineOptions options_;
  const Clock& clock_;
  EngineCore core_;  // the thread's
  const EngineLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // waited on by the thread
  std::condition_variable idle_;  // waited on by drain()
  std::vector<Submission> inbox_;
  int64_t inbox_tokens_ = 0;
  std::vector<Cancel> cancels_;
  bool draining_ = false;
  bool stopping_ = false;
  bool abort_ = false;
  bool busy_ = false;  // the thread holds requests
  uint64_t next_id_ = 1;
  int64_t waiting_ = 0;  // requests in the core
  QueuePace pace_;
  EngineStats published_;
  std::shared_ptr<const std::function<void()>> step_hook_;
  std::function<void(const std::string&)> fault_hook_;
  std::thread thread_;
};

Engine::Engine(Executor& executor, const EngineOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(executor, options, clock)) {}
Engine::~Engine() = default;
Engine::Submitted Engine::submit(Request request, EventSink sink) {
  return impl_->submit(std::move(request), std::move(sink));
}
void Engine::cancel(RequestId id, int32_t choice, FinishReason reason) { impl_->cancel(id, choice, reason); }
EngineStats Engine::stats() const { return impl_->stats(); }
int32_t Engine::context_max() const { return impl_->context_max(); }
int32_t Engine::running_max() const { return impl_->running_max(); }
void Engine::drain(int64_t timeout_ms) { impl_->drain(timeout_ms); }
void Engine::set_step_hook(std::function<void()> hook) { impl_->set_step_hook(std::move(hook)); }
void Engine::set_fault_hook(std::function<void(const std::string&)> hook) { impl_->set_fault_hook(std::move(hook)); }

}  // namespace boreas
