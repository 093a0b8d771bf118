// The whole CUDA executor, with the megakernel's source behind it on the emulated device, against the CPU executor
// through the same interface, on the golden checkpoint of the shape that both share.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distance.h"
#include "emulated_executor.h"
#include "exec/cuda/megakernel.cuh"
#include "executor_run.h"
#include "launch.h"
#include "model/model.h"

namespace boreas {
namespace {

using C = emulation::ExecutorCut;
constexpr int32_t kWorkers = emulation::kExecutorWorkers;

cuda::StepParams launched{};  // the last one

Status launch(size_t shared_bytes, const cuda::StepParams& params, uint64_t seed) {
  launched = params;
  return params.task_times != nullptr ? emulation::launch_kernel<cuda::Traced<C>>(shared_bytes, params, seed)
                                      : emulation::launch_kernel<C>(shared_bytes, params, seed);
}

std::unique_ptr<Executor> emulated(std::shared_ptr<const Model> model, CudaExecutorOptions options) {
  return emulation::emulated_executor(&launch, std::move(model), std::move(options));
}

std::unique_ptr<Executor> plain(std::shared_ptr<const Model> model) {
  return emulation::cpu_executor_like_it(std::move(model));
}

Sequence sequence_of(std::vector<TokenId> prompt) {
  Sequence sequence{1, std::move(prompt), {}};
  for (int32_t i = 0; i < 8; ++i) sequence.pages.push_back(PageId((i * 5 + 3) % 24));
  return sequence;
}

TEST(EmulatedExecutor, GreedyTokensEqualTheCpuExecutors) {
  const auto model = golden_model();
  const Sequence sequence = sequence_of({5, 17, 300, 42, 7, 99, 250, 11, 3, 480, 64});
  auto gpu = emulated(model, {}), cpu = plain(model);
  ASSERT_TRUE(gpu && cpu);
  EXPECT_EQ(decode(*gpu, {sequence}, 12, false)[0].tokens, decode(*cpu, {sequence}, 12, false)[0].tokens);
}

// The host draws these from the device's logits.
TEST(EmulatedExecutor, LogprobsAgreeWithTheCpuExecutor) {
  const auto model = golden_model();
  const Sequence sequence = sequence_of({1, 2, 3, 4, 5});
  auto gpu = emulated(model, {}), cpu = plain(model);
  ASSERT_TRUE(gpu && cpu);
  const Decoded a = decode(*gpu, {sequence}, 4, true)[0], b = decode(*cpu, {sequence}, 4, true)[0];
  ASSERT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.logprobs.size(), 4u);
  for (size_t step = 0; step < a.logprobs.size(); ++step)
    EXPECT_LT(distance(a.logprobs[step], b.logprobs[step]), bf16_distance(model->config().layer_count())) << step;
}

// Less of the ring, of its producers and of its credits, and the instance for any rows where there is one row, change
// when things happen and nothing else; so do inner vectors of three rows that come at once.
TEST(EmulatedExecutor, WithoutPartsOfTheDesignBitsAreTheSame) {
  const auto model = golden_model();
  std::vector<Sequence> sequences{sequence_of({4, 8, 15, 16, 23, 42})};
  const auto run = [&](const cuda::CudaTuning& tuning) {
    CudaExecutorOptions options;
    options.tuning = tuning;
    auto executor = emulated(model, options);
    return executor ? decode(*executor, sequences, 3, true) : std::vector<Decoded>(sequences.size());
  };
  for (const int32_t rows : {1, 2, 3}) {
    if (rows > 1) {
      Sequence& another = sequences.emplace_back(sequence_of({100, 7, 200}));
      another.slot = rows;
      for (PageId& page : another.pages) page = PageId((page.value + rows - 1) % 24);
    }
    const std::vector<Decoded> whole = run({});
    ASSERT_EQ(whole[0].tokens.size(), 3u);
    const cuda::StepParams own = launched;
    EXPECT_GT(own.ring_chunks, 4);
    cuda::CudaTuning ring, producer, credit, kernel, inner, all;
    ring.ring_chunks_max = all.ring_chunks_max = 5;  // a multiple of the groups below it, and what a program needs
    producer.producers_max = all.producers_max = 0;  // at least one
    credit.credits.fill(1);
    kernel.one_row_kernel = all.one_row_kernel = false;
    inner.early_inner = all.early_inner = false;
    for (const cuda::CudaTuning& less : {ring, producer, credit, kernel, inner, all}) {
      const std::vector<Decoded> decoded = run(less);
      EXPECT_EQ(launched.ring_chunks, less.ring_chunks_max == 5 ? 4 : own.ring_chunks);
      EXPECT_EQ(launched.producers, less.producers_max == 0 ? 1 : own.producers);
      EXPECT_EQ(launched.any_rows_kernel, less.one_row_kernel ? 0 : 1);
      EXPECT_EQ(launched.whole_inner, less.early_inner ? 0u : 1u);
      for (size_t i = 0; i < sequences.size(); ++i) {
        EXPECT_EQ(decoded[i].tokens, whole[i].tokens);
        EXPECT_EQ(decoded[i].logprobs, whole[i].logprobs);
      }
    }
  }
}

// The traced kernel does what the plain one does, and writes down all tasks of all workers in the order in which things
// happened to them.
TEST(EmulatedExecutor, ATraceHoldsEveryTask) {
  const auto model = golden_model();
  const Sequence sequence = sequence_of({8, 1, 77});
  auto untraced = emulated(model, {});
  ASSERT_TRUE(untraced);
  int32_t launches = 0;
  CudaExecutorOptions options;
  options.trace = [&](const cuda::LaunchTrace& trace) {
    ++launches;
    EXPECT_EQ(trace.workers.size(), static_cast<size_t>(kWorkers));
    EXPECT_GE(trace.rows_max, trace.rows);
    EXPECT_FALSE(trace.tasks.empty());
    for (size_t i = 0; i < trace.tasks.size(); ++i) {
      const auto at = [&](cuda::Moment moment) { return trace.tasks[i].at[static_cast<size_t>(moment)]; };
      ASSERT_GT(at(cuda::Moment::kTaken), 0u) << "task " << i;
      ASSERT_LE(at(cuda::Moment::kTaken), at(cuda::Moment::kReady)) << "task " << i;
      ASSERT_LE(at(cuda::Moment::kReady), at(cuda::Moment::kDone)) << "task " << i;
    }
    for (const cuda::WorkerTimes& times : trace.workers) EXPECT_LT(times.clocks_begin, times.clocks_end);
  };
  auto traced = emulated(model, options);
  ASSERT_TRUE(traced);
  EXPECT_EQ(decode(*traced, {sequence}, 4, false)[0].tokens, decode(*untraced, {sequence}, 4, false)[0].tokens);
  EXPECT_EQ(launches, 4);  // the prompt is one block
}

// A planted fault comes out as the executor's error, naming worker, task, layer and hop.
TEST(EmulatedExecutor, APlantedFaultIsAnErrorThatSaysWhere) {
  CudaExecutorOptions options;
  options.silent_task = 1;
  options.deadline_scale = 0.005;  // a million clocks
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
  EXPECT_NE(message.find("wanted 1, seen 0"), std::string::npos) << message;
  EXPECT_EQ(launched.deadline, 1'000'000 / cuda::kCoarseClocks);
  EXPECT_FALSE(executor->submit(plan).ok());
}

}  // namespace
}  // namespace boreas
