// See cases.h.
#include "tests/conformance/cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace boreas::conformance {
namespace {

struct Shape {
  const char* name;
  int32_t hidden, query_heads, kv_heads, head_dim, experts, experts_per_token, expert_width, dense_width, vocab, window;
};
constexpr Shape kShapes[] = {
    {"grouped", 64, 8, 2, 16, 16, 4, 24, 40, 300, 64},
    {"odd", 75, 3, 3, 10, 7, 3, 13, 37, 211, 63},
    {"heads", 48, 16, 8, 6, 3, 1, 10, 9, 40, 65},  // more KV heads than 1 or 3 workers, groups of 2 of 16
    {"long", 1030, 4, 1, 128, 5, 2, 70, 530, 700, 127},
};
struct Cut {
  int32_t workers, rows;
};
constexpr Cut kCuts[] = {{1, 1}, {1, 40}, {3, 2}, {3, 33}, {16, 1}, {16, 17}, {128, 1}, {128, 3}};

std::shared_ptr<const Model> model_of(const Shape& shape) {
  static std::map<std::string, std::shared_ptr<const Model>> models;
  std::shared_ptr<const Model>& model = models[shape.name];
  if (model != nullptr) return model;
  ModelConfig config;
  config.family = "cohere2_moe";
  config.hidden_size = shape.hidden;
  config.query_heads = shape.query_heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.expert_width = shape.expert_width;
  config.dense_width = shape.dense_width;
  config.experts = shape.experts;
  config.experts_per_token = shape.experts_per_token;
  config.vocab_size = shape.vocab;
  config.window = shape.window;
  config.context_max = 262144;
  config.rms_norm_eps = 1e-5f;
  config.rope_theta = 50000;
  config.logit_scale = 0.25f;
  config.layers = {{.sliding = true, .rope = true, .dense_mlp = true},
                   {.sliding = true, .rope = true, .dense_mlp = false},
                   {.sliding = false, .rope = false, .dense_mlp = false},
                   {.sliding = false, .rope = true, .dense_mlp = true}};
  CHECK(config.layer_count() == kSweepLayers);
  Result<std::shared_ptr<const Model>> made = make_dummy_model(config);
  CHECK(made.ok());
  return model = *made;
}

Machine machine_of(const Shape& shape, int32_t workers, int32_t rows_max) {
  Machine machine;
  machine.name = std::string(shape.name) + ", " + std::to_string(workers) + " workers";
  machine.model = model_of(shape);
  Result<Program> program = place(lower(machine.model->config(), rows_max), toy_spec(workers), rows_max);
  CHECK(program.ok());
  machine.program = std::move(*program);
  return machine;
}

Compared compared;

}  // namespace

void for_each_scenario(uint64_t seed, const std::function<void(Scenario&)>& body) {
  Prng prng(seed);
  for (const Shape& shape : kShapes) {
    for (const Cut& cut : kCuts) {
      const Machine machine = machine_of(shape, cut.workers, cut.rows + 2);
      Scenario scenario{machine, cut.rows, prng,
                        machine.name + ", " + std::to_string(cut.rows) + " rows, seed " + std::to_string(seed)};
      body(scenario);
    }
  }
}

void for_each_machine(int32_t rows_max, const std::function<void(const Machine&)>& body) {
  for (const Shape& shape : kShapes)
    for (int32_t workers : {1, 3, 16, 128}) body(machine_of(shape, workers, rows_max));
}

