// A program of its own that a test starts and talks to over its standard input and output.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace boreas {

// Killed by the destructor, if it still runs.
class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> arguments);  // the first is the program's path
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // The next line of its standard output, without the line end; empty at the end of it.
  std::string read_line();
  // Until it has ended: its exit status, or 128 + the signal that ended it; -1: it still runs after timeout_ms.
  int wait(int timeout_ms);

 private:
  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;
  bool ended_ = false;
};

}  // namespace boreas
