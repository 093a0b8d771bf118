// See interpreter.h. A worker belongs to whoever holds its gate, so its own state needs no locks; only hop epochs,
// gates and the counts of steps and progress cross threads.
#include "exec/cpu/interpreter.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace boreas::cpu {
namespace {

// Looks at the lists before a thread yields its processor: the most suffices for a hop between running threads; each
// time it did not, the thread halves its own, and wins it back bit by bit.
constexpr int32_t kLooksMax = 2000, kLooksMin = 30;
constexpr int32_t kLooksAtOwn = 64;  // every so many looks are at all workers
constexpr auto kYieldTime = std::chrono::milliseconds(1);
constexpr const char* kStuck = "waits in vain: no list of any worker can go on";

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// What a thread does that found nothing to run.
class Patience {
 public:
  bool asks_all() const { return yields_ || looks_ % kLooksAtOwn == kLooksAtOwn - 1; }
  void ran() {
    if (!yields_) looks_max_ = std::min(kLooksMax, looks_max_ + looks_max_ / 8);
    restart();
  }
  void restart() {
    looks_ = 0;
    yields_ = false;
  }
  // Pauses or yields; false: it is time to sleep.
  bool look_again() {
    if (++looks_ < looks_max_) {
      pause_cpu();
      return true;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!yields_) {
      yields_ = true;
      yield_end_ = now + kYieldTime;
      looks_max_ = std::max(kLooksMin, looks_max_ / 2);
    } else if (now >= yield_end_) {
      return false;
    }
    std::this_thread::yield();
    return true;
  }

 private:
  int32_t looks_ = 0, looks_max_ = kLooksMax;
  bool yields_ = false;
  std::chrono::steady_clock::time_point yield_end_;
};

void run_body(OpContext& context, const TaskDesc& task) {
  switch (static_cast<Op>(task.op)) {
#define BOREAS_RUN_BODY(enumerator, contract, name, role) \
  case Op::enumerator:                                    \
    run_##enumerator(context, task);                      \
    break;
    BOREAS_OPS(BOREAS_RUN_BODY)
#undef BOREAS_RUN_BODY
  }
}

}  // namespace

std::string Fault::describe(const Program& program) const {
  const std::span<const TaskDesc> list = program.list(worker, role);
  std::string name = "end of list";
  int32_t layer = -1;
  if (static_cast<size_t>(task) < list.size()) {
    name = op_name(static_cast<Op>(list[static_cast<size_t>(task)].op));
    layer = list[static_cast<size_t>(task)].layer;
  }
  return "worker " + std::to_string(worker) + " task " + std::to_string(task) + " (" + name + ", layer " +
         std::to_string(layer) + "): " + text;
}

// Threads 1 and up; thread 0 is the caller of run_step.
class Interpreter::Threads {
 public:
  explicit Threads(Interpreter& owner) : owner_(owner) {
    try {
      for (int32_t i = 1; i < owner.options_.threads; ++i) threads_.emplace_back([&owner, i] { owner.run_thread(i); });
    } catch (...) {  // no more threads to be had: the caller reports it
      stop();
      throw;
    }
  }
  ~Threads() { stop(); }

 private:
  void stop() {
    owner_.stop_.store(true, std::memory_order_relaxed);  // published by the count of progress
    owner_.advance();
    for (std::thread& thread : threads_) thread.join();
  }

  Interpreter& owner_;
  std::vector<std::thread> threads_;
};

Interpreter::Interpreter(Shared& shared, const InterpreterOptions& options) : shared_(shared), options_(options) {
  workers_.resize(static_cast<size_t>(shared.workers));
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i].id = static_cast<int32_t>(i);
  options_.threads = std::clamp(options.threads, 1, shared.workers);
  if (options_.interleave_seed) options_.threads = 1;
  gates_ = std::make_unique<Gate[]>(workers_.size());
  unfinished_.store(0, std::memory_order_relaxed);
  idle_ = std::make_unique<IdleMark[]>(static_cast<size_t>(options_.threads));
  threads_ = std::make_unique<Threads>(*this);
}

Interpreter::~Interpreter() = default;

std::optional<Fault> Interpreter::run_step() {
  if (fault_state_.load(std::memory_order_acquire) == FaultState::kNone) {
    begin_step();
    if (options_.interleave_seed) run_interleaved();
    else run_thread(0);
  }
  if (fault_state_.load(std::memory_order_acquire) == FaultState::kNone) {
    ++shared_.step;
    return {};
  }
  close_gates();
  return fault_;
}

