// See processors.h.
#include "exec/cpu/processors.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

namespace boreas::cpu {
namespace {

constexpr int32_t kProcessorsMax = 1 << 16;  // of any machine; a processor set of 8 KiB
constexpr int32_t kGroupDepthMax = 64;       // levels above a group that are looked at

int32_t allowed_processors() {
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kProcessorsMax),
                                                             [](cpu_set_t* memory) { CPU_FREE(memory); });
  const size_t bytes = CPU_ALLOC_SIZE(kProcessorsMax);
  if (set != nullptr && sched_getaffinity(0, bytes, set.get()) == 0) return CPU_COUNT_S(bytes, set.get());
  return static_cast<int32_t>(std::thread::hardware_concurrency());
}

std::optional<int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  int64_t value = 0;
  if (in >> value) return value;
  return {};
}

// cpu.max of version 2: "QUOTA PERIOD", or "max PERIOD".
std::optional<int32_t> unified_quota(const std::filesystem::path& group) {
  std::ifstream in(group / "cpu.max");
  int64_t quota_us = 0, period_us = 0;
  if (in >> quota_us >> period_us) return processors_of_quota(quota_us, period_us);
  return {};
}

std::optional<int32_t> classic_quota(const std::filesystem::path& group) {
  const std::optional<int64_t> quota_us = number_in(group / "cpu.cfs_quota_us");  // -1: none
  const std::optional<int64_t> period_us = number_in(group / "cpu.cfs_period_us");
  if (!quota_us || !period_us) return {};
  return processors_of_quota(*quota_us, *period_us);
}

void lower(std::optional<int32_t>& limit, std::optional<int32_t> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// The group and all above it: a quota of any of them holds.
template <class Quota>
void lower_by_path(std::optional<int32_t>& limit, const std::filesystem::path& mount, std::string_view name,
                   Quota quota) {
  const std::string relative(name.substr(std::min(name.size(), name.find_first_not_of('/'))));
  std::filesystem::path group = relative;
  for (int32_t depth = 0; depth < kGroupDepthMax && !group.empty(); ++depth) {
    lower(limit, quota(mount / group));
    group = group.parent_path();
  }
  lower(limit, quota(mount));
}

bool lists(std::string_view controllers, std::string_view wanted) {
  for (size_t begin = 0; begin <= controllers.size();) {
    const size_t end = std::min(controllers.find(',', begin), controllers.size());
    if (controllers.substr(begin, end - begin) == wanted) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::optional<int32_t> processors_of_quota(int64_t quota_us, int64_t period_us) {
  if (quota_us <= 0 || period_us <= 0) return {};
  return static_cast<int32_t>(std::clamp<int64_t>((quota_us - 1) / period_us + 1, 1, INT32_MAX));
}

// Lines of HIERARCHY:CONTROLLERS:PATH; version 2 has hierarchy 0 and no controllers.
std::optional<int32_t> processors_of_groups(std::string_view membership, const std::filesystem::path& root) {
  std::optional<int32_t> limit;
  while (!membership.empty()) {
    const size_t end = std::min(membership.find('\n'), membership.size());
    const std::string_view line = membership.substr(0, end);
    membership.remove_prefix(std::min(end + 1, membership.size()));
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), name = line.substr(second + 1);
    if (controllers.empty()) {
      lower_by_path(limit, root, name, unified_quota);
    } else if (lists(controllers, "cpu")) {
      lower_by_path(limit, root / "cpu", name, classic_quota);  // also a link where it shares a mount with cpuacct
    }
  }
  return limit;
}

int32_t usable_processors() {
  std::ifstream in("/proc/self/cgroup");
  const std::string membership(std::istreambuf_iterator<char>(in), {});
  const int32_t allowed = std::max(1, allowed_processors());
  return std::min(allowed, processors_of_groups(membership, "/sys/fs/cgroup").value_or(allowed));
}

}  // namespace boreas::cpu
