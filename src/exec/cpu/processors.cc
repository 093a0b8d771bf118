// See processors.h.
#include "exec/cpu/processors.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <thread>

namespace boreas::cpu {

std::optional<int32_t> processors_of_quota(std::string_view cpu_max) {
  const char* const end = cpu_max.data() + cpu_max.size();
  int64_t quota_us = 0, period_us = 0;
  const auto [quota_end, quota_error] = std::from_chars(cpu_max.data(), end, quota_us);
  if (quota_error != std::errc{} || quota_end == end || *quota_end != ' ') return {};
  if (std::from_chars(quota_end + 1, end, period_us).ec != std::errc{}) return {};
  if (quota_us <= 0 || period_us <= 0) return {};
  return static_cast<int32_t>(std::clamp<int64_t>((quota_us - 1) / period_us + 1, 1, INT32_MAX));
}

int32_t usable_processors() {
  int32_t processors = std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
  std::string line;
  // Inside a container the group's own files are at the root of the mount.
  if (std::getline(std::ifstream("/sys/fs/cgroup/cpu.max"), line))
    if (const std::optional<int32_t> limit = processors_of_quota(line)) processors = std::min(processors, *limit);
  return processors;
}

}  // namespace boreas::cpu
