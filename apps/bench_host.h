// Benchmarks of the host side: compiling programs, tokenising. Declared on `boreas bench`; see bench_host.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace boreas {

// finish: reports an error and sets the exit code.
void add_host_benches(CLI::App& bench, const std::function<void(const Status&)>& finish);

}  // namespace boreas
