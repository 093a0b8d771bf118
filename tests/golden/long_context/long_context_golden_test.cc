// One step of models/demo at position 65,535, the last that its config declares, behind a filled cache: plain
// arithmetic, the oracle's own BF16 run and the CPU executor against transformers in FP32; and what a wrong page or
// window changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/cpu/cpu_executor.h"
#include "tests/golden/long_context/executor_checks.h"
#include "tests/golden/long_context/plain_step.h"
#include "tests/gpu/seeded_pages.h"

namespace boreas {
namespace {

class LongContext : public testing::Test {
 protected:
  void SetUp() override {
    model_ = load_demo_model();
    ASSERT_TRUE(model_);
    auto golden = load_long_context_golden(config());
    ASSERT_TRUE(golden.ok()) << golden.error().message;
    golden_ = std::move(*golden);
    ASSERT_EQ(golden_.position + 1, config().context_max);
    ASSERT_EQ(golden_.tokens.size(), 4u);
  }
  const ModelConfig& config() const { return model_->config(); }

  // The golden's cache, in sliding layers with one position more than is visible.
  std::vector<CachedLayer> plain_cache() const {
    std::vector<CachedLayer> cache;
    for (int32_t layer = 0; layer < config().layer_count(); ++layer) {
      CachedLayer one;
      if (config().layers[static_cast<size_t>(layer)].sliding) one.first = golden_.position - config().window;
      const int64_t count = golden_.position - one.first;
      one.keys = loud_kv(config(), golden_.position, layer, false, one.first, count);
      one.values = loud_kv(config(), golden_.position, layer, true, one.first, count);
      cache.push_back(std::move(one));
    }
    return cache;
  }
  double fp32_ratio(const LongContextToken& token, const PlainStep& step) const {
    return row_ratio(token.logits, step.logits,
                     logits_error(token.scales, fp32_arithmetic(config(), golden_.position + 1)));
  }
  std::unique_ptr<Executor> on_cpu(std::shared_ptr<const Model> model) const {
    CpuExecutorOptions options;
    options.threads = 2;
    options.sequence_slots = 1;
    options.block_rows = 1;
    options.pages_full = long_context_full_pages(golden_.position);
    options.pages_sliding = long_context_sliding_pages(config(), golden_.position);
    auto executor = make_cpu_executor(std::move(model), options);
    if (executor.ok()) return std::move(*executor);
    ADD_FAILURE() << executor.error().message;
    return nullptr;
  }

