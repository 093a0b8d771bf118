// The probed kernel and the layer by layer comparison (tests/gpu), on the emulated device: against what transformers
// made of the golden checkpoint, and against plain arithmetic on a seeded cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/prng.h"
#include "exec/cuda/device_executor.h"
#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/megakernel.cuh"
#include "launch.h"
#include "model/model.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/plain_arithmetic.h"
#include "tests/gpu/golden_run.h"
#include "tests/gpu/layer_comparison.h"
#include "tests/gpu/seeded_pages.h"

namespace boreas {
namespace {

constexpr int32_t kWorkers = 4;
using C = cuda::Probed<cuda::Cut<cuda::GoldenShape, kWorkers>>;

std::unique_ptr<Executor> probed(const std::shared_ptr<const Model>& model, const std::vector<OracleRun>& runs,
                                 int32_t norm_roundings, ProbeUser& user) {
  const ModelConfig& config = model->config();
  DeviceSpec spec = h200_spec();
  spec.workers = kWorkers;
  spec.scratch_fixed_bytes = 16 * 1024;
  const PagesNeeded pages = pages_needed(config, runs);
  CudaExecutorOptions options;
  options.pages_full = pages.full;
  options.pages_sliding = pages.sliding;
  options.context_max = pages.context;
  options.sequence_slots = 1;
  options.tokens_max = kLayerPlanTokens;
  static const cuda::CompiledShape shapes[] = {cuda::compiled_shape<cuda::GoldenShape, kWorkers>()};
  cuda::HostKernel kernel = [](const std::string&, int32_t, size_t bytes, const cuda::StepParams& params) {
    return emulation::launch_kernel<C>(bytes, params, 0);
  };
  auto device = std::make_unique<cuda::HostDevice>(cuda::HostDeviceOptions{}, std::move(kernel),
                                                   std::make_shared<cuda::HostDeviceLog>());
  const ProbeSizes sizes{config.layer_count(), config.hidden_size, config.experts_per_token, norm_roundings};
  auto around = ProbeDevice::make(std::move(device), sizes, user);
  EXPECT_TRUE(around.ok());
  auto executor = cuda::make_device_executor(std::move(around).value(), spec, shapes, model, options);
  EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
  return executor.ok() ? std::move(executor).value() : nullptr;
}

LayerReport report_of(const std::shared_ptr<const Model>& model, const OracleRun& run, int32_t norm_roundings,
                      const LayerLimits& limits = {}) {
  LayerComparison comparison(model->config(), limits);
  const auto executor = probed(model, {run}, norm_roundings, comparison);
  EXPECT_TRUE(executor);
  auto report = compare_run(*executor, model->config(), run, comparison);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
  return report.ok() ? *report : LayerReport{};
}

class Probe : public testing::Test {
 protected:
  void SetUp() override {
    auto golden = GoldenCase::load("cohere2_moe", "gpu");
    ASSERT_TRUE(golden.ok()) << golden.error().message;
    model_ = golden->model();
    run_ = golden_run(*golden);
  }
  std::shared_ptr<const Model> model_;
  OwnedRun run_;
};

TEST_F(Probe, LayersEqualTransformersOnItsOwnInputs) {
  const int64_t vectors = int64_t{model_->config().layer_count()} * static_cast<int64_t>(run_.run.tokens.size());
  for (const int32_t norm_roundings : {1, 2}) {
    const LayerReport report = report_of(model_, run_.run, norm_roundings);
    std::printf("%s\n", report.json_line().c_str());
    EXPECT_TRUE(report.ok);
    EXPECT_EQ(report.attention.compared, vectors);
    EXPECT_EQ(report.mlp.compared + report.routes.different, vectors);
    EXPECT_GT(report.routes.compared, 0);
  }
}

// What the comparison is for: one wrong vector, one wrong expert, one wrong input are seen and named.
TEST_F(Probe, OneWrongVectorIsSeen) {
  const size_t hidden = static_cast<size_t>(model_->config().hidden_size), tokens = run_.run.tokens.size();
  OwnedRun wrong = run_;
  for (size_t i = 0; i < hidden; ++i) {
    bf16& bits = wrong.mlp[(2 * tokens + 5) * hidden + i];
    bits = float_to_bf16(bf16_to_float(bits) * 1.04f);
  }
  const LayerReport report = report_of(model_, wrong.run, 1);
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.attention.outside, 0);
  EXPECT_EQ(report.mlp.outside, 1);
  EXPECT_EQ(report.mlp.rms_layer, 2);
  EXPECT_EQ(report.mlp.rms_position, 5);
}

TEST_F(Probe, OneWrongExpertIsSeen) {
  const ModelConfig& config = model_->config();
  OwnedRun wrong = run_;
  const size_t row = 1 * wrong.run.tokens.size() + 7, chosen = static_cast<size_t>(config.experts_per_token);
  int32_t* route = wrong.routes.data() + row * chosen;
  int32_t other = 0;
  while (std::find(route, route + chosen, other) != route + chosen) ++other;
  route[chosen - 1] = other;
  bf16* logits = wrong.router.data() + row * static_cast<size_t>(config.experts);
  const LayerReport report = report_of(model_, wrong.run, 1);
  EXPECT_EQ(report.routes.different, 1);
  EXPECT_EQ(report.routes.worst_layer, 1);
  EXPECT_EQ(report.routes.worst_position, 7);
  // Excused where the oracle's logits are equal.
  for (int32_t expert = 0; expert < config.experts; ++expert) logits[expert] = 0x3f80;
  EXPECT_TRUE(report_of(model_, wrong.run, 1).ok);
}

TEST_F(Probe, OneWrongInputIsSeen) {
  OwnedRun wrong = run_;
  const size_t hidden = static_cast<size_t>(model_->config().hidden_size);
  bf16* input = wrong.inputs.data() + 3 * wrong.run.tokens.size() * hidden;
  std::rotate(input, input + 1, input + hidden);
  EXPECT_FALSE(report_of(model_, wrong.run, 1).ok);
}

// ---- files

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// A folder of one run of two tokens for the tiny shape; short_array is two bytes short.
std::string write_oracle(const std::string& short_array) {
  const ModelConfig config = *model_shape("tiny");
  const std::string folder = testing::TempDir() + "oracle_files";
  std::filesystem::create_directories(folder);
  const size_t rows = static_cast<size_t>(config.layer_count()) * 2;
  const auto array = [&](const std::string& name, size_t bytes) {
    write_file(folder + "/a." + name, std::string(bytes - (name == short_array ? 2 : 0), '\1'));
  };
  for (const char* name : {"inputs", "attention", "mlp"})
    array(name, rows * static_cast<size_t>(config.hidden_size) * 2);
  array("router", rows * static_cast<size_t>(config.experts) * 2);
  array("routes", rows * static_cast<size_t>(config.experts_per_token) * 4);
  write_file(folder + "/manifest.json",
             R"({"format": 1, "shape": "tiny", "layers": 5, "hidden": 128, "experts": 8, "experts_per_token": 2,)"
             R"( "window": 16, "made_by": {"by": "a test"}, "runs": [{"name": "a", "context": 7, "tokens": [5, 6]}]})");
  return folder;
}

TEST(OracleFiles, AreReadAsWritten) {
  const auto files = open_oracle_files(write_oracle(""));
  ASSERT_TRUE(files.ok()) << files.error().message;
  ASSERT_EQ(files->runs.size(), 1u);
  const OracleRun& run = files->runs[0];
  EXPECT_EQ(files->shape, "tiny");
  EXPECT_EQ(run.context, 7);
  EXPECT_EQ(run.tokens, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(run.inputs.size(), 5u * 2 * 128);
  EXPECT_EQ(run.router.size(), 5u * 2 * 8);
  EXPECT_EQ(run.routes.back(), 0x01010101);
}

TEST(OracleFiles, ErrorsNameTheFile) {
  const auto cut = open_oracle_files(write_oracle("mlp"));
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().message.find("a.mlp has 2558 bytes, expected 2560"), std::string::npos) << cut.error().message;
  const std::string folder = write_oracle("");
  write_file(folder + "/manifest.json", R"({"format": 1, "shape": "tiny"})");
  const auto bad = open_oracle_files(folder);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("manifest.json"), std::string::npos) << bad.error().message;
}

