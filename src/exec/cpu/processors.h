// How many processors this process may use: what cpu_executor.cc starts as many threads as, unless told otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace boreas::cpu {

// Processors of the machine that this process is allowed on, or the control group's quota of processor time where that
// is less (a container on a large machine): with more threads than that, each would wait for others that are stopped.
int32_t usable_processors();

// Of a control group's cpu.max, "QUOTA PERIOD" or "max PERIOD" in microseconds: whole processors, rounded up; nothing
// if there is no limit or the text is something else.
std::optional<int32_t> processors_of_quota(std::string_view cpu_max);

}  // namespace boreas::cpu