  std::shared_ptr<const Model> model_;
  LongContextGolden golden_;
};

TEST_F(LongContext, PlainArithmeticAgreesWithTheOracleLayerByLayer) {
  const std::vector<CachedLayer> cache = plain_cache();
  double worst = 0, worst_logit = 0;
  for (const LongContextToken& token : golden_.tokens) {
    const PlainStep step = plain_step(*model_, cache, golden_.position, token.token, config().window);
    const auto errors = forward_error(token.scales, fp32_arithmetic(config(), golden_.position + 1));
    for (size_t i = 0; i < errors.size(); ++i) {
      const double attention = row_ratio(token.attention[i], step.attention[i], errors[i].attention);
      const double mlp = row_ratio(token.mlp[i], step.mlp[i], errors[i].mlp);
      const double residual = row_ratio(token.residual[i], step.residual[i], errors[i].residual);
      EXPECT_LE(attention, 1) << "token " << token.token << " layer " << i;
      EXPECT_LE(mlp, 1) << "token " << token.token << " layer " << i;
      EXPECT_LE(residual, 1) << "token " << token.token << " layer " << i;
      worst = std::max({worst, attention, mlp, residual});
    }
    const double logits = fp32_ratio(token, step);
    EXPECT_LE(logits, 1) << "token " << token.token;
    worst_logit = std::max(worst_logit, logits);
  }
  std::cout << "the worst layer output is off by " << worst << ", the worst logit by " << worst_logit
            << " FP32 tolerances\n";
}

// In FP32 even one page among a thousand alike shows.
TEST_F(LongContext, OnePageOrPositionAmissIsOffByTenTolerances) {
  const std::vector<CachedLayer> cache = plain_cache();
  const auto expect_flaw = [&](const std::vector<CachedLayer>& seen, int32_t window, const char* what) {
    double worst = 0;
    for (const LongContextToken& token : golden_.tokens)
      worst = std::max(worst, fp32_ratio(token, plain_step(*model_, seen, golden_.position, token.token, window)));
    EXPECT_GE(worst, kLongContextFlaw) << what;
    std::cout << what << ": off by " << worst << " FP32 tolerances\n";
  };
  expect_flaw(cache, config().window + 1, "window + 1");
  expect_flaw(cache, config().window - 1, "window - 1");
  std::vector<CachedLayer> other = cache;
  for (CachedLayer& layer : other) {
    if (layer.first != 0) continue;
    const std::ptrdiff_t page = std::ptrdiff_t{kPagePositions} * config().kv_width(), at = 500 * page;
    std::copy_n(layer.keys.begin() + at - page, page, layer.keys.begin() + at);
    std::copy_n(layer.values.begin() + at - page, page, layer.values.begin() + at);
  }
  expect_flaw(other, config().window, "page 500 replaced by the one before");
}

// The GPU's pages, where there is no GPU: those that compare_layers fills, louder by a step of the exponent.
TEST_F(LongContext, TiledPagesAreTheSeededOnesButLouder) {
  const size_t elements =
      size_t{2} * kPagePositions * static_cast<size_t>(config().kv_width() * config().full_layers());
  std::vector<bf16> loud(elements), seeded(elements);
  fill_loud_page(config(), golden_.position, PagePoolKind::kFull, 500, PageLayout::kTiles,
                 std::as_writable_bytes(std::span(loud)));
  fill_seeded_page(config(), PagePoolKind::kFull, 500, golden_.position, std::as_writable_bytes(std::span(seeded)));
  size_t keys = 0, values = 0;
  for (size_t i = 0; i < elements; ++i) {
    const int32_t gain = (int32_t{loud[i]} - int32_t{seeded[i]}) >> 7;
    ASSERT_EQ(loud[i], seeded[i] + (gain << 7)) << i;
    (gain == 5 ? keys : values) += 1;
    ASSERT_TRUE(gain == 5 || gain == 16) << i;
  }
  EXPECT_EQ(keys, values);
}

// The tolerance that executors get must hold what the oracle itself does in BF16.
TEST_F(LongContext, ToleranceHoldsTheOraclesOwnBf16) {
  double worst = 0;
  for (const LongContextToken& token : golden_.tokens) {
    const double error = logits_error(token.scales, long_context_bf16(config(), golden_.position));
    const double off = row_ratio(token.logits, token.logits_bf16, error);
    EXPECT_LE(off, 1) << "token " << token.token;
    worst = std::max(worst, off);
    std::cout << "token " << token.token << ": off by " << off << " tolerances of " << kSigmas * error
              << " of the logits' rms\n";
  }
  EXPECT_GT(worst, 0.1) << "the tolerance is far too wide";
}

TEST_F(LongContext, CpuExecutorAgreesWithTheOracleOnTheWholeCache) {
  const auto executor = on_cpu(model_);
  ASSERT_TRUE(executor);
  ASSERT_EQ(executor->info().context_max, config().context_max);
  check_long_context(*executor, config(), golden_, PageLayout::kRows);
}

// models/demo but for its window.
std::shared_ptr<const Model> demo_with_window(int32_t window) {
  namespace fs = std::filesystem;
  const fs::path demo = BOREAS_SOURCE_DIR "/models/demo";
  const fs::path folder = fs::temp_directory_path() / ("boreas_long_context_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  for (const auto& entry : fs::directory_iterator(demo))
    if (entry.path().filename() != "config.json") fs::create_symlink(entry.path(), folder / entry.path().filename());
  std::ifstream in(demo / "config.json");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string key = "\"sliding_window\": ";
  const size_t at = text.find(key);
  CHECK(at != std::string::npos);
  text.replace(at + key.size(), text.find_first_of(",\n", at) - at - key.size(), std::to_string(window));
  std::ofstream(folder / "config.json") << text;
  auto model = load_model(folder.string());
  fs::remove_all(folder);
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? *model : nullptr;
}

TEST_F(LongContext, CpuExecutorWithAnotherWindowIsOffByTenTolerances) {
  for (const int32_t step : {-1, 1}) {
    const auto model = demo_with_window(config().window + step);
    ASSERT_TRUE(model);
    ASSERT_EQ(model->config().window, config().window + step);
    const auto executor = on_cpu(model);
    ASSERT_TRUE(executor);
    const auto tables = fill_long_context(*executor, config(), golden_.position, PageLayout::kRows);
    ASSERT_TRUE(tables.ok()) << tables.error().message;
    const double off = long_context_ratio(*executor, config(), golden_, *tables);
    EXPECT_GE(off, kLongContextFlaw) << "window " << step;
    std::cout << "window " << (step > 0 ? "+" : "-") << " 1: off by " << off << " tolerances\n";
  }
}

}  // namespace
}  // namespace boreas
