// Runs an oracle's tokens through a CUDA executor whose kernel is probed, every layer on the oracle's own input, and
// compares what attention and MLP put out, each before the residual add, and which experts were chosen. Used by
// compare_layers.cc on a GPU and by tests/emulation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "model/model.h"
#include "tests/gpu/oracle_files.h"
#include "tests/gpu/probe_device.h"

namespace boreas {

struct LayerLimits {
  // Of every position's vector [hidden] in every layer.
  double cosine_min = 0.9995;
  double rms_max = 0.02;  // rms(ours - oracle) / rms(oracle)
  // Expert sets may differ where the oracle's logits of the exchanged experts are no further apart than so many units
  // in the last place of BF16. 0: only where they are equal.
  int32_t route_ulps_max = 0;
};

// The worst vector of a kind, and the worst layer as a whole.
struct VectorDistances {
  double cosine_min = 1, rms_max = 0;
  int32_t cosine_layer = -1, cosine_position = -1, rms_layer = -1, rms_position = -1;
  int64_t compared = 0, outside = 0;               // vectors; outside: of a limit
  double layer_cosine_min = 1, layer_rms_max = 0;  // all positions of a layer as one vector
};

constexpr int32_t kUlpsCounted = 4;

struct RouteDifferences {
  int64_t compared = 0, different = 0;
  // Different sets by how far apart the exchanged experts' logits are: 0, 1, 2, 3 and more units in the last place.
  std::array<int64_t, kUlpsCounted> by_ulps{};
  int32_t ulps_max = 0, worst_layer = -1, worst_position = -1;
};

struct LayerReport {
  std::string run;
  int32_t context = 0, positions = 0;
  VectorDistances attention, mlp;  // mlp without positions whose expert sets differ
  RouteDifferences routes;
  bool ok = false;

  std::string json_line() const;
};

// The user of a ProbeDevice; one run at a time.
class LayerComparison final : public ProbeUser {
 public:
  LayerComparison(const ModelConfig& config, const LayerLimits& limits) : config_(config), limits_(limits) {}

  void begin(const OracleRun& run);
  // All positions of the run must have been seen.
  LayerReport end();

  void give_inputs(const cuda::StepParams& step, std::span<uint16_t> inputs) override;
  void take_outputs(const cuda::StepParams& step, std::span<const float> outputs,
                    std::span<const int32_t> routes) override;

 private:
  struct Sums {
    double product = 0, ours = 0, oracle = 0, difference = 0;
    void add(const Sums& other);
    double cosine() const;
    double rms() const;
  };
  static Sums compare(const float* ours, const bf16* oracle, int32_t count);
  size_t oracle_row(int32_t layer, int32_t token) const;
  void compare_row(int32_t layer, int32_t token, const float* attention, const float* mlp, const int32_t* route);
  void take(const Sums& sums, int32_t layer, int32_t token, VectorDistances& into) const;
  // Whether the sets are equal; counts them.
  bool compare_routes(int32_t layer, int32_t token, const int32_t* route);

  const ModelConfig& config_;
  LayerLimits limits_;
  const OracleRun* run_ = nullptr;
  LayerReport report_;
  std::vector<Sums> attention_layers_, mlp_layers_;
  int64_t tokens_seen_ = 0;
};

// Pages that the executor must have for these runs: options pages_full and pages_sliding of it.
struct PagesNeeded {
  int32_t full = 1, sliding = 1, context = 1;
};
PagesNeeded pages_needed(const ModelConfig& config, const std::vector<OracleRun>& runs);

// Fills the cache where the run has a context, then runs its tokens in plans of at most `plan_tokens`, 1 to
// kLayerPlanTokens; plans of one token take the kernel of one row. The executor is made over a ProbeDevice with
// `comparison` as its user.
constexpr int32_t kLayerPlanTokens = 512;
Result<LayerReport> compare_run(Executor& executor, const ModelConfig& config, const OracleRun& run,
                                LayerComparison& comparison, int32_t plan_tokens = kLayerPlanTokens);

}  // namespace boreas
