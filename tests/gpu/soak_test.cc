// The soak finds nothing wrong with the CPU executor, and finds a single wrong token.
#include <gtest/gtest.h>

#include "exec/cpu/cpu_executor.h"
#include "tests/gpu/soak_run.h"

namespace boreas {
namespace {

SoakOptions few_steps() {
  SoakOptions options;
  options.seed = 5;
  options.seconds = 1e9;
  options.steps = 400;
  options.requests = 9;
  options.slots = 5;
  options.prompt_max = 150;
  options.output_max = 40;
  return options;
}

std::unique_ptr<Executor> cpu_executor(const SoakOptions& soak) {
  auto config = model_shape("tiny");
  EXPECT_TRUE(config.ok());
  auto model = make_dummy_model(*config, {}, DummyValues::kOnHost);
  EXPECT_TRUE(model.ok());
  CpuExecutorOptions options;
  options.threads = 1;
  options.sequence_slots = soak.slots;
  options.pages_full = options.pages_sliding = soak_pages(soak) * soak.slots;
  options.tokens_max = 400;
  auto executor = make_cpu_executor(*model, options);
  EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
  return std::move(*executor);
}

// Another executor, of whose results one token in one step is another one.
class OneWrongToken final : public Executor {
 public:
  OneWrongToken(std::unique_ptr<Executor> executor, StepTicket step) : executor_(std::move(executor)), step_(step) {}
  const ExecutorInfo& info() const override { return executor_->info(); }
  void open_sequence(int32_t slot, const SequenceSpec& spec) override { executor_->open_sequence(slot, spec); }
  void close_sequence(int32_t slot) override { executor_->close_sequence(slot); }
  Result<StepTicket> submit(const StepPlan& plan) override { return executor_->submit(plan); }
  Result<StepResult> wait(StepTicket ticket) override {
    Result<StepResult> result = executor_->wait(ticket);
    if (result.ok() && ++steps_ == step_) result->rows.back().sampled.id ^= 1;
    return result;
  }
  Status save_page(PagePoolKind pool, PageId page, std::span<std::byte> out) override {
    return executor_->save_page(pool, page, out);
  }
  Status restore_page(PagePoolKind pool, PageId page, std::span<const std::byte> in) override {
    return executor_->restore_page(pool, page, in);
  }
  Status copy_page(PagePoolKind pool, PageId from, PageId to) override { return executor_->copy_page(pool, from, to); }

 private:
  std::unique_ptr<Executor> executor_;
  StepTicket step_, steps_ = 0;
};

TEST(Soak, FindsNothingOnTheCpuExecutor) {
  const SoakOptions options = few_steps();
  const auto executor = cpu_executor(options);
  const auto report = run_soak(*executor, options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->mismatches, 0) << report->first_mismatch;
  EXPECT_GT(report->tokens, 400);
  EXPECT_GT(report->prompts, 20);
  EXPECT_GT(report->left_early, 0);
}

TEST(Soak, FindsOneWrongToken) {
  SoakOptions options = few_steps();
  const auto reference = cpu_executor(options);
  const auto alone = run_soak(*reference, options);
  ASSERT_TRUE(alone.ok());
  // Well behind the steps that requests take alone.
  OneWrongToken executor(cpu_executor(options), 500);
  const auto report = run_soak(executor, options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->mismatches, 1);
  EXPECT_NE(report->first_mismatch.find("alone"), std::string::npos) << report->first_mismatch;
  EXPECT_EQ(report->tokens, alone->tokens);
}

}  // namespace
}  // namespace boreas
