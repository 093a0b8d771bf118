// boreas bench load: how fast a checkpoint's weights come to a GPU, beside what its files and the way to the GPU allow.
#pragma once

#include <functional>

#include "base/result.h"
#include "command_line.h"

namespace boreas {

void add_load_bench(Command bench, const std::function<void(const Status&)>& finish);

}  // namespace boreas
