// What /metrics tells of requests as clients see them: latencies, lengths, answers by status. Filled by generations and
// routes; I/O thread only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

namespace boreas {

// Counts by upper bound, as Prometheus wants them.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value);

  std::span<const double> bounds() const { return bounds_; }  // ascending; one more bucket is above the last
  std::span<const int64_t> counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
};

struct Traffic {
  Traffic();
  // Of choices: from the request's arrival to its first token, and from token to token.
  Histogram first_token_s;
  Histogram between_tokens_s;
  // Of requests that were answered to the end.
  Histogram whole_s;
  Histogram prompt_tokens;
  Histogram output_tokens;
  // Of every request: by route ("none" if there is no such path), method and status.
  using Answer = std::tuple<std::string_view, std::string_view, int>;
  std::map<Answer, int64_t> answers;
};

}  // namespace boreas
