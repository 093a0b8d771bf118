#include "exec/cuda/deadlines.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace boreas::cuda {
namespace {

constexpr double kTimesPredicted = 20;
constexpr double kShortestS = 0.1;
constexpr double kOtherWaits = 4;     // as Deadline::miss() of signal.cuh
constexpr double kHostMarginS = 0.1;  // until the launch begins to hang, and for copies before and after it
constexpr double kHostLongestS = 1.2;
constexpr double kClocksPerS = 2e9;         // of an SM at most: 1.98 GHz on H100 and H200
constexpr double kOperationsPerS = 9.9e14;  // dense BF16 products, data sheet of H100 and H200

Deadlines::Time time_of(double seconds) { return Deadlines::Time(static_cast<int64_t>(seconds * 1e9)); }

}  // namespace

Deadlines::Deadlines(const ModelConfig& config, double read_bytes_per_s, int32_t prefill_tokens, double scale)
    : bytes_(config),
      read_bytes_per_s_(read_bytes_per_s),
      scale_(scale),
      prefill_tokens_(std::max(prefill_tokens, 1)),
      layer_operations_(4.0 * config.query_width()),
      full_layers_(config.full_layers()),
      sliding_layers_(config.sliding_layers()),
      window_(config.window) {
  CHECK(scale > 0);
}

double Deadlines::of_hop_wait_s(const LaunchPlan& launch) const {
  const double predicted = read_bytes_per_s_ > 0 ? static_cast<double>(bytes_.most(launch)) / read_bytes_per_s_ : 0;
  return std::max(kTimesPredicted * predicted, kShortestS);
}

Deadlines::Time Deadlines::of_hop_wait(const LaunchPlan& launch) const {
  return time_of(scale_ * of_hop_wait_s(launch));
}

Deadlines::Time Deadlines::of_launch(const LaunchPlan& launch) const {
  const double hop = of_hop_wait_s(launch);
  return time_of(scale_ * std::min(kOtherWaits * hop + kHostMarginS, std::max(kHostLongestS, 2 * hop)));
}

Deadlines::Time Deadlines::of_prefill(std::span<const PrefillRange> ranges) const {
  int64_t tokens = 0;
  double operations = 0;
  for (const PrefillRange& range : ranges) {
    const int64_t count = static_cast<int64_t>(range.tokens.size());
    const double keys = static_cast<double>(range.position) + static_cast<double>(count);  // of the last one
    const double sliding = sliding_layers_ > 0 ? std::min<double>(keys, window_) : 0;
    // A weight has two bytes and is good for two operations.
    operations += static_cast<double>(count) * (static_cast<double>(bytes_.weights_of(1)) +
                                                layer_operations_ * (full_layers_ * keys + sliding_layers_ * sliding));
    tokens += count;
  }
  const int64_t batches = static_cast<int64_t>(ranges.size()) + tokens / prefill_tokens_;  // at most
  double predicted = operations / kOperationsPerS;
  if (read_bytes_per_s_ > 0)
    predicted += static_cast<double>(batches * bytes_.weights_of(prefill_tokens_)) / read_bytes_per_s_;
  return time_of(scale_ * std::max(kTimesPredicted * predicted, kShortestS));
}

Error not_done_within(const std::string& device, Deadlines::Time limit) {
  return Error{device + " did not finish its work within " + std::to_string(limit.count() / 1'000'000) + " ms"};
}

uint32_t coarse_clocks_of(Deadlines::Time time) {
  const double clocks = static_cast<double>(time.count()) * 1e-9 * kClocksPerS / kCoarseClocks;
  return static_cast<uint32_t>(std::clamp(clocks, 1.0, UINT32_MAX / 8.0));  // four times that is still a number
}

}  // namespace boreas::cuda
