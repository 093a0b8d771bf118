// boreas bench prefill: time to the first token of prompts on an idle executor.
#pragma once

#include <functional>

#include "base/result.h"
#include "command_line.h"

namespace boreas {

void add_prefill_bench(Command bench, const std::function<void(const Status&)>& finish);

}  // namespace boreas
