// What is planned is what is taken; and what does not fit is refused with the numbers and the flag that helps.
#include "exec/cuda/memory_plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "exec/cuda/made_up_kernel_testing.h"
#include "exec/cuda/prefill/runner.h"

namespace boreas::cuda {
namespace {

int64_t sum_of(const std::vector<MemoryUse>& uses) {
  return std::accumulate(uses.begin(), uses.end(), int64_t{0},
                         [](int64_t sum, const MemoryUse& use) { return sum + use.bytes; });
}

const MemoryUse* find_use(const ExecutorInfo& info, const std::string& what) {
  for (const MemoryUse& use : info.memory)
    if (use.what == what) return &use;
  return nullptr;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Without a prefill of their own the golden shape's kernels are never called.
class NoKernels final : public prefill::PrefillKernels {
  Status add_operand(const bf16*, int32_t, int32_t) override { return Ok{}; }
  Status multiply(prefill::Product, const std::byte*, const bf16*, int32_t, const prefill::GroupedRows&,
                  void*) override {
    return Ok{};
  }
  Status embed(const prefill::EmbedArgs&, int32_t) override { return Ok{}; }
  Status fill_turns(const prefill::RopeArgs&) override { return Ok{}; }
  Status append(const prefill::AppendArgs&) override { return Ok{}; }
  Status unfold(const prefill::UnfoldArgs&, int32_t) override { return Ok{}; }
  Status attend(const prefill::AttentionArgs&, int32_t, int32_t) override { return Ok{}; }
  Status route(const prefill::RouteArgs&) override { return Ok{}; }
  Status finish(const prefill::FinishArgs&, int32_t) override { return Ok{}; }
};

struct WithPrefill : MadeUp {
  WithPrefill() {
    device.prefill_kernels =
        [](const ModelConfig&, int32_t,
           const std::function<Status(std::function<Status()>)>&) -> Result<std::unique_ptr<prefill::PrefillKernels>> {
      return std::unique_ptr<prefill::PrefillKernels>(std::make_unique<NoKernels>());
    };
    options.pages_full = options.pages_sliding = 0;
    options.tokens_max = 512;
  }
};

TEST(MemoryPlan, WhatIsPlannedIsWhatIsTaken) {
  for (const bool with_trace : {false, true}) {
    WithPrefill setup;
    setup.device.memory_bytes = int64_t{64} << 20;
    if (with_trace) setup.options.trace = [](const LaunchTrace&) {};
    ExecutorInfo planned;
    setup.options.planned = [&](const ExecutorInfo& info) {
      planned = info;
      EXPECT_EQ(setup.log->copies_in, 1) << "the programs; weights come later";
    };
    const std::unique_ptr<Executor> executor = setup.make().value();
    int64_t taken = 0;
    for (const auto& [what, bytes] : setup.log->allocations)
      if (what != "outcomes" && what != "logits of the host" && what != "fault record")  // the host's
        taken += static_cast<int64_t>(bytes);
    EXPECT_EQ(sum_of(planned.memory), taken);
    EXPECT_LE(taken, setup.device.memory_bytes);
    EXPECT_EQ(planned.pages_full, executor->info().pages_full);
    ASSERT_NE(find_use(planned, "prefill workspace"), nullptr);
    EXPECT_EQ(find_use(planned, "prefill workspace")->bytes,
              PrefillRunner::bytes(setup.model->config(), 512, setup.options.context_max));
    EXPECT_EQ(find_use(planned, "traces") != nullptr, with_trace);
    EXPECT_EQ(find_use(planned, "KV pages, full attention")->bytes, planned.pages_full * planned.page_bytes_full);
  }
}

TEST(MemoryPlan, APrefillThatDoesNotFitNamesItsFlags) {
  WithPrefill setup;
  setup.options.tokens_max = 8192;
  const int64_t prefill = PrefillRunner::bytes(setup.model->config(), 8192, setup.options.context_max);
  ExecutorInfo planned;
  setup.options.planned = [&](const ExecutorInfo& info) { planned = info; };
  ASSERT_TRUE(setup.make().ok());
  const int64_t pages =
      planned.pages_full * planned.page_bytes_full + planned.pages_sliding * planned.page_bytes_sliding;
  setup.device.memory_bytes = sum_of(planned.memory) - pages - prefill / 2;
  const Result<std::unique_ptr<Executor>> refused = setup.make();
  ASSERT_FALSE(refused.ok());
  const std::string& message = refused.error().message;
  EXPECT_TRUE(has(message, "--max-num-batched-tokens below 8192")) << message;
  EXPECT_TRUE(has(message, "--max-model-len below 2048")) << message;
  setup.options.tokens_max = 64;
  setup.options.context_max = 1024;
  const Result<std::unique_ptr<Executor>> smaller = setup.make();
  EXPECT_TRUE(smaller.ok()) << smaller.error().message;
}

TEST(MemoryPlan, AContextThatWasAskedForMustFit) {
  WithPrefill setup;
  ExecutorInfo planned;
  setup.options.planned = [&](const ExecutorInfo& info) { planned = info; };
  setup.options.kv_bytes = int64_t{8} << 20;
  setup.options.context_max = 2048;
  const Result<std::unique_ptr<Executor>> refused = setup.make();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "context_max");
  EXPECT_TRUE(has(refused.error().message, "a context of 2048 tokens does not fit")) << refused.error().message;
  const size_t at = refused.error().message.find("--max-model-len ");
  ASSERT_NE(at, std::string::npos) << refused.error().message;
  setup.options.context_max = std::atoi(refused.error().message.c_str() + at + 16);  // as it says
  EXPECT_TRUE(setup.make().ok());
  EXPECT_EQ(planned.context_max, setup.options.context_max);
  setup.options.context_max = 0;
  EXPECT_TRUE(setup.make().ok());
}

TEST(MemoryPlan, TooMuchKvMemorySaysHowMuchIsLeft) {
  WithPrefill setup;
  setup.options.kv_bytes = int64_t{1} << 30;
  const Result<std::unique_ptr<Executor>> refused = setup.make();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "kv_bytes");
  const std::string flag = "--kv-cache-memory-bytes ";
  const size_t at = refused.error().message.find(flag);
  ASSERT_NE(at, std::string::npos) << refused.error().message;
  setup.options.kv_bytes = std::atoll(refused.error().message.c_str() + at + flag.size());
  const Result<std::unique_ptr<Executor>> made = setup.make();
  EXPECT_TRUE(made.ok()) << made.error().message;
}

// A 256K sequence beside the weights on 80 GB, prefill workspace and all.
TEST(MemoryPlan, NorthOnRealCards) {
  const ModelConfig north = model_shape("north").value();
  const Result<ExecutorInfo> h100 = plan_cuda_memory(north, h100_spec(), {});
  ASSERT_TRUE(h100.ok()) << h100.error().message;
  EXPECT_GE(h100->context_max, 262144);
  EXPECT_GE(find_use(*h100, "prefill workspace")->bytes, int64_t{1} << 30);
  EXPECT_GE(h100->pages_sliding, 4 * (north.window / kPagePositions + 1) + 8192 / kPagePositions);
  const Result<ExecutorInfo> h200 = plan_cuda_memory(north, h200_spec(), {});
  ASSERT_TRUE(h200.ok()) << h200.error().message;
  EXPECT_GT(h200->pages_full, 3 * h100->pages_full);
  EXPECT_GT(h200->context_max, 300'000) << "all that the kernel's page lists hold";
  EXPECT_LE(sum_of(h200->memory) + CudaExecutorOptions{}.reserve_bytes, h200_spec().memory_bytes);
  DeviceSpec small = h100_spec();
  small.memory_bytes = 40'000'000'000;
  const Result<ExecutorInfo> none = plan_cuda_memory(north, small, {});
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(has(none.error().message, "weights 60.9")) << none.error().message;
  EXPECT_FALSE(plan_cuda_memory(model_shape("tiny").value(), h200_spec(), {}).ok()) << "has no kernel";
}

}  // namespace
}  // namespace boreas::cuda
