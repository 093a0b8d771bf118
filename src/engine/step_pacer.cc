#include "engine/step_pacer.h"

#include <algorithm>
#include <limits>

namespace boreas {
namespace {

constexpr double kWeight = 0.25;  // of the newest step in the running means

void move_mean(double& mean, double value) { mean = mean == 0 ? value : mean + kWeight * (value - mean); }

}  // namespace

int32_t StepPacer::prefill_tokens_max() const {
  if (owed_ns_ > 0) return 0;
  if (latency_ns_ == 0) return std::numeric_limits<int32_t>::max();
  if (token_ns_ == 0) return kTokensFirst;
  const double tokens = static_cast<double>(latency_ns_) / token_ns_;
  return static_cast<int32_t>(std::clamp(tokens, double{kTokensMin}, 1e9));
}

int64_t StepPacer::observe(int32_t decode_rows, int32_t prefill_tokens, int64_t elapsed_ns) {
  if (elapsed_ns <= 0) return 0;
  const auto elapsed = static_cast<double>(elapsed_ns);
  const double decode = decode_rows == 0 ? 0 : prefill_tokens == 0 ? elapsed : std::min(decode_ns_, elapsed);
  if (prefill_tokens == 0) move_mean(decode_ns_, elapsed);
  else if (prefill_tokens >= kTokensMin / 2) move_mean(token_ns_, std::max((elapsed - decode) / prefill_tokens, 1.0));
  if (decode_rows == 0) {
    owed_ns_ = 0;  // nobody waited
  } else {
    const double share = decode_percent_ / (100.0 - decode_percent_);
    owed_ns_ = std::max(owed_ns_ + (elapsed - decode) * share - decode, 0.0);
  }
  return prefill_tokens > 0 ? static_cast<int64_t>(elapsed - decode) : 0;
}

}  // namespace boreas
