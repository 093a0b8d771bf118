// Benchmarks of the host side: compiling programs, tokenising. Declared on `boreas bench`; see bench_host.cc.
#pragma once

#include <functional>

#include "base/result.h"
#include "command_line.h"

namespace boreas {

// finish: reports an error and sets the exit code.
void add_host_benches(Command bench, const std::function<void(const Status&)>& finish);

}  // namespace boreas
