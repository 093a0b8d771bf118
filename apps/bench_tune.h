// boreas bench tune: walks over what only measurements can say about the megakernel on a machine (exec/cuda/tuning.h).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace boreas {

void add_tune_bench(CLI::App& bench, const std::function<void(const Status&)>& finish);

}  // namespace boreas
