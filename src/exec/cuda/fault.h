// A device fault in words. The kernel leaves the record in mapped memory before it stops (step_params.h).
#pragma once

#include <string>

#include "exec/cuda/step_params.h"

namespace boreas::cuda {

// Worker, role, task, op, layer, what it waited for, wanted and seen. A record that is not complete says so: its fields
// may be stale or torn. Any field values are safe.
std::string describe(const FaultRecord& fault);

}  // namespace boreas::cuda
