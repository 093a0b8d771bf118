// OUT_PROJ: a dot product an output, kept in fp32.
#include "tests/conformance/cases.h"

namespace boreas::conformance {

void check_kOutProj(Backend& backend) {
  for_each_scenario(10, [&](Scenario& scenario) {
    const ModelConfig& config = scenario.config();
    const size_t width = static_cast<size_t>(config.query_width());
    for (int32_t layer : {0, 2}) {
      const TensorView& weight = scenario.machine.model->weights().at(WeightRole::kOutput, layer);
      Data data;
      std::vector<float>& attention = data.slot(Slot::kAttention) =
          random_values(scenario.prng, scenario.values(config.query_width()));
      std::vector<Bounded> want;
      for (size_t row = 0; row < static_cast<size_t>(scenario.rows); ++row)
        for (int32_t i = 0; i < config.hidden_size; ++i)
          want.push_back(dot(backend, weight.bf16_row(i), std::span(attention).subspan(row * width, width)));
      backend.run(scenario.machine, random_step(scenario), {Op::kOutProj, layer}, data);
      expect_near(data.slot(Slot::kProjected), want, scenario.name);
    }
  });
}

}  // namespace boreas::conformance
