// The interpreter: virtual SMs on threads. Each worker runs its four lists; a task runs when its barriers and hops are
// there. It has no forward pass of its own: what is computed, in which order, is the program.
//
// Threads have workers of their own to run (worker w belongs to thread w mod threads) and run those of others when they
// find nothing else to do: a thread that the machine does not let run, because there are more threads than processors
// or other processes are busy, then holds up nobody unless it is within a task. Threads without work look again for a
// while, since hops are short, then yield their processor, and after a millisecond sleep.
//
// A program that cannot go on is known for certain, so there is no deadline that a slow disk or a stopped process could
// miss: each thread notes at which count of progress it found nothing to run, and when all have noted the same count,
// and it still stands, nothing will ever run again (see nobody_can_run). After a fault every later step fails at once.
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
  // Who holds it runs the worker's lists. Closed: they are done, or the program has failed.
  struct alignas(64) Gate {
    static constexpr int32_t kOpen = 0, kHeld = 1, kClosed = 2;
    std::atomic<int32_t> state{kClosed};
  };
  // The count of progress at which a thread found nothing to run.
  struct alignas(64) IdleMark {
    static constexpr int64_t kLooking = -1;
    std::atomic<int64_t> progress{kLooking};
  };
  enum class FaultState : uint8_t { kNone, kClaimed, kWritten };
  enum class Progress { kRan, kBlocked, kDone };
  Progress try_role(Worker& worker, Role role);
  bool ready(const Worker& worker, const TaskDesc& task);
  bool take_item(Worker& worker, const TaskDesc& task);
  void finish(Worker& worker, const TaskDesc& task);
  bool run_worker(Worker& worker, bool& done);
  void run_thread(int32_t thread);
  bool visit(size_t index);
  bool visit_workers(int32_t thread, bool all);
  bool step_over() const;
  bool nobody_can_run(uint32_t progress) const;
  void advance();
  void report_stuck();
  void run_interleaved();
  void report(const Worker& worker, Role role, const std::string& text);
  void begin_step();
  void close_gates();

  Shared& shared_;
  InterpreterOptions options_;
  std::vector<Worker> workers_;
  std::unique_ptr<Gate[]> gates_;       // [workers]
  std::atomic<int32_t> unfinished_{0};  // workers whose lists are not done
  std::atomic<uint32_t> progress_{0};   // grows after tasks ran, over all steps. Threads without work sleep on it
  std::unique_ptr<IdleMark[]> idle_;    // [threads]
  std::atomic<FaultState> fault_state_{FaultState::kNone};
  std::optional<Fault> fault_;  // written by the thread that claimed it
  std::atomic<bool> stop_{false};
  std::unique_ptr<Threads> threads_;
};

}  // namespace boreas::cpu
