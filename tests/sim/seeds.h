// Which seeds a random test runs. Without instructions 1 to `count`, so that a failure in one run is one in the next.
//   BOREAS_SIM_SEED=s       from s on
//   BOREAS_SIM_SCENARIOS=n  n of them; tests other than scenario_test run no more than of their own accord
//   BOREAS_SIM_SECONDS=t    a long run: as many as fit, from a random seed on if none is given
//
// Tests name the seed in their failures: BOREAS_SIM_SEED=s BOREAS_SIM_SCENARIOS=1 replays it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>

namespace boreas {

class Seeds {
 public:
  // share: a small test takes one of so many parts of the seconds.
  explicit Seeds(uint64_t count, int64_t share = 1, bool more_if_asked = false) {
    const std::optional<uint64_t> seconds = number("BOREAS_SIM_SECONDS");
    const std::optional<uint64_t> seed = number("BOREAS_SIM_SEED"), scenarios = number("BOREAS_SIM_SCENARIOS");
    long_run_ = seconds.value_or(0) > 0;
    wanted_ = long_run_ ? UINT64_MAX : count;
    if (scenarios) wanted_ = more_if_asked ? *scenarios : std::min(wanted_, *scenarios);
    if (long_run_) end_ += std::chrono::milliseconds(static_cast<int64_t>(*seconds) * 1000 / share);
    if (seed) first_ = *seed;
    else if (long_run_) first_ = std::random_device()();
    as_committed_ = !long_run_ && !seed && !scenarios;
    if (!as_committed_) std::printf("seeds from %llu on\n", static_cast<unsigned long long>(first_));
  }

  // Goes on to the next seed, at first to the first; false: it was the last.
  bool next() {
    if (done_ == wanted_ || (long_run_ && done_ > 0 && std::chrono::steady_clock::now() >= end_)) return false;
    ++done_;
    return true;
  }
  uint64_t seed() const { return first_ + done_ - 1; }
  uint64_t first() const { return first_; }
  uint64_t done() const { return done_; }  // the one at hand included
  // The seeds that the test was written with: what they must reach can be said exactly.
  bool as_committed() const { return as_committed_; }

 private:
  static std::optional<uint64_t> number(const char* name) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') return {};
    return std::strtoull(text, nullptr, 10);
  }

  uint64_t first_ = 1, wanted_ = 0, done_ = 0;
  bool long_run_ = false, as_committed_ = true;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now();
};

}  // namespace boreas
