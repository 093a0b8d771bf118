// What becomes of a step that hangs, on a GPU: the kernel's own deadline ends it and says where. A process of its own,
// since no CUDA call works in it afterwards.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/cuda_executor.h"
#include "model/model.h"
#include "tests/emulation/executor_run.h"

namespace boreas {
namespace {

TEST(GpuFault, AHungStepIsAnErrorInTimeThatSaysWhere) {
  using Clock = std::chrono::steady_clock;
  const Status usable = check_gpu(0);
  if (!usable.ok()) GTEST_SKIP() << usable.error().message;
  const auto model = golden_model();
  ASSERT_TRUE(model);
  CudaExecutorOptions options;
  options.pages_full = options.pages_sliding = 4;
  options.context_max = 128;
  options.decode_only = true;
  options.silent_task = 1;  // QKV of layer 0: the other workers of the head wait for worker 0's words
  auto made = make_cuda_executor(model, options);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const std::unique_ptr<Executor> executor = std::move(made).value();
  SequenceSpec spec;
  spec.sampling.temperature = 0;
  executor->open_sequence(0, spec);
  const TokenId token = 3;
  const std::vector<PageId> pages{PageId(0)};
  StepPlan plan;
  plan.rows.push_back({});
  plan.rows[0].tokens = std::span(&token, 1);
  plan.rows[0].full_pages = plan.rows[0].sliding_pages = pages;
  plan.rows[0].logits = LogitsWanted::kLast;
  const auto ticket = executor->submit(plan);
  ASSERT_TRUE(ticket.ok()) << ticket.error().message;
  const Clock::time_point start = Clock::now();
  const auto done = executor->wait(*ticket);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ASSERT_FALSE(done.ok());
  const std::string& message = done.error().message;
  EXPECT_NE(message.find("messenger"), std::string::npos) << message;
  EXPECT_NE(message.find("layer 0"), std::string::npos) << message;
  EXPECT_NE(message.find("hop qkv: wanted 1, seen 0"), std::string::npos) << message;
  EXPECT_GT(seconds, 0.05) << "the deadline is 0.1 s";
  EXPECT_LT(seconds, 1.2) << "what a server that has to end within two seconds leaves for it (deadlines.h)";
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_FALSE(executor->submit(plan).ok());
}

}  // namespace
}  // namespace boreas
