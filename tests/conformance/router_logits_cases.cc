// ROUTER_LOGITS: a dot product an expert, rounded to bf16.
#include "tests/conformance/cases.h"

namespace boreas::conformance {

void check_kRouterLogits(Backend& backend) {
  for_each_scenario(6, [&](Scenario& scenario) {
    const ModelConfig& config = scenario.config();
    const size_t hidden = static_cast<size_t>(config.hidden_size);
    for (int32_t layer : {1, 2}) {
      const TensorView& router = scenario.machine.model->weights().at(WeightRole::kRouter, layer);
      Data data;
      std::vector<float>& normed = data.slot(Slot::kNormed) =
          random_values(scenario.prng, scenario.values(config.hidden_size), 2);
      std::vector<Bounded> want;
      for (size_t row = 0; row < static_cast<size_t>(scenario.rows); ++row)
        for (int32_t expert = 0; expert < config.experts; ++expert)
          want.push_back(
              to_bf16(dot(backend, router.bf16_row(expert), std::span(normed).subspan(row * hidden, hidden))));
      backend.run(scenario.machine, random_step(scenario), {Op::kRouterLogits, layer}, data);
      expect_near(data.hop(Hop::kLogit), want, scenario.name);
      std::vector<float> rounded = data.hop(Hop::kLogit);
      for (float& value : rounded) value = round_to_bf16(value);
      expect_equal(data.hop(Hop::kLogit), rounded, "is bf16, " + scenario.name);
    }
  });
}

}  // namespace boreas::conformance