// The last step is over, so nobody holds a gate; threads that have not noticed yet may join this step at once.
void Interpreter::begin_step() {
  for (Worker& worker : workers_) {
    std::fill(std::begin(worker.cursor), std::end(worker.cursor), 0);
    std::fill(std::begin(worker.arrivals), std::end(worker.arrivals), 0);
    worker.ring.clear();
    worker.bytes_read = 0;
    worker.experts_hit = 0;
  }
  if (options_.interleave_seed) return;
  unfinished_.store(shared_.workers, std::memory_order_release);
  for (size_t w = 0; w < workers_.size(); ++w) gates_[w].state.store(Gate::kOpen, std::memory_order_release);
  advance();
}

// After a fault nothing may touch what the caller is about to change: waits until no body runs and lets none begin.
void Interpreter::close_gates() {
  for (size_t w = 0; w < workers_.size(); ++w) {
    for (int32_t open = Gate::kOpen; !gates_[w].state.compare_exchange_weak(open, Gate::kClosed); open = Gate::kOpen) {
      if (open == Gate::kClosed) break;
      if (open == Gate::kHeld) std::this_thread::yield();
    }
  }
}

bool Interpreter::step_over() const {
  return unfinished_.load(std::memory_order_acquire) == 0 ||
         fault_state_.load(std::memory_order_acquire) == FaultState::kWritten;
}

bool Interpreter::ready(const Worker& worker, const TaskDesc& task) {
  for (const BarrierWait& wait : task.barriers)
    if (wait.id >= 0 && worker.arrivals[wait.id] < wait.target) return false;
  if (task.wait.hop < 0) return true;
  const int64_t epoch = shared_.epoch(task.wait.hop, task.wait.use);
  const HopBuffer& hop = shared_.hops[task.wait.hop];
  for (int32_t writer = task.wait.first; writer < task.wait.first + task.wait.count; ++writer) {
    const int64_t seen = hop.seen(writer, epoch);
    if (seen > epoch && epoch > 0) {
      report(worker, op_role(static_cast<Op>(task.op)),
             "hop word of worker " + std::to_string(writer) + " holds epoch " + std::to_string(seen) + ", wanted " +
                 std::to_string(epoch) + ": overwritten before it was read");
      return false;
    }
    if (seen < epoch) return false;
  }
  return true;
}

// A consumer takes the item at the ring's head; it must be the one it asks for.
bool Interpreter::take_item(Worker& worker, const TaskDesc& task) {
  if (worker.ring.empty()) return false;
  const StreamItem head = worker.ring.front();
  if (head.item != task.stream_item || head.layer != task.layer) {
    report(worker, Role::kConsumer,
           "the ring's head is item " + std::to_string(head.item) + " of layer " + std::to_string(head.layer) +
               ", wanted item " + std::to_string(task.stream_item));
    return false;
  }
  worker.ring.pop_front();
  return true;
}

Interpreter::Progress Interpreter::try_role(Worker& worker, Role role) {
  const std::span<const TaskDesc> list = shared_.program->list(worker.id, role);
  size_t& cursor = worker.cursor[static_cast<size_t>(role)];
  if (cursor == list.size()) return Progress::kDone;
  const TaskDesc& task = list[cursor];
  if (!ready(worker, task)) return Progress::kBlocked;
  if (role == Role::kProducer && worker.ring.size() >= static_cast<size_t>(shared_.program->ring_chunks))
    return Progress::kBlocked;
  if (role == Role::kConsumer && task.stream_item >= 0 && !take_item(worker, task)) return Progress::kBlocked;
  OpContext context{shared_, worker};
  run_body(context, task);
  finish(worker, task);
  ++cursor;
  return Progress::kRan;
}

void Interpreter::finish(Worker& worker, const TaskDesc& task) {
  if (task.publish.hop >= 0)
    shared_.hops[task.publish.hop].publish(worker.id, shared_.epoch(task.publish.hop, task.publish.use));
  if (task.arrive >= 0) ++worker.arrivals[task.arrive];
}

// As far as it gets; true if anything ran.
bool Interpreter::run_worker(Worker& worker, bool& done) {
  bool ran = false;
  done = true;
  for (Role role : {Role::kMessenger, Role::kRouter, Role::kProducer, Role::kConsumer}) {
    Progress progress = try_role(worker, role);
    while (progress == Progress::kRan) {
      ran = true;
      progress = try_role(worker, role);
    }
    done = done && progress == Progress::kDone;
  }
  return ran;
}

// If the worker is free; true if anything ran or the last of its lists is done.
bool Interpreter::visit(size_t index) {
  Gate& gate = gates_[index];
  if (gate.state.load(std::memory_order_relaxed) != Gate::kOpen) return false;
  int32_t open = Gate::kOpen;
  if (!gate.state.compare_exchange_strong(open, Gate::kHeld, std::memory_order_acquire)) return false;
  bool done = false;
  const bool ran = run_worker(workers_[index], done);
  gate.state.store(done ? Gate::kClosed : Gate::kOpen, std::memory_order_release);
  if (done) unfinished_.fetch_sub(1, std::memory_order_acq_rel);
  return ran || done;
}

