// UP_GATE: silu(gate . h) * (up . h), of the dense MLP and of the experts of each row, rounded once to bf16.
#include <cmath>

#include "tests/conformance/cases.h"

namespace boreas::conformance {
namespace {

Bounded swiglu(const Bounded& gate, const Bounded& up) {
  const Bounded weight = sigmoid(gate);
  const double silu = gate.value * weight.value;
  // d silu / d gate is at most 1.1; the sigmoid's own roundings come on top, and the product's.
  const Bounded alone = sigmoid(Bounded{gate.value, 0});
  const double silu_error =
      1.1 * gate.error + (std::abs(gate.value) + gate.error) * alone.error + std::abs(silu) * roundings(1);
  const double value = silu * up.value;
  return to_bf16({value, silu_error * (std::abs(up.value) + up.error) + std::abs(silu) * up.error +
                             std::abs(value) * roundings(1)});
}

}  // namespace

void check_kUpGate(Backend& backend) {
  for_each_scenario(9, [&](Scenario& scenario) {
    const ModelConfig& config = scenario.config();
    const WeightTable& weights = scenario.machine.model->weights();
    const size_t hidden = static_cast<size_t>(config.hidden_size),
                 routed = static_cast<size_t>(config.experts_per_token);
    for (int32_t layer = 0; layer < 3; ++layer) {
      const bool moe = config.is_moe(layer);
      Data data;
      // Of a scale that drives the gates well beyond where the sigmoid is straight.
      std::vector<float>& normed = data.slot(Slot::kNormed) =
          random_values(scenario.prng, scenario.values(config.hidden_size), 6);
      std::vector<float> routes;
      if (moe) routes = data.slot(route_slot(scenario.machine, layer)) = random_routes(scenario);
      std::vector<Bounded> want;
      for (size_t row = 0; row < static_cast<size_t>(scenario.rows); ++row) {
        const std::span<const float> h = std::span(normed).subspan(row * hidden, hidden);
        for (size_t j = 0; j < (moe ? routed : 1); ++j) {
          const int32_t expert = moe ? static_cast<int32_t>(routes[(row * routed + j) * 2]) : 0;
          const TensorView& gate = weights.at(moe ? WeightRole::kExpertGate : WeightRole::kDenseGate, layer, expert);
          const TensorView& up = weights.at(moe ? WeightRole::kExpertUp : WeightRole::kDenseUp, layer, expert);
          for (int64_t i = 0; i < gate.rows; ++i)
            want.push_back(swiglu(dot(backend, gate.bf16_row(i), h), dot(backend, up.bf16_row(i), h)));
        }
      }
      backend.run(scenario.machine, random_step(scenario), {Op::kUpGate, layer}, data);
      expect_near(data.hop(Hop::kInner), want, scenario.name + ", layer " + std::to_string(layer));
    }
  });
}

}  // namespace boreas::conformance
