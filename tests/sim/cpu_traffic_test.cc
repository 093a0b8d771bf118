// Random traffic (traffic.h) over the CPU executor: on the demo checkpoint with text that it was made for, and on
// random models with other windows and layers. And over a fake executor with two arithmetics, as a GPU has.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/check.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/fake/fake_executor.h"
#include "traffic.h"

namespace boreas {
namespace {

World random_world(int32_t window, bool full_layers) {
  auto config = model_shape("tiny");
  CHECK(config.ok());
  config->window = window;
  for (LayerConfig& layer : config->layers) layer.sliding = layer.sliding || !full_layers;
  auto model = make_dummy_model(*config);
  CHECK(model.ok());
  const int32_t last = config->vocab_size - 1;
  return {"random weights, window " + std::to_string(window) + (full_layers ? "" : ", no full attention"), *model,
          [last](Prng& prng, int32_t count) {
            std::vector<TokenId> tokens;
            for (int32_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(prng.between(0, last)));
            return tokens;
          }};
}

std::unique_ptr<Executor> make_executor_on_cpu(const std::shared_ptr<const Model>& model, int32_t pages_full,
                                               int32_t pages_sliding) {
  auto options = traffic_options<CpuExecutorOptions>(pages_full, pages_sliding);
  options.threads = model->config().hidden_size < 128 ? 1 : 0;
  options.block_rows = 32;
  auto executor = make_cpu_executor(model, options);
  CHECK(executor.ok());
  return std::move(*executor);
}

std::unique_ptr<Executor> make_fake_executor(const std::shared_ptr<const Model>& model, int32_t pages_full,
                                             int32_t pages_sliding) {
  auto options = traffic_options<FakeOptions>(pages_full, pages_sliding);
  options.vocab_size = model->config().vocab_size;
  options.window = model->config().window;
  options.steps_in_flight_max = 2;
  options.one_arithmetic = false;
  return std::make_unique<FakeExecutor>(options);
}

TEST(FakeTraffic, EqualsRunsAloneWithTwoArithmetics) {
  run_traffics(random_world(16, true), make_fake_executor, 24, 8);
}
TEST(CpuTraffic, EqualsRunsAloneOnTheDemoCheckpoint) { run_traffics(demo_world(), make_executor_on_cpu, 24, 1); }
TEST(CpuTrafficFull, EqualsRunsAloneOnTheDemoCheckpoint) { run_traffics(demo_world(), make_executor_on_cpu, 24); }
TEST(CpuTraffic, EqualsRunsAloneWithASmallWindow) { run_traffics(random_world(16, true), make_executor_on_cpu, 24); }
TEST(CpuTraffic, EqualsRunsAloneWithALargeWindow) { run_traffics(random_world(150, true), make_executor_on_cpu, 24); }
TEST(CpuTraffic, EqualsRunsAloneWithoutFullAttention) {
  run_traffics(random_world(150, false), make_executor_on_cpu, 24);
}

}  // namespace
}  // namespace boreas
