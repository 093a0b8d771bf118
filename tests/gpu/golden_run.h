// An OracleRun of what transformers made of the golden checkpoint, each layer on its own input, in BF16; for tests of
// the comparison on the emulated device and of the probed kernel on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "tests/golden/golden_file.h"
#include "tests/gpu/oracle_files.h"

namespace boreas {

// An OracleRun and the arrays that it points to.
struct OwnedRun {
  OracleRun run;
  std::vector<bf16> inputs, attention, mlp, router;
  std::vector<int32_t> routes;

  OwnedRun() = default;
  OwnedRun(const OwnedRun& other) { *this = other; }
  OwnedRun& operator=(const OwnedRun& other) {
    run = other.run;
    inputs = other.inputs;
    attention = other.attention;
    mlp = other.mlp;
    router = other.router;
    routes = other.routes;
    point();
    return *this;
  }
  void point() {
    run.inputs = inputs;
    run.attention = attention;
    run.mlp = mlp;
    run.router = router;
    run.routes = routes;
  }
  // Of one MoE layer and token; the experts with the largest logits, lowest id first among equals.
  void add_route(std::span<const float> logits, int32_t experts_per_token) {
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    for (const float logit : logits) router.push_back(float_to_bf16(logit));
    routes.insert(routes.end(), order.begin(), order.begin() + experts_per_token);
  }
  void add_dense(const ModelConfig& config) {
    router.insert(router.end(), static_cast<size_t>(config.experts), 0);
    routes.insert(routes.end(), static_cast<size_t>(config.experts_per_token), -1);
  }
};

inline void append(std::vector<bf16>& to, std::span<const float> values) {
  for (const float value : values) to.push_back(float_to_bf16(value));
}

// The sequence of the golden case whose every layer is stored: transformers in BF16, each layer on its own input.
inline OwnedRun golden_run(const GoldenCase& golden) {
  const ModelConfig& config = golden.model()->config();
  OwnedRun owned;
  owned.run.name = "golden";
  owned.run.tokens = golden.per_layer()->tokens;
  const TensorView& embedding = golden.model()->weights().at(WeightRole::kEmbedding);
  for (int32_t layer = 0; layer < config.layer_count(); ++layer) {
    const std::string name = "layer." + std::to_string(layer);
    if (layer == 0) {
      for (const TokenId token : owned.run.tokens)
        owned.inputs.insert(owned.inputs.end(), embedding.bf16_row(token),
                            embedding.bf16_row(token) + config.hidden_size);
    } else {
      append(owned.inputs, golden.tensor("full." + std::to_string(layer - 1) + ".residual").values);
    }
    append(owned.attention, golden.tensor(name + ".attention_bf16").values);
    append(owned.mlp, golden.tensor(name + ".mlp_bf16").values);
    for (size_t token = 0; token < owned.run.tokens.size(); ++token) {
      if (!config.is_moe(layer)) owned.add_dense(config);
      else
        owned.add_route(golden.tensor(name + ".router_logits").row(static_cast<int64_t>(token)),
                        config.experts_per_token);
    }
  }
  owned.point();
  return owned;
}

}  // namespace boreas
