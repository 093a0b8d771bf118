// Plans of more rows than a launch takes: what `boreas serve --max-num-seqs` above 8 makes of every step.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/cuda/made_up_kernel_testing.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kSequences = 20, kSteps = 12;

struct Text {
  std::vector<TokenId> known;
  std::vector<PageId> pages;
};

TokenId next_of(const Text& text, const ModelConfig& config) {
  const std::vector<float> logits = expected_logits(text.known, config);
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// All of them, in slot order; the first plan has the prompts, the others take what the plan before drew.
StepPlan plan_of(const std::vector<Text>& texts, int32_t step) {
  StepPlan plan;
  for (size_t i = 0; i < texts.size(); ++i) {
    StepRow& row = plan.rows.emplace_back();
    row.slot = static_cast<int32_t>(i);
    const int32_t prompt = 2 + static_cast<int32_t>(i);
    row.position = step == 0 ? 0 : prompt + step - 1;
    if (step == 0) row.tokens = texts[i].known;
    row.full_pages = row.sliding_pages = texts[i].pages;
    row.logits = LogitsWanted::kLast;
  }
  return plan;
}

TEST(ManyRows, EverySequenceGetsItsTokenOfEveryPlan) {
  MadeUp setup;
  setup.options.sequence_slots = setup.options.rows_max = kSequences;
  const std::unique_ptr<Executor> executor = setup.make().value();
  ASSERT_EQ(executor->info().rows_max, kSequences);
  SamplingParams greedy;
  greedy.temperature = 0;
  std::vector<Text> texts(kSequences);
  Prng prng(5);
  for (int32_t i = 0; i < kSequences; ++i) {
    Text& text = texts[static_cast<size_t>(i)];
    for (int32_t j = 0; j < 2 + i; ++j)
      text.known.push_back(static_cast<TokenId>(prng.below(GoldenShape::kVocabulary)));
    text.pages = {PageId(i)};
    executor->open_sequence(i, {greedy, text.known, {}});
  }
  std::vector<std::vector<TokenId>> prompts;
  for (const Text& text : texts) prompts.push_back(text.known);
  std::vector<StepPlan> plans;
  for (int32_t step = 0; step < kSteps; ++step) plans.push_back(plan_of(texts, step));
  for (size_t i = 0; i < prompts.size(); ++i) plans[0].rows[i].tokens = prompts[i];
  // Two plans in flight, as the engine has them.
  StepTicket ticket = executor->submit(plans[0]).value();
  for (int32_t step = 0; step < kSteps; ++step) {
    const StepTicket current = ticket;
    if (step + 1 < kSteps) ticket = executor->submit(plans[static_cast<size_t>(step) + 1]).value();
    const Result<StepResult> result = executor->wait(current);
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(result->rows[i].sampled.id, next_of(texts[i], setup.model->config())) << "slot " << i << ", " << step;
      texts[i].known.push_back(result->rows[i].sampled.id);
    }
  }
  EXPECT_EQ(*std::max_element(setup.kernel->rows.begin(), setup.kernel->rows.end()), 8) << "of a launch";
}

}  // namespace
}  // namespace boreas::cuda