Step random_step(Scenario& scenario) {
  const uint32_t vocab = static_cast<uint32_t>(scenario.config().vocab_size);
  constexpr LogitsWanted kWanted[] = {LogitsWanted::kLast, LogitsWanted::kNone, LogitsWanted::kAll};
  constexpr int32_t kPositions[] = {0, 1, 62, 63, 64, 65, 1000, 262143};
  Step step;
  for (int32_t left = scenario.rows; left > 0;) {
    StepRow row;
    row.slot = static_cast<int32_t>(step.plan.rows.size());
    const int32_t count = 1 + static_cast<int32_t>(scenario.prng.below(static_cast<uint32_t>(std::min(left, 9))));
    row.position = std::min(kPositions[scenario.prng.below(std::size(kPositions))], 262144 - count);
    row.logits = kWanted[step.plan.rows.size() % 3];
    std::vector<TokenId>& ids = step.tokens.emplace_back();
    for (int32_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>(scenario.prng.below(vocab)));
    if (left == scenario.rows) ids[0] = static_cast<TokenId>(vocab) - 1;
    step.plan.rows.push_back(row);
    step.sequences.emplace_back();
    left -= count;
  }
  for (size_t i = 0; i < step.tokens.size(); ++i) step.plan.rows[i].tokens = step.tokens[i];
  return step;
}

std::vector<float> random_values(Prng& prng, size_t count, float scale) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = round_to_bf16((2 * prng.uniform() - 1) * scale);
    const uint32_t dice = prng.below(64);
    if (dice == 0) value = 0;
    if (dice == 1) value = round_to_bf16(value * 0x1p-70f);
  }
  return values;
}

std::vector<float> random_routes(Scenario& scenario) {
  const ModelConfig& config = scenario.config();
  std::vector<float> routes;
  std::vector<int32_t> experts(static_cast<size_t>(config.experts));
  for (size_t e = 0; e < experts.size(); ++e) experts[e] = static_cast<int32_t>(e);
  for (int32_t row = 0; row < scenario.rows; ++row) {
    // Every third row takes the choice of the row before, so that some experts get several rows.
    if (row % 3 != 2)
      for (size_t i = experts.size(); i > 1; --i)
        std::swap(experts[i - 1], experts[scenario.prng.below(static_cast<uint32_t>(i))]);
    std::vector<int32_t> chosen(experts.begin(), experts.begin() + config.experts_per_token);
    std::sort(chosen.begin(), chosen.end());
    for (int32_t expert : chosen) {
      routes.push_back(static_cast<float>(expert));
      routes.push_back((1 + scenario.prng.uniform() * 1000) / 1002);
    }
  }
  return routes;
}

Slot route_slot(const Machine& machine, int32_t layer) {
  for (const TaskDesc& task : machine.program.list(0, op_role(Op::kTopK)))
    if (static_cast<Op>(task.op) == Op::kTopK && task.layer == layer)
      return static_cast<Slot>(task.args[TopKOp::kSlot]);
  CHECK(!"a layer without a router");
  return Slot::kRoute;
}

Bounded dot(const Backend& backend, const bf16* w, std::span<const float> x) {
  double sum = 0, magnitude = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double product = as_double(w[i]) * double{x[i]};
    sum += product;
    magnitude += std::abs(product);
  }
  return {sum, magnitude * roundings(backend.additions(static_cast<int32_t>(x.size())))};
}

Bounded to_bf16(const Bounded& x) {
  const double largest = std::abs(x.value) + x.error;
  const int exponent = largest > 0x1p-126 ? std::ilogb(largest) : -126;
  return {x.value, x.error + std::ldexp(1.0, exponent - 8)};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Bounded sigmoid(const Bounded& x) {
  const double value = sigmoid(x.value), power = std::exp(-std::abs(x.value));
  const double slope = 0.25 * x.error;  // nowhere steeper
  return {value, slope + power * (2 * std::abs(x.value) + 12) * kFp32Unit + value * roundings(3) + 0x1p-125};
}

void expect_near(std::span<const float> got, std::span<const Bounded> want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(double{got[i]} - want[i].value);
    ASSERT_LE(off, want[i].error) << what << ", value " << i << ": " << got[i] << ", expected " << want[i].value;
    if (want[i].error > 0) compared.worst = std::max(compared.worst, off / want[i].error);
  }
  compared.values += static_cast<int64_t>(got.size());
}

void expect_equal(std::span<const float> got, std::span<const float> want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << what << ", value " << i << ": " << got[i] << ", expected " << want[i];
  compared.values += static_cast<int64_t>(got.size());
}

Compared take_compared() { return std::exchange(compared, Compared{}); }

}  // namespace boreas::conformance
