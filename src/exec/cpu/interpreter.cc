// See interpreter.h. Threads own workers for good (worker w belongs to thread w mod threads), so a worker's own state
// needs no locks; only hop epochs and the step's start and end cross threads.
#include "exec/cpu/interpreter.h"

#include <algorithm>
#include <thread>

namespace boreas::cpu {
namespace {

// Looks at the lists before a thread sleeps: the most suffices for a hop between running threads; each time it did not,
// the thread halves its own, and wins it back bit by bit.
constexpr int32_t kLooksMax = 2000, kLooksMin = 30;
constexpr const char* kStuck = "waits in vain: no list of any worker can go on";

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

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

// Threads that wait for steps. Thread 0 is the caller of run_step.
class Interpreter::Threads {
 public:
  Threads(Interpreter& owner, int32_t count) {
    try {
      for (int32_t i = 1; i < count; ++i) threads_.emplace_back([this, &owner, i] { serve(owner, i); });
    } catch (...) {  // no more threads to be had: the caller reports it
      stop();
      throw;
    }
  }
  ~Threads() { stop(); }

  void start() {
    running_.store(static_cast<int32_t>(threads_.size()), std::memory_order_relaxed);
    next_generation();
  }
  void join() {
    for (int32_t running = running_.load(std::memory_order_acquire); running > 0;
         running = running_.load(std::memory_order_acquire))
      wait_while_equal(running_, running);
  }

 private:
  // Steps follow each other closely while something is decoded: look for a while before going to sleep.
  static void wait_while_equal(const std::atomic<int32_t>& word, int32_t old) {
    for (int32_t looks = 0; looks < kLooksMax; ++looks) {
      if (word.load(std::memory_order_acquire) != old) return;
      pause_cpu();
    }
    word.wait(old, std::memory_order_acquire);
  }
  void next_generation() {
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  void stop() {
    stop_.store(true, std::memory_order_relaxed);  // published by the generation
    next_generation();
    for (std::thread& thread : threads_) thread.join();
  }

  void serve(Interpreter& owner, int32_t index) {
    for (int32_t seen = 0;;) {
      wait_while_equal(generation_, seen);
      seen = generation_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      owner.run_thread(index);
      running_.fetch_sub(1, std::memory_order_release);
      running_.notify_one();
    }
  }

  std::vector<std::thread> threads_;
  std::atomic<int32_t> generation_{0};
  std::atomic<int32_t> running_{0};
  std::atomic<bool> stop_{false};
};

Interpreter::Interpreter(Shared& shared, const InterpreterOptions& options) : shared_(shared), options_(options) {
  workers_.resize(static_cast<size_t>(shared.workers));
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i].id = static_cast<int32_t>(i);
  options_.threads = std::clamp(options.threads, 1, shared.workers);
  if (options_.interleave_seed) options_.threads = 1;
  idle_ = std::make_unique<IdleMark[]>(static_cast<size_t>(options_.threads));
  threads_ = std::make_unique<Threads>(*this, options_.threads);
}

Interpreter::~Interpreter() = default;

std::optional<Fault> Interpreter::run_step() {
  begin_step();
  if (options_.interleave_seed) {
    run_interleaved();
  } else {
    threads_->start();
    run_thread(0);
    threads_->join();
  }
  ++shared_.step;
  return fault_;
}

void Interpreter::begin_step() {
  progress_.store(0, std::memory_order_relaxed);
  for (int32_t thread = 0; thread < options_.threads; ++thread)
    idle_[static_cast<size_t>(thread)].progress.store(-1, std::memory_order_relaxed);
  for (Worker& worker : workers_) {
    std::fill(std::begin(worker.cursor), std::end(worker.cursor), 0);
    std::fill(std::begin(worker.arrivals), std::end(worker.arrivals), 0);
    worker.ring.clear();
    worker.bytes_read = 0;
    worker.experts_hit = 0;
  }
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

bool Interpreter::run_workers_of(int32_t thread, bool& all_done) {
  bool ran = false;
  all_done = true;
  for (size_t w = static_cast<size_t>(thread); w < workers_.size(); w += static_cast<size_t>(options_.threads)) {
    bool done = false;
    ran |= run_worker(workers_[w], done);
    all_done = all_done && done;
  }
  return ran;
}

void Interpreter::advance() {
  progress_.fetch_add(1, std::memory_order_acq_rel);
  progress_.notify_all();
}

void Interpreter::run_thread(int32_t thread) {
  std::atomic<int32_t>& idle_mark = idle_[static_cast<size_t>(thread)].progress;
  int32_t looks = 0, looks_max = kLooksMax;
  while (!faulted_.load(std::memory_order_relaxed)) {
    const int32_t progress = progress_.load(std::memory_order_acquire);
    bool all_done = true;
    const bool ran = run_workers_of(thread, all_done);
    if (all_done) {
      idle_mark.store(IdleMark::kFinished);
      return advance();
    }
    if (ran) {
      advance();
      looks_max = std::min(kLooksMax, looks_max + looks_max / 8);
      looks = 0;
      continue;
    }
    pause_cpu();
    if (++looks < looks_max) continue;
    idle_mark.store(progress);
    if (nobody_can_run(progress)) return report_stuck(thread);
    progress_.wait(progress, std::memory_order_acquire);
    looks_max = std::max(kLooksMin, looks_max / 2);
    looks = 0;
  }
}

// Exact. Suppose all marks equal `progress` and some task could still run; take the first that does, on thread X. X
// found it blocked after reading `progress`, so a word it waits for was published since, by thread Y. Not after Y's
// mark: the task would not be the first. So before Y's look; then Y raised the count to `progress` at most, and X,
// which read that count (acquire) from a chain of raises (release), saw the word. A contradiction.
// Marks are stored and read in one total order, so of several threads that mark the last count at once, one sees all.
bool Interpreter::nobody_can_run(int32_t progress) const {
  for (int32_t thread = 0; thread < options_.threads; ++thread) {
    const int32_t mark = idle_[static_cast<size_t>(thread)].progress.load();
    if (mark != progress && mark != IdleMark::kFinished) return false;
  }
  return progress_.load() == progress;
}

void Interpreter::report_stuck(int32_t thread) {
  for (size_t w = static_cast<size_t>(thread); w < workers_.size(); w += static_cast<size_t>(options_.threads))
    for (Role role : {Role::kProducer, Role::kRouter, Role::kMessenger, Role::kConsumer})
      if (workers_[w].cursor[static_cast<size_t>(role)] < shared_.program->list(workers_[w].id, role).size())
        return report(workers_[w], role, kStuck);
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
  while (!faulted_) {
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
  if (faulted_.exchange(true)) return;
  fault_ = Fault{worker.id, role, static_cast<int32_t>(worker.cursor[static_cast<size_t>(role)]), text};
  advance();  // wakes the others, who see that it is over
}

}  // namespace boreas::cpu