// The thread's own workers (w mod threads), so that their state stays in its caches; with `all` then those of others,
// who may not be running at all.
bool Interpreter::visit_workers(int32_t thread, bool all) {
  const size_t stride = static_cast<size_t>(options_.threads);
  bool ran = false;
  for (size_t w = static_cast<size_t>(thread); w < workers_.size(); w += stride) ran |= visit(w);
  if (!all || ran) return ran;
  for (size_t i = 1; i < workers_.size() && !ran; ++i) ran = visit((static_cast<size_t>(thread) + i) % workers_.size());
  return ran;
}

void Interpreter::advance() {
  progress_.fetch_add(1, std::memory_order_acq_rel);
  progress_.notify_all();
}

// Thread 0 works until the step is over, the others as long as the interpreter lives.
void Interpreter::run_thread(int32_t thread) {
  std::atomic<int64_t>& mark = idle_[static_cast<size_t>(thread)].progress;
  Patience patience;
  while (thread == 0 ? !step_over() : !stop_.load(std::memory_order_relaxed)) {
    const uint32_t progress = progress_.load(std::memory_order_acquire);
    const bool all = patience.asks_all();
    if (!step_over() && visit_workers(thread, all)) {
      advance();
      patience.ran();
      continue;
    }
    if (patience.look_again() || !all) continue;
    mark.store(progress);
    if (!step_over() && nobody_can_run(progress)) report_stuck();
    progress_.wait(progress, std::memory_order_acquire);
    mark.store(IdleMark::kLooking);
    patience.restart();
  }
}

// Exact. Each thread stores its mark after a visit of all workers that began with reading `progress` and ran nothing.
// Suppose all marks equal `progress` and a task of worker W could still run. Of these visits look at the one that came
// last to W. It held W's gate: had another thread held it, that thread's own last visit would have come later. It found
// the task blocked, so a word that the task waits for was published later, by thread Y, which then raised the count
// before it read it again for its last visit. So the reader of W saw a count that Y had raised (acquire, from a chain
// of releases), and the word with it. A contradiction. Marks are stored and read in one total order, so of several
// threads that mark the last count at once, one sees all. Thread 0 has no such mark between steps.
bool Interpreter::nobody_can_run(uint32_t progress) const {
  for (int32_t thread = 0; thread < options_.threads; ++thread)
    if (idle_[static_cast<size_t>(thread)].progress.load() != int64_t{progress}) return false;
  return progress_.load() == progress;
}

void Interpreter::report_stuck() {
  for (Worker& worker : workers_)
    for (Role role : {Role::kProducer, Role::kRouter, Role::kMessenger, Role::kConsumer})
      if (worker.cursor[static_cast<size_t>(role)] < shared_.program->list(worker.id, role).size())
        return report(worker, role, kStuck);
}

// Every lane of every worker gets a random priority, redrawn now and then: some starve for a while, others race ahead.
void Interpreter::run_interleaved() {
  Prng prng(*options_.interleave_seed + 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(shared_.step));
  struct Lane {
    size_t worker;
    Role role;
  };
  std::vector<Lane> lanes;
  for (size_t w = 0; w < workers_.size(); ++w)
    for (int32_t role = 0; role < kRoles; ++role) lanes.push_back({w, static_cast<Role>(role)});
  uint32_t until_redraw = 0;
  while (fault_state_.load(std::memory_order_relaxed) == FaultState::kNone) {
    if (until_redraw-- == 0) {
      for (size_t i = lanes.size(); i > 1; --i) std::swap(lanes[i - 1], lanes[prng.below(static_cast<uint32_t>(i))]);
      until_redraw = 1 + prng.below(3 * static_cast<uint32_t>(lanes.size()));
    }
    bool ran = false, all_done = true;
    for (const Lane& lane : lanes) {
      const Progress progress = try_role(workers_[lane.worker], lane.role);
      all_done = all_done && progress == Progress::kDone;
      ran = progress == Progress::kRan;
      if (ran) break;
    }
    if (ran) continue;
    if (all_done) return;
    for (const Lane& lane : lanes) {
      const Worker& worker = workers_[lane.worker];
      if (worker.cursor[static_cast<size_t>(lane.role)] < shared_.program->list(worker.id, lane.role).size())
        return report(worker, lane.role, kStuck);
    }
  }
}

void Interpreter::report(const Worker& worker, Role role, const std::string& text) {
  FaultState none = FaultState::kNone;
  if (!fault_state_.compare_exchange_strong(none, FaultState::kClaimed)) return;
  fault_ = Fault{worker.id, role, static_cast<int32_t>(worker.cursor[static_cast<size_t>(role)]), text};
  fault_state_.store(FaultState::kWritten, std::memory_order_release);
  advance();  // wakes the others, who see that it is over
}

}  // namespace boreas::cpu
