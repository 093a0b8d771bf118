// boreas bench prefill: time to the first token of prompts on an idle executor.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace boreas {

void add_prefill_bench(CLI::App& bench, const std::function<void(const Status&)>& finish);

}  // namespace boreas
