// See bench_support.h.
#include "bench_support.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>

#include "build_commit.h"

namespace boreas {
namespace {

using Group = uint64_t __attribute__((vector_size(32)));
constexpr int64_t kLine = 64;

// Sums [first, first + bytes) as `streams` interleaved linear streams; prefetch: bytes to look ahead, 0 for none.
uint64_t read_streams(const std::byte* first, int64_t bytes, int64_t streams, int64_t prefetch) {
  Group sum = {};
  const int64_t part = bytes / streams / kLine * kLine;
  for (int64_t at = 0; at < part; at += kLine) {
    for (int64_t s = 0; s < streams; ++s) {
      const std::byte* line = first + s * part + at;
      if (prefetch > 0) __builtin_prefetch(line + prefetch, 0, 0);
      Group a, b;
      __builtin_memcpy(&a, line, sizeof a);
      __builtin_memcpy(&b, line + 32, sizeof b);
      sum += a + b;
    }
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

struct Pattern {
  const char* name;
  int64_t streams, prefetch;
  bool interleaved;  // threads take 2 MiB blocks in turn instead of one half each
};
constexpr Pattern kPatterns[] = {
    {"linear", 1, 0, false},
    {"4 streams", 4, 0, false},
    {"8 streams", 8, 0, false},
    {"linear, prefetch 2 KiB", 1, 2048, false},
    {"4 streams, prefetch 1 KiB", 4, 1024, false},
    {"2 MiB blocks in turn", 1, 0, true},
};

uint64_t read_share(const Pattern& pattern, const std::byte* data, int64_t bytes, int32_t thread, int32_t threads) {
  if (!pattern.interleaved) {
    const int64_t share = bytes / threads / kLine * kLine;
    return read_streams(data + thread * share, share, pattern.streams, pattern.prefetch);
  }
  constexpr int64_t kBlock = 2 << 20;
  uint64_t sum = 0;
  for (int64_t at = thread * kBlock; at + kBlock <= bytes; at += threads * kBlock)
    sum += read_streams(data + at, kBlock, pattern.streams, 0);
  return sum;
}

double pass_gb_s(const Pattern& pattern, const std::byte* data, int64_t bytes, int32_t threads) {
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int32_t t = 1; t < threads; ++t)
    others.emplace_back([&, t] { sums[static_cast<size_t>(t)] = read_share(pattern, data, bytes, t, threads); });
  sums[0] = read_share(pattern, data, bytes, 0, threads);
  for (std::thread& thread : others) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  volatile uint64_t keep = 0;
  for (uint64_t sum : sums) keep = keep + sum;
  return static_cast<double>(bytes) / seconds / 1e9;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32] = {};
  if (::gmtime_r(&now, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

// "AMD EPYC" and two cores: amd-epyc-2.
std::string machine_name() {
  std::string name = processor_name() + " " + std::to_string(std::thread::hardware_concurrency());
  std::string slug;
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!slug.empty() && slug.back() != '-') slug += '-';
  }
  return slug;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

ReadBandwidth measure_read_bandwidth(int32_t threads, int64_t bytes) {
  std::unique_ptr<std::byte[]> data(new std::byte[static_cast<size_t>(bytes)]);
  for (int64_t i = 0; i < bytes; i += 8) __builtin_memcpy(data.get() + i, &i, 8);
  ReadBandwidth best;
  for (const Pattern& pattern : kPatterns) {
    for (int pass = 0; pass < 3; ++pass) {
      const double gb_s = pass_gb_s(pattern, data.get(), bytes, threads);
      if (gb_s > best.gb_s) best = {gb_s, pattern.name};
    }
  }
  return best;
}

boost::json::object result_line(const std::string& bench, const std::string& arm, const std::string& device) {
  boost::json::object line;
  line["bench"] = bench;
  line["arm"] = arm;
  line["device"] = device;
  line["machine"] = processor_name() + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
  line["commit"] = build_commit();
  line["portable"] = build_is_portable();
  line["time"] = utc_now();
  return line;
}

bool record_result(const boost::json::object& line, const std::string& results_dir) {
  std::cout << boost::json::serialize(line) << "\n";
  if (results_dir.empty()) return true;
  const std::string path = results_dir + "/" + machine_name() + ".ndjson";
  std::ofstream file(path, std::ios::app);
  file << boost::json::serialize(line) << "\n";
  if (file.good()) return true;
  std::cerr << "cannot append to " << path << "\n";
  return false;
}

}  // namespace boreas
