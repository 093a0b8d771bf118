// TOP_K: the experts exactly, ties to the lowest id, stored by ascending id; the weight is the logit's sigmoid.
#include <algorithm>

#include "tests/conformance/cases.h"

namespace boreas::conformance {
namespace {

// Taken one at a time: the largest that is not yet taken, the lowest id among equals.
std::vector<int32_t> chosen(std::span<const float> logits, int32_t count) {
  std::vector<int32_t> experts;
  for (int32_t i = 0; i < count; ++i) {
    int32_t best = -1;
    for (int32_t e = 0; e < static_cast<int32_t>(logits.size()); ++e) {
      if (std::find(experts.begin(), experts.end(), e) != experts.end()) continue;
      if (best < 0 || logits[static_cast<size_t>(e)] > logits[static_cast<size_t>(best)]) best = e;
    }
    experts.push_back(best);
  }
  std::sort(experts.begin(), experts.end());
  return experts;
}

// All different; from a few values; all equal; zeros of both signs; so large that the sigmoid ends.
std::vector<float> logits_of_kind(Prng& prng, size_t count, int32_t kind) {
  std::vector<float> logits = random_values(prng, count, 6);
  for (float& logit : logits) {
    if (kind == 1) logit = static_cast<float>(prng.below(3)) - 1;
    if (kind == 2) logit = 0.5f;
    if (kind == 3) logit = prng.below(2) == 0 ? -0.0f : 0.0f;
    if (kind == 4) logit = round_to_bf16(logit * 1e30f);
  }
  return logits;
}

}  // namespace

void check_kTopK(Backend& backend) {
  for_each_scenario(7, [&](Scenario& scenario) {
    const ModelConfig& config = scenario.config();
    const size_t experts = static_cast<size_t>(config.experts);
    for (int32_t layer : {1, 2}) {
      for (int32_t kind = 0; kind < 5; ++kind) {
        Data data;
        std::vector<float> ids, got_ids, got_weights;
        std::vector<Bounded> weights;
        for (int32_t row = 0; row < scenario.rows; ++row) {
          const std::vector<float> logits = logits_of_kind(scenario.prng, experts, kind);
          data.hop(Hop::kLogit).insert(data.hop(Hop::kLogit).end(), logits.begin(), logits.end());
          for (int32_t expert : chosen(logits, config.experts_per_token)) {
            ids.push_back(static_cast<float>(expert));
            weights.push_back(sigmoid(Bounded{double{logits[static_cast<size_t>(expert)]}, 0}));
          }
        }
        backend.run(scenario.machine, random_step(scenario), {Op::kTopK, layer}, data);
        const std::vector<float>& route = data.slot(route_slot(scenario.machine, layer));
        for (size_t i = 0; i + 1 < route.size(); i += 2) {
          got_ids.push_back(route[i]);
          got_weights.push_back(route[i + 1]);
        }
        expect_equal(got_ids, ids, "experts, " + scenario.name + ", kind " + std::to_string(kind));
        expect_near(got_weights, weights, "weights, " + scenario.name + ", kind " + std::to_string(kind));
      }
    }
  });
}

}  // namespace boreas::conformance
