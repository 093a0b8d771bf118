// ATTENTION_MERGE: o = sum 2^((m_p - M) c) o_p / sum 2^((m_p - M) c) l_p over the pieces that the row sees, M = max m_p
// and c = log2(e) / sqrt(head_dim). Pieces that it does not see hold NaN, as another step may have left there.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/conformance/cases.h"

namespace boreas::conformance {
namespace {

std::vector<bool> seen_pieces(const ModelConfig& config, bool sliding, int32_t position) {
  std::vector<bool> seen(kAttentionPieces, false);
  const int32_t first = sliding ? std::max(0, position - config.window + 1) : 0;
  for (int32_t page = first / kPagePositions; page <= position / kPagePositions; ++page)
    seen[static_cast<size_t>(page % kAttentionPieces)] = true;
  return seen;
}

// Appends one row and KV head: [piece][query][m, l, o]. Spread: how far apart the maxima lie.
void append_partials(Prng& prng, const ModelConfig& config, const std::vector<bool>& seen, float spread,
                     std::vector<float>& out) {
  for (int32_t piece = 0; piece < kAttentionPieces; ++piece) {
    for (int32_t query = 0; query < config.queries_per_kv(); ++query) {
      const float l = 1 + 63 * prng.uniform();
      out.push_back(spread * (2 * prng.uniform() - 1));
      out.push_back(l);
      for (int32_t d = 0; d < config.head_dim; ++d) out.push_back(l * (2 * prng.uniform() - 1));
      if (!seen[static_cast<size_t>(piece)])
        std::fill(out.end() - config.head_dim - 2, out.end(), std::numeric_limits<float>::quiet_NaN());
    }
  }
}

// partial(piece): [m, l, o] of one query head.
template <class F>
std::vector<Bounded> merged(const ModelConfig& config, const std::vector<bool>& seen, F&& partial) {
  const double scale = std::numbers::log2e / std::sqrt(double(config.head_dim));
  double largest = -HUGE_VAL;
  for (int32_t piece = 0; piece < kAttentionPieces; ++piece)
    if (seen[static_cast<size_t>(piece)]) largest = std::max(largest, double{partial(piece)[0]});
  std::vector<Bounded> sums(static_cast<size_t>(config.head_dim) + 1);  // l, o
  for (int32_t piece = 0; piece < kAttentionPieces; ++piece) {
    if (!seen[static_cast<size_t>(piece)]) continue;
    const double x = (double{partial(piece)[0]} - largest) * scale, weight = std::exp2(x);
    // Difference, product and constant round the exponent; the power is good to a few units; product and 32 additions.
    // Below 2^-126 a weight stays there.
    const double relative = std::exp2(std::abs(x) * roundings(8)) * (1 + roundings(8 + 1 + kAttentionPieces)) - 1;
    for (size_t d = 0; d < sums.size(); ++d) {
      const double value = double{partial(piece)[d + 1]};
      sums[d].value += weight * value;
      sums[d].error += (weight * relative + 0x1p-125) * std::abs(value);
    }
  }
  std::vector<Bounded> out;
  for (size_t d = 1; d < sums.size(); ++d) {
    const double value = sums[d].value / sums[0].value;
    const double error = (sums[d].error + std::abs(value) * sums[0].error) / (sums[0].value - sums[0].error);
    out.push_back(to_bf16({value, error + std::abs(value) * roundings(1)}));
  }
  return out;
}

}  // namespace

void check_kAttentionMerge(Backend& backend) {
  for_each_scenario(15, [&](Scenario& scenario) {
    const ModelConfig& config = scenario.config();
    const int64_t width = config.head_dim + 2, queries = config.queries_per_kv();
    for (int32_t layer : {0, 2}) {
      const Step step = random_step(scenario);
      Data data;
      std::vector<float>& partials = data.hop(Hop::kPartial);
      std::vector<Bounded> want;
      for (const StepRow& range : step.plan.rows) {
        for (int32_t i = 0; i < static_cast<int32_t>(range.tokens.size()); ++i) {
          const std::vector<bool> seen =
              seen_pieces(config, config.layers[static_cast<size_t>(layer)].sliding, range.position + i);
          for (int32_t head = 0; head < config.kv_heads; ++head) {
            const size_t start = partials.size();
            append_partials(scenario.prng, config, seen, head % 2 == 0 ? 9.0f : 3000.0f, partials);
            for (int64_t query = 0; query < queries; ++query) {
              const auto partial = [&](int32_t piece) {
                return partials.data() + start + (piece * queries + query) * width;
              };
              const std::vector<Bounded> row = merged(config, seen, partial);
              want.insert(want.end(), row.begin(), row.end());
            }
          }
        }
      }
      backend.run(scenario.machine, step, {Op::kAttentionMerge, layer}, data);
      expect_near(data.hop(Hop::kAttention), want, scenario.name + ", layer " + std::to_string(layer));
    }
  });
}

}  // namespace boreas::conformance