// ---- a seeded cache

// First four elements and FNV-1a 64 of the first 4,096, as tools/compare_layers/dummy_weights.py makes them.
TEST_F(Probe, SeededValuesMatchTheOraclesGenerator) {
  ModelConfig config = *model_shape("north");
  const auto check = [&](int32_t layer, bool value, std::vector<bf16> first, uint64_t hash) {
    std::vector<bf16> values = seeded_kv(config, layer, value, 0, 4096 / config.kv_width());
    EXPECT_EQ(std::vector<bf16>(values.begin(), values.begin() + 4), first);
    EXPECT_EQ(fnv1a_64(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(bf16)), hash);
    const std::vector<bf16> late = seeded_kv(config, layer, value, 5, 2);
    EXPECT_TRUE(std::equal(late.begin(), late.end(), values.begin() + 5 * config.kv_width()));
  };
  check(0, false, {0xbb68, 0xbc1e, 0xbb28, 0xba60}, 0xa11ccfa8777ab42eull);
  check(7, true, {0xbb38, 0x3bbc, 0xbc32, 0x3b9c}, 0xe904661d9b41e9cfull);
}

using plain::multiply;
using plain::rotate;
using plain::Vector;

Vector rounded(Vector x) {
  for (double& value : x) value = round_to_bf16(static_cast<float>(value));
  return x;
}

