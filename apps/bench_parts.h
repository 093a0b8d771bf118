// boreas bench parts: what each part of the megakernel's design buys, by measuring the step without one at a time
// (CudaTuning) in turn with the whole, and beside both the comparison arms.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "command_line.h"
#include "exec/cuda/cuda_executor.h"
#include "program/compile.h"

namespace boreas {

void add_parts_bench(Command bench, const std::function<void(const Status&)>& finish);

// A part of the design taken away: what the step runs without or with less of.
struct DesignPart {
  std::string without;  // as recorded and shown
  cuda::CudaTuning tuning;
};

// Those that make a difference to a step of `batch` rows with this program. The first is the whole design, its
// `without` empty.
std::vector<DesignPart> design_parts(int32_t batch, const Program& program);

}  // namespace boreas
