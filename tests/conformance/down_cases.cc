// DOWN: residual = bf16((residual + projected) + mlp), mlp the dense product or the weighted sum over the row's
// experts; the same bits in the slot and in the hop.
#include <cmath>

#include "tests/conformance/cases.h"

namespace boreas::conformance {
namespace {

// x: [experts of the row, width]; route: [experts of the row][id, weight].
Bounded routed(const Backend& backend, const Scenario& scenario, int32_t layer, int32_t output,
               std::span<const float> x, std::span<const float> route) {
  const size_t width = static_cast<size_t>(scenario.config().expert_width);
  Bounded sum;
  double magnitude = 0;
  for (size_t j = 0; 2 * j < route.size(); ++j) {
    const TensorView& weight =
        scenario.machine.model->weights().at(WeightRole::kExpertDown, layer, static_cast<int32_t>(route[2 * j]));
    const Bounded y = dot(backend, weight.bf16_row(output), x.subspan(j * width, width));
    sum.value += double{route[2 * j + 1]} * y.value;
    sum.error += double{route[2 * j + 1]} * y.error;
    magnitude += double{route[2 * j + 1]} * (std::abs(y.value) + y.error);
  }
  sum.error += magnitude * roundings(1 + static_cast<double>(route.size()) / 2);  // the product, then one add an expert
  return sum;
}

Bounded added(float residual, float projected, const Bounded& mlp) {
  const double value = double{residual} + double{projected} + mlp.value;
  const double magnitude = std::abs(double{residual}) + std::abs(double{projected}) + std::abs(mlp.value) + mlp.error;
  return to_bf16({value, mlp.error + magnitude * roundings(2)});
}

}  // namespace

void check_kDown(Backend& backend) {
  for_each_scenario(11, [&](Scenario& scenario) {
    const ModelConfig& config = scenario.config();
    const size_t hidden = static_cast<size_t>(config.hidden_size);
    for (int32_t layer = 0; layer < 3; ++layer) {
      Data data;
      const size_t inner_width = static_cast<size_t>(values_per_row(config, layer, Slot::kInner));
      const std::vector<float> inner = data.slot(Slot::kInner) =
          random_values(scenario.prng, scenario.values(static_cast<int64_t>(inner_width)));
      const std::vector<float> residual = data.slot(Slot::kResidual) =
          random_values(scenario.prng, scenario.values(config.hidden_size), 3);
      std::vector<float>& projected = data.slot(Slot::kProjected);
      for (size_t i = 0; i < residual.size(); ++i) projected.push_back(4 * scenario.prng.uniform() - 2);  // fp32
      std::vector<float> routes;
      if (config.is_moe(layer)) routes = data.slot(route_slot(scenario.machine, layer)) = random_routes(scenario);
      const size_t route_width = routes.size() / static_cast<size_t>(scenario.rows);
      std::vector<Bounded> want;
      for (size_t row = 0; row < static_cast<size_t>(scenario.rows); ++row) {
        const std::span<const float> x = std::span(inner).subspan(row * inner_width, inner_width);
        for (size_t i = 0; i < hidden; ++i) {
          const int32_t output = static_cast<int32_t>(i);
          const Bounded mlp =
              config.is_moe(layer)
                  ? routed(backend, scenario, layer, output, x,
                           std::span(routes).subspan(row * route_width, route_width))
                  : dot(backend, scenario.machine.model->weights().at(WeightRole::kDenseDown, layer).bf16_row(output),
                        x);
          want.push_back(added(residual[row * hidden + i], projected[row * hidden + i], mlp));
        }
      }
      backend.run(scenario.machine, random_step(scenario), {Op::kDown, layer}, data);
      expect_near(data.hop(Hop::kResidual), want, scenario.name + ", layer " + std::to_string(layer));
      expect_equal(data.slot(Slot::kResidual), data.hop(Hop::kResidual), "slot and hop, " + scenario.name);
    }
  });
}

}  // namespace boreas::conformance
