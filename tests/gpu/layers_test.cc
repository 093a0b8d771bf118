// The probed golden kernel on a GPU against what transformers made of the golden checkpoint, layer by layer: the
// smallest case of compare_layers, and the proof that probing works there. Without a usable GPU it is skipped, saying
// why.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "exec/cuda/cuda_executor.h"
#include "tests/gpu/golden_run.h"
#include "tests/gpu/layer_comparison.h"
#include "tests/gpu/probed_executor.h"

namespace boreas {
namespace {

TEST(LayersOnGpu, EqualTransformersOnItsOwnInputs) {
  const Status usable = check_gpu(0);
  if (!usable.ok()) GTEST_SKIP() << usable.error().message;
  const auto golden = GoldenCase::load("cohere2_moe", "gpu");
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  const ModelConfig& config = golden->model()->config();
  const OwnedRun owned = golden_run(*golden);
  for (const auto& [norm_roundings, plan_tokens] : {std::pair{1, kLayerPlanTokens}, {2, kLayerPlanTokens}, {1, 1}}) {
    LayerComparison comparison(config, {});
    ProbedOptions options;
    options.norm_roundings = norm_roundings;
    auto executor = make_probed_executor(golden->model(), {owned.run}, options, comparison);
    ASSERT_TRUE(executor.ok()) << executor.error().message;
    const auto report = compare_run(**executor, config, owned.run, comparison, plan_tokens);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->ok) << report->json_line();
  }
}

}  // namespace
}  // namespace boreas
