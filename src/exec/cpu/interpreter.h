// The interpreter: virtual SMs on threads. Each worker runs its four lists; a task runs when its barriers and hops are
// there. It has no forward pass of its own: what is computed, in which order, is the program.
//
// A program that cannot go on is known for certain, so there is no deadline that a slow disk or a stopped process could
// miss: each thread notes at which count of progress it found nothing to run, and when all have noted the same count,
// and it still stands, nothing will ever run again (see nobody_can_run). After a fault every later step fails at once.
//
// Threads without work look again for a while, since hops are short, and then sleep: on a machine that is busy with
// other things, spinning would take the processor from the very thread that is waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "exec/cpu/state.h"

namespace boreas::cpu {

// Where a worker stands when no list of any worker can go on, or what it found wrong.
struct Fault {
  int32_t worker = 0;
  Role role = Role::kConsumer;
  int32_t task = 0;
  std::string text;
  std::string describe(const Program& program) const;
};

struct InterpreterOptions {
  int32_t threads = 1;
  // Set: one thread picks the next runnable list at random from this seed, biased towards starving some of them. Bits
  // must not change.
  std::optional<uint64_t> interleave_seed;
};

class Interpreter {
 public:
  Interpreter(Shared& shared, const InterpreterOptions& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Runs shared.program on shared.block as step shared.step; nothing on success.
  std::optional<Fault> run_step();
  std::vector<Worker>& workers() { return workers_; }
  int32_t threads() const { return options_.threads; }  // at most one a worker

 private:
  class Threads;
  // The count of progress at which a thread found nothing to run; -1: it has not looked, kFinished: its lists are done.
  struct alignas(64) IdleMark {
    static constexpr int32_t kFinished = INT32_MAX;
    std::atomic<int32_t> progress{-1};
  };
  enum class Progress { kRan, kBlocked, kDone };
  Progress try_role(Worker& worker, Role role);
  bool ready(const Worker& worker, const TaskDesc& task);
  bool take_item(Worker& worker, const TaskDesc& task);
  void finish(Worker& worker, const TaskDesc& task);
  bool run_worker(Worker& worker, bool& done);
  void run_thread(int32_t thread);
  bool run_workers_of(int32_t thread, bool& all_done);
  bool nobody_can_run(int32_t progress) const;
  void advance();
  void report_stuck(int32_t thread);
  void run_interleaved();
  void report(const Worker& worker, Role role, const std::string& text);
  void begin_step();

  Shared& shared_;
  InterpreterOptions options_;
  std::vector<Worker> workers_;
  std::atomic<int32_t> progress_{0};  // of this step; grows after tasks ran. Threads without work sleep on it
  std::unique_ptr<IdleMark[]> idle_;  // [threads]
  std::atomic<bool> faulted_{false};
  std::optional<Fault> fault_;  // written by the thread that set faulted_, read between steps
  std::unique_ptr<Threads> threads_;
};

}  // namespace boreas::cpu
