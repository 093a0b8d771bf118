// What a recorded decode line holds, from the runs of a loop (bench_decode.h) to its JSON: `boreas bench decode` and
// `boreas bench parts` write them, `boreas bench report` reads them again.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_decode.h"
#include "bench_support.h"

namespace boreas {

// Of several runs of one setup.
class DecodeFigures {
 public:
  void add(const DecodeSetup& setup, const DecodeRun& run);

  int32_t runs() const { return static_cast<int32_t>(tok_s_.size()); }
  Spread tok_s() const { return spread_of(tok_s_); }
  double gb_s() const { return spread_of(gb_s_).median; }
  double step_us() const { return spread_of(device_us_).median; }
  int64_t bytes_per_step() const { return bytes_per_step_; }     // of the last run
  double distinct_experts() const { return distinct_experts_; }  // of the last run, a step

 private:
  std::vector<double> tok_s_, gb_s_, device_us_;
  int64_t bytes_per_step_ = 0;
  double distinct_experts_ = 0;
};

// The read bandwidth of the setup's device. On a GPU while the executor still has its memory: for a while after much
// was given back the driver clears it, which takes an eighth of the bandwidth. cpu_bytes: read on a processor; 0: 1
// GiB.
Result<ReadBandwidth> read_bandwidth(const DecodeSetup& setup, int64_t cpu_bytes = 0);

// Of GB/s, what percentages are of: the datasheet's where the device's is known, else what was read.
double bandwidth_limit(const DecodeSetup& setup, const std::string& device, const ReadBandwidth& read);

// `device`: the executor's own name of it.
boost::json::object decode_line(const DecodeSetup& setup, const DecodeFigures& figures, const std::string& device,
                                const ReadBandwidth& read);

// Runs of a setup after one that warms up, each from a seed of its own; the line, recorded if results_dir is not empty.
Result<boost::json::object> measure_decode(const DecodeSetup& setup, int32_t runs, uint64_t first_seed,
                                           const std::string& results_dir);

double number_of(const boost::json::object& line, const char* key);

// What is asked of a decode line: so much of that field, "tok_s" or "percent_of_limit". Only of the megakernel on an
// H200, with North's shape and made-up weights, rows that go different ways and draw at temperature 1, at least five
// runs, and only at the contexts that were asked for.
struct DecodeGoal {
  const char* field;
  double at_least;
};
std::optional<DecodeGoal> decode_goal(const boost::json::object& line);
bool misses_goal(const boost::json::object& line);
std::string goal_text(const DecodeGoal& goal);  // "at least 560 tok/s"

// Whether an arm reaches so little of the limit that no gain may be quoted against it; a line of one row only says so.
bool is_untuned(const std::string& arm, int32_t batch, double percent_of_limit);

// How tables and plots call an arm. cut: levels, ops or empty.
std::string arm_title(const std::string& arm, const std::string& cut);

}  // namespace boreas
