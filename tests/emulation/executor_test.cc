// The whole CUDA executor, with the megakernel's source behind it on the emulated device: against the oracle's golden
// logits of the shape that GPU and CPU share, and against the CPU executor through the same interface.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "distance.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/cuda/device_executor.h"
#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/megakernel.cuh"
#include "grid.h"
#include "model/model.h"
#include "tests/golden/golden_checkpoint.h"

namespace boreas {
namespace {

constexpr int32_t kWorkers = 4;
using C = cuda::Cut<cuda::GoldenShape, kWorkers>;

// Runs a launch on the emulated device; its memory is the host's, all of it open to the kernel.
Status launch(const std::string&, int32_t workers, size_t shared_bytes, const cuda::StepParams& params, uint64_t seed) {
  emulation::forget_memory();
  emulation::register_memory(reinterpret_cast<const void*>(4096), uint64_t{1} << 47, "all memory");
  emulation::GridOptions options;
  options.blocks = workers;
  options.threads = cuda::kThreads;
  options.shared_bytes = static_cast<uint32_t>(shared_bytes);
  options.seed = seed;
  const emulation::GridResult result = emulation::run_grid(options, [&] { cuda::run_worker<C>(params); });
  if (result.outcome == emulation::Outcome::kFinished) return Ok{};
  return Error{result.message};
}

std::unique_ptr<Executor> emulated(std::shared_ptr<const Model> model, CudaExecutorOptions options) {
  DeviceSpec spec = h200_spec();
  spec.workers = kWorkers;
  spec.scratch_fixed_bytes = 16 * 1024;
  options.pages_full = options.pages_sliding = 24;
  options.sequence_slots = 4;
  options.context_max = 512;
  auto seed = std::make_shared<uint64_t>(0);
  cuda::HostKernel kernel = [seed](const std::string& shape, int32_t workers, size_t bytes,
                                   const cuda::StepParams& params) {
    return launch(shape, workers, bytes, params, (*seed)++);
  };
  static const cuda::CompiledShape shapes[] = {cuda::compiled_shape<cuda::GoldenShape, kWorkers>()};
  auto device = std::make_unique<cuda::HostDevice>(cuda::HostDeviceOptions{}, std::move(kernel),
                                                   std::make_shared<cuda::HostDeviceLog>());
  auto executor = cuda::make_device_executor(std::move(device), spec, shapes, std::move(model), options);
  EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
  return executor.ok() ? std::move(executor).value() : nullptr;
}

std::unique_ptr<Executor> plain(std::shared_ptr<const Model> model) {
  CpuExecutorOptions options;
  options.threads = 1;
  options.pages_full = options.pages_sliding = 24;
  options.context_max = 512;
  auto executor = make_cpu_executor(std::move(model), options);
  return executor.ok() ? std::move(executor).value() : nullptr;
}

// Prefills a prompt in one plan, then decodes greedily, the tokens fed back on the device; scores of all steps.
struct Decoded {
  std::vector<TokenId> tokens;
  std::vector<SampledToken> samples;
};
Decoded decode(Executor& executor, const std::vector<TokenId>& prompt, int32_t steps, const SamplingParams& sampling) {
  Decoded result;
  SequenceSpec spec;
  spec.sampling = sampling;
  spec.prompt = prompt;
  executor.open_sequence(1, spec);
  std::vector<PageId> pages;
  for (int32_t i = 0; i < 8; ++i) pages.push_back(PageId((i * 5 + 3) % 24));
  int32_t position = 0;
  for (int32_t step = 0; step < steps; ++step) {
    StepPlan plan;
    plan.rows.push_back({});
    StepRow& row = plan.rows[0];
    row.slot = 1;
    row.position = position;
    if (step == 0) row.tokens = prompt;
    row.full_pages = row.sliding_pages = pages;
    row.logits = LogitsWanted::kLast;
    position += step == 0 ? static_cast<int32_t>(prompt.size()) : 1;
    auto ticket = executor.submit(plan);
    EXPECT_TRUE(ticket.ok()) << (ticket.ok() ? "" : ticket.error().message);
    if (!ticket.ok()) return result;
    auto done = executor.wait(*ticket);
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    if (!done.ok()) return result;
    result.samples.push_back(done->rows[0].sampled);
    result.tokens.push_back(done->rows[0].sampled.id);
  }
  executor.close_sequence(1);
  return result;
}

std::shared_ptr<const Model> golden_model() {
  const std::string folder = BOREAS_SOURCE_DIR "/tests/golden/cohere2_moe/gpu";
  std::ifstream file(folder + "/golden.json");
  std::stringstream manifest;
  manifest << file.rdbuf();
  auto model = load_golden_model(folder, manifest.str());
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? *model : nullptr;
}

TEST(EmulatedExecutor, GreedyTokensEqualTheCpuExecutors) {
  const auto model = golden_model();
  const std::vector<TokenId> prompt{5, 17, 300, 42, 7, 99, 250, 11, 3, 480, 64};
  SamplingParams greedy;
  greedy.temperature = 0;
  auto gpu = emulated(model, {}), cpu = plain(model);
  ASSERT_TRUE(gpu && cpu);
  EXPECT_EQ(decode(*gpu, prompt, 12, greedy).tokens, decode(*cpu, prompt, 12, greedy).tokens);
}

// The host draws these from the device's logits: same seed, same draws wherever the logits agree closely enough.
TEST(EmulatedExecutor, LogprobsAgreeWithTheCpuExecutor) {
  const auto model = golden_model();
  const std::vector<TokenId> prompt{1, 2, 3, 4, 5};
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.top_logprobs = 512;
  auto gpu = emulated(model, {}), cpu = plain(model);
  ASSERT_TRUE(gpu && cpu);
  const Decoded a = decode(*gpu, prompt, 4, sampling), b = decode(*cpu, prompt, 4, sampling);
  ASSERT_EQ(a.tokens, b.tokens);
  for (size_t step = 0; step < a.samples.size(); ++step) {
    std::vector<float> x(512), y(512);
    for (const TokenLogprob& entry : a.samples[step].top) x[static_cast<size_t>(entry.id)] = entry.logprob;
    for (const TokenLogprob& entry : b.samples[step].top) y[static_cast<size_t>(entry.id)] = entry.logprob;
    EXPECT_LT(distance(x, y), bf16_distance(model->config().layer_count())) << step;
  }
}

// A planted fault comes out as the executor's error, naming worker, task, layer and hop.
TEST(EmulatedExecutor, APlantedFaultIsAnErrorThatSaysWhere) {
  CudaExecutorOptions options;
  options.silent_task = 1;
  options.tuning.deadline_clocks = 1'000'000;
  auto executor = emulated(golden_model(), options);
  ASSERT_TRUE(executor);
  const TokenId token = 3;
  SamplingParams greedy;
  greedy.temperature = 0;
  SequenceSpec spec;
  spec.sampling = greedy;
  executor->open_sequence(0, spec);
  const std::vector<PageId> pages{PageId(0)};
  StepPlan plan;
  plan.rows.push_back({});
  plan.rows[0].tokens = std::span(&token, 1);
  plan.rows[0].full_pages = plan.rows[0].sliding_pages = pages;
  plan.rows[0].logits = LogitsWanted::kLast;
  auto ticket = executor->submit(plan);
  std::string message = ticket.ok() ? "" : ticket.error().message;
  if (ticket.ok()) {
    auto done = executor->wait(*ticket);
    ASSERT_FALSE(done.ok());
    message = done.error().message;
  }
  EXPECT_NE(message.find("hop qkv"), std::string::npos) << message;
  EXPECT_NE(message.find("layer 0"), std::string::npos) << message;
  EXPECT_FALSE(executor->submit(plan).ok());
}

}  // namespace
}  // namespace boreas
