// QKV: q, k and v of every head; adjacent pairs of q and k turned by position * theta^(-2i / head_dim) where the layer
// has RoPE. Positions up to the last of 262,144.
#include <cmath>

#include "tests/conformance/cases.h"

namespace boreas::conformance {
namespace {

// The angle is fp32, by definition: the frequency rounded once, its product with the position once. Sine and cosine are
// rounded once from the exact ones.
void rotate(Bounded& even, Bounded& odd, int32_t position, int32_t pair, const ModelConfig& config) {
  const float frequency = static_cast<float>(std::pow(config.rope_theta, -2.0 * pair / config.head_dim));
  const double angle = double{static_cast<float>(position) * frequency};
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const Bounded a = even, b = odd;
  // A product with a rounded factor, and the sum of two: three roundings of what goes in.
  const double rounding = roundings(3) * (std::abs(a.value) + a.error + std::abs(b.value) + b.error);
  even = {a.value * cosine - b.value * sine, a.error * std::abs(cosine) + b.error * std::abs(sine) + rounding};
  odd = {b.value * cosine + a.value * sine, b.error * std::abs(cosine) + a.error * std::abs(sine) + rounding};
}

std::vector<Bounded> head_part(const Backend& backend, const TensorView& weight, int32_t first, int32_t count,
                               std::span<const float> normed) {
  std::vector<Bounded> out;
  for (int32_t i = 0; i < count; ++i) out.push_back(dot(backend, weight.bf16_row(first + i), normed));
  return out;
}

void append_row(const Backend& backend, const Scenario& scenario, int32_t layer, int32_t position,
                std::span<const float> normed, std::vector<Bounded>& want) {
  const ModelConfig& config = scenario.config();
  const WeightTable& weights = scenario.machine.model->weights();
  const bool rope = config.layers[static_cast<size_t>(layer)].rope;
  const int32_t dim = config.head_dim, queries = config.queries_per_kv();
  for (int32_t head = 0; head < config.kv_heads; ++head) {
    for (int32_t part = 0; part < queries + 2; ++part) {
      std::vector<Bounded> values =
          part < queries
              ? head_part(backend, weights.at(WeightRole::kQuery, layer), (head * queries + part) * dim, dim, normed)
          : part == queries ? head_part(backend, weights.at(WeightRole::kKey, layer), head * dim, dim, normed)
                            : head_part(backend, weights.at(WeightRole::kValue, layer), head * dim, dim, normed);
      if (rope && part <= queries)
        for (size_t i = 0; i < values.size(); i += 2)
          rotate(values[i], values[i + 1], position, static_cast<int32_t>(i / 2), config);
      for (const Bounded& value : values) want.push_back(to_bf16(value));
    }
  }
}

}  // namespace

void check_kQkv(Backend& backend) {
  for_each_scenario(8, [&](Scenario& scenario) {
    const size_t hidden = static_cast<size_t>(scenario.config().hidden_size);
    for (int32_t layer : {0, 2, 3}) {
      const Step step = random_step(scenario);
      Data data;
      std::vector<float>& normed = data.slot(Slot::kNormed) =
          random_values(scenario.prng, scenario.values(scenario.config().hidden_size), 2);
      std::vector<Bounded> want;
      size_t row = 0;
      for (const StepRow& range : step.plan.rows)
        for (int32_t i = 0; i < static_cast<int32_t>(range.tokens.size()); ++i, ++row)
          append_row(backend, scenario, layer, range.position + i, std::span(normed).subspan(row * hidden, hidden),
                     want);
      backend.run(scenario.machine, step, {Op::kQkv, layer}, data);
      expect_near(data.hop(Hop::kQkv), want, scenario.name + ", layer " + std::to_string(layer));
    }
  });
}

}  // namespace boreas::conformance