// One token's attention output behind a seeded cache, in doubles but for what is stored as BF16.
Vector seeded_attention(const Model& model, int32_t layer, const Vector& normed, int32_t context) {
  const ModelConfig& config = model.config();
  const LayerConfig& kind = config.layers[static_cast<size_t>(layer)];
  const auto weight = [&](WeightRole role) { return model.weights().at(role, layer); };
  Vector q = multiply(weight(WeightRole::kQuery), normed), k = multiply(weight(WeightRole::kKey), normed);
  if (kind.rope) rotate(config, context, q), rotate(config, context, k);
  const Vector v = rounded(multiply(weight(WeightRole::kValue), normed));
  k = rounded(k);
  const int32_t first = kind.sliding ? std::max(0, context - config.window + 1) : 0;
  const std::vector<bf16> keys = seeded_kv(config, layer, false, 0, context);
  const std::vector<bf16> values = seeded_kv(config, layer, true, 0, context);
  const size_t dim = static_cast<size_t>(config.head_dim), width = static_cast<size_t>(config.kv_width());
  Vector out(q.size());
  for (size_t head = 0; head < static_cast<size_t>(config.query_heads); ++head) {
    const size_t kv = head / static_cast<size_t>(config.queries_per_kv()) * dim;
    double total = 0;
    for (int32_t position = first; position <= context; ++position) {
      const size_t at = static_cast<size_t>(position) * width + kv;
      double score = 0;
      for (size_t i = 0; i < dim; ++i)
        score += q[head * dim + i] * (position == context ? k[kv + i] : double{bf16_to_float(keys[at + i])});
      const double share = std::exp(score / std::sqrt(static_cast<double>(dim)));
      total += share;
      for (size_t i = 0; i < dim; ++i)
        out[head * dim + i] += share * (position == context ? v[kv + i] : double{bf16_to_float(values[at + i])});
    }
    for (size_t i = 0; i < dim; ++i) out[head * dim + i] /= total;
  }
  return multiply(weight(WeightRole::kOutput), out);
}

