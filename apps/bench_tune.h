// boreas bench tune: walks over what only measurements can say about the megakernel on a machine (exec/cuda/tuning.h).
#pragma once

#include <functional>

#include "base/result.h"
#include "command_line.h"

namespace boreas {

void add_tune_bench(Command bench, const std::function<void(const Status&)>& finish);

}  // namespace boreas
