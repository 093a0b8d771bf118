// GATHER_NORM: y = x / sqrt(mean(x^2) + eps) * w. Rows of usual size, of zeros, of values far below eps and of large
// ones.
#include <cmath>

#include "tests/conformance/cases.h"

namespace boreas::conformance {
namespace {

std::vector<Bounded> normed(const Backend& backend, std::span<const float> x, const bf16* weight, double eps) {
  const double width = static_cast<double>(x.size());
  double squares = 0;
  for (float value : x) squares += double{value} * double{value};
  const double rstd = 1 / std::sqrt(squares / width + eps);
  // The sum, the mean, + eps: their relative error is halved by the root. Root, reciprocal and two products round; so
  // does eps as an fp32 number.
  const double relative = roundings((backend.additions(static_cast<int32_t>(x.size())) + 3) / 2.0 + 4);
  std::vector<Bounded> y;
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = double{x[i]} * rstd * as_double(weight[i]);
    y.push_back(to_bf16({value, std::abs(value) * relative}));
  }
  return y;
}

}  // namespace

void check_kGatherNorm(Backend& backend) {
  for_each_scenario(4, [&](Scenario& scenario) {
    const ModelConfig& config = scenario.config();
    const WeightTable& weights = scenario.machine.model->weights();
    const size_t hidden = static_cast<size_t>(config.hidden_size);
    for (int32_t layer = -1; layer < kSweepLayers; ++layer) {
      const TensorView& weight =
          layer < 0 ? weights.at(WeightRole::kFinalNorm) : weights.at(WeightRole::kInputNorm, layer);
      Data data;
      std::vector<Bounded> want;
      std::vector<float>& residual = data.hop(Hop::kResidual);
      constexpr float kScales[] = {2, 0, 0x1p-20f, 300, 0x1p-60f};
      for (int32_t row = 0; row < scenario.rows; ++row) {
        const std::vector<float> x = random_values(scenario.prng, hidden, kScales[(row + layer + 1) % 5]);
        residual.insert(residual.end(), x.begin(), x.end());
        const std::vector<Bounded> y = normed(backend, x, weight.bf16_row(0), double{config.rms_norm_eps});
        want.insert(want.end(), y.begin(), y.end());
      }
      backend.run(scenario.machine, random_step(scenario), {Op::kGatherNorm, layer}, data);
      expect_near(data.slot(Slot::kNormed), want, scenario.name + ", layer " + std::to_string(layer));
    }
  });
}

}  // namespace boreas::conformance
