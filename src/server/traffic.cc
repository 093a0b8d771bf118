#include "server/traffic.h"

#include <algorithm>

namespace boreas {

namespace {

// vLLM's bounds, so that dashboards fit; finer ones below, because a GPU writes a token in less than 2 ms here.
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                        1.0,   2.5,   5.0,  7.5,  10,   20,   40,   80,  160,  640, 2560};
constexpr double kBetweenTokensBounds[] = {0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                           0.3,   0.4,    0.5,   0.75,  1.0,   2.5,  5.0,   7.5,  10,    20,  40,   80};
constexpr double kWholeBounds[] = {0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10,   15,  20,
                                   30,  40,  50,  60,  120, 240, 480, 960, 1920, 7680};
constexpr double kTokensBounds[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                    1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

}  // namespace

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
}

Traffic::Traffic()
    : first_token_s(kFirstTokenBounds),
      between_tokens_s(kBetweenTokensBounds),
      whole_s(kWholeBounds),
      prompt_tokens(kTokensBounds),
      output_tokens(kTokensBounds) {}

}  // namespace boreas
