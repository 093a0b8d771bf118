// What `boreas serve` does once its flags are read.
#pragma once

#include <functional>
#include <memory>

#include "exec/executor.h"
#include "serve_flags.h"

namespace boreas {

// The executor that serves, out of the one that the flags name: for tests, which plant faults. Empty: the same.
using ExecutorWrap = std::function<std::unique_ptr<Executor>(std::unique_ptr<Executor>)>;

// Serves until a signal. The process's exit status: 0, 1 for what failed, 2 for bad usage. A fault of the executor ends
// the process right here, with 1.
int run_serve(ServeFlags& flags, const ExecutorWrap& wrap = {});

}  // namespace boreas