Vector seeded_mlp(const Model& model, int32_t layer, const Vector& normed, OwnedRun& owned) {
  const ModelConfig& config = model.config();
  const auto swiglu = [&](WeightRole gate, WeightRole up, WeightRole down, int32_t expert) {
    const Vector g = multiply(model.weights().at(gate, layer, expert), normed);
    Vector inner = multiply(model.weights().at(up, layer, expert), normed);
    for (size_t i = 0; i < inner.size(); ++i) inner[i] *= g[i] / (1 + std::exp(-g[i]));
    return multiply(model.weights().at(down, layer, expert), inner);
  };
  if (!config.is_moe(layer)) {
    owned.add_dense(config);
    return swiglu(WeightRole::kDenseGate, WeightRole::kDenseUp, WeightRole::kDenseDown, 0);
  }
  const Vector logits = multiply(model.weights().at(WeightRole::kRouter, layer), normed);
  owned.add_route(std::vector<float>(logits.begin(), logits.end()), config.experts_per_token);
  Vector out(static_cast<size_t>(config.hidden_size));
  for (size_t i = 0; i < static_cast<size_t>(config.experts_per_token); ++i) {
    const int32_t expert = owned.routes[owned.routes.size() - 1 - i];
    const Vector one = swiglu(WeightRole::kExpertGate, WeightRole::kExpertUp, WeightRole::kExpertDown, expert);
    const double share = 1 / (1 + std::exp(-logits[static_cast<size_t>(expert)]));
    for (size_t k = 0; k < out.size(); ++k) out[k] += share * one[k];
  }
  return out;
}

// One token at the position after the cache, on inputs taken from `source`.
OwnedRun seeded_run(const Model& model, const OwnedRun& source, int32_t context) {
  const ModelConfig& config = model.config();
  const size_t hidden = static_cast<size_t>(config.hidden_size);
  OwnedRun owned;
  owned.run.name = "seeded";
  owned.run.context = context;
  owned.run.tokens = {source.run.tokens[3]};
  for (int32_t layer = 0; layer < config.layer_count(); ++layer) {
    const bf16* input = source.inputs.data() + (static_cast<size_t>(layer) * source.run.tokens.size() + 3) * hidden;
    owned.inputs.insert(owned.inputs.end(), input, input + hidden);
    double squares = 0;
    for (size_t i = 0; i < hidden; ++i) squares += double{bf16_to_float(input[i])} * bf16_to_float(input[i]);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(hidden) + config.rms_norm_eps);
    const bf16* weight = model.weights().at(WeightRole::kInputNorm, layer).bf16_row(0);
    Vector normed(hidden);
    for (size_t i = 0; i < hidden; ++i) normed[i] = bf16_to_float(input[i]) * scale * bf16_to_float(weight[i]);
    normed = rounded(normed);
    const Vector attention = seeded_attention(model, layer, normed, context),
                 mlp = seeded_mlp(model, layer, normed, owned);
    append(owned.attention, std::vector<float>(attention.begin(), attention.end()));
    append(owned.mlp, std::vector<float>(mlp.begin(), mlp.end()));
  }
  owned.point();
  return owned;
}

// Around the window, around page borders, and over several pages a piece; the rest of the cache is NaN.
TEST_F(Probe, SeededCachesAreReadAsTheyWereFilled) {
  const int32_t window = model_->config().window;
  for (const int32_t context : {1, window - 1, window, 63, 64, 129, 400}) {
    SCOPED_TRACE(context);
    const OwnedRun owned = seeded_run(*model_, run_, context);
    const LayerReport report = report_of(model_, owned.run, 1);
    std::printf("%s\n", report.json_line().c_str());
    EXPECT_TRUE(report.ok);
  }
}

}  // namespace
}  // namespace boreas
