// The interpreter: virtual SMs on threads. Each worker runs its four lists; a task runs when its barriers and hops are
// there. It has no forward pass of its own: what is computed, in which order, is the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "exec/cpu/state.h"

namespace boreas::cpu {

// What a worker waited for when the deadline passed, or what it found wrong.
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
  int64_t deadline_ms = 20000;  // without any progress of any worker
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

 private:
  class Threads;
  enum class Progress { kRan, kBlocked, kDone };
  Progress try_role(Worker& worker, Role role);
  bool ready(const Worker& worker, const TaskDesc& task);
  bool take_item(Worker& worker, const TaskDesc& task);
  void finish(Worker& worker, const TaskDesc& task);
  bool run_worker(Worker& worker, bool& done);
  void run_thread(int32_t thread);
  void run_interleaved();
  void report(const Worker& worker, Role role, const std::string& text);
  void begin_step();

  Shared& shared_;
  InterpreterOptions options_;
  std::vector<Worker> workers_;
  std::atomic<int64_t> progress_{0};
  std::atomic<bool> faulted_{false};
  std::optional<Fault> fault_;
  std::unique_ptr<Threads> threads_;
};

}  // namespace boreas::cpu
