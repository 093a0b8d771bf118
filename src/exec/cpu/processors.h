// How many processors this process may use: cpu_executor.cc starts at most one thread for each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace boreas::cpu {

// The least of: processors that this process may run on, and the quotas of processor time of its control groups, of
// either version (a container on a large machine). With more threads than that, each would wait for others that are
// stopped.
int32_t usable_processors();

// The smallest quota of the control groups that `membership` names (text of /proc/self/cgroup) and of all above them,
// rounded up to whole processors; nothing if there is none. `root`: where control groups are mounted. Inside a
// container the process's own group may be at the root of the mount while its name says something else: groups that
// are not there count as without limit.
std::optional<int32_t> processors_of_groups(std::string_view membership, const std::filesystem::path& root);

// Of a quota in microseconds of each period: whole processors, rounded up; nothing if there is no limit.
std::optional<int32_t> processors_of_quota(int64_t quota_us, int64_t period_us);

}  // namespace boreas::cpu
