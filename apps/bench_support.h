// What all benchmarks share: the machine's read bandwidth, medians, and one JSON line a run in
// bench/results/<machine>.ndjson.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace boreas {

struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread_of(std::vector<double> values);  // not empty

// Best of several read-only patterns over `bytes` of touched memory with so many threads, in GB/s (1e9), each pattern
// the best of three passes.
struct ReadBandwidth {
  double gb_s = 0;
  std::string pattern;
};
ReadBandwidth measure_read_bandwidth(int32_t threads, int64_t bytes);

// Fields every line has: time, host, device, the commit of this binary and whether it is the portable one. The file is
// <results_dir>/<machine>.ndjson, machine being the host's processor model.
boost::json::object result_line(const std::string& bench, const std::string& arm, const std::string& device);
// Prints the line, and appends it to the machine's file if results_dir is not empty. False if the file cannot be
// written.
bool record_result(const boost::json::object& line, const std::string& results_dir);

}  // namespace boreas
