// Runs a model's Python apart from everything: python3 as a process with no more than it needs to compute. Used for the
// `python` checks of held-out sets; knows nothing of checks.
//
// What always holds for the process: a list of permitted system calls (seccomp) that has no sockets, no other
// processes, no signals to others, and opens files for reading only; its own network name space where the system lets
// us have one; user nobody if we are root; limits on processor time, memory, open files, file size (0) and processes
// (0); an empty environment and an empty folder to stand in; a wall clock, at whose end its whole process group is
// killed; output of at most kOutputBytesMax. Where the list of system calls cannot be set, nothing is run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <string>

#include "base/result.h"

namespace boreas {

class PythonSandbox {
 public:
  static constexpr int kCpuSeconds = 5;
  static constexpr int64_t kWallMs = 10'000;
  static constexpr size_t kOutputBytesMax = 1 << 20;

  enum class End : uint8_t {
    kFinished,    // ended by itself, well or badly
    kKilled,      // by the wall clock, or because it wrote too much
    kNotStarted,  // the system did not let us: says nothing about the code
  };
  struct Outcome {
    End end = End::kNotStarted;
    std::string output;  // of kFinished: what it wrote to standard output
    std::string reason;  // of kNotStarted
  };

  // Finds python3 (empty: /usr/bin, /usr/local/bin, /bin, then PATH) and runs a first program through the whole
  // sandbox. Error: says why Python cannot be run apart.
  static Result<std::unique_ptr<PythonSandbox>> create(const std::string& python = {}, int64_t wall_ms = kWallMs);
  ~PythonSandbox();
  PythonSandbox(const PythonSandbox&) = delete;
  PythonSandbox& operator=(const PythonSandbox&) = delete;

  // `task`: {"code", "function" (null: the last one defined), "args": [arguments of a call]} as JSON. The output of a
  // good run is the JSON list of what the calls returned. Any thread.
  Outcome run(const std::string& task) const;
  // Any program on standard input's text, for tests of the sandbox.
  Outcome run_program(const std::string& program, const std::string& input) const;

  const std::string& python() const { return python_; }

 private:
  PythonSandbox();
  Outcome run_now(const std::string& program, const std::string& input) const;

  std::string python_;
  std::string folder_;  // empty, ours
  int64_t wall_ms_ = kWallMs;
  // As many at once as there are processors: the wall clock should not run out because others compute.
  mutable std::counting_semaphore<> turns_;
};

}  // namespace boreas
