// The CPU executor against the oracle: layer by layer on the oracle's own input, end to end, decode after prefill, and
// greedy continuations.
#include <gtest/gtest.h>

#include <iostream>

#include "exec/cpu/cpu_executor.h"
#include "tests/golden/golden_compare.h"

namespace boreas {
namespace {

CpuExecutorOptions options() {
  CpuExecutorOptions o;
  o.threads = 2;
  o.sequence_slots = 4;
  o.kv_bytes = int64_t{64} << 20;
  return o;
}

CpuTrace trace(const GoldenCase& golden, const std::vector<TokenId>& tokens, int32_t chunk,
               const std::vector<std::vector<float>>* forced = nullptr) {
  Result<CpuTrace> result = trace_cpu_forward(golden.model(), tokens, chunk, options(), forced);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return std::move(result).value();
}

TEST(CpuGolden, EveryLayerAgreesOnTheOraclesInput) {
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.per_layer() == nullptr) continue;
    const std::vector<TokenId>& tokens = golden.per_layer()->tokens;
    std::vector<std::vector<float>> residuals;
    for (size_t i = 0; i < golden.scales().size(); ++i)
      residuals.push_back(golden.tensor("full." + std::to_string(i) + ".residual").values);
    const CpuTrace out = trace(golden, tokens, 7, &residuals);
    double worst = 0;
    for (size_t i = 0; i < residuals.size(); ++i) {
      const LayerError error = layer_error(golden.scales()[i], bf16_arithmetic());
      const std::string name = "layer." + std::to_string(i);
      const double attention = ratio_to(golden, name + ".attention", out.attention[i], error.attention);
      const double mlp = ratio_to(golden, name + ".mlp", out.mlp[i], error.mlp);
      EXPECT_LE(attention, 1) << golden.name() << " layer " << i;
      EXPECT_LE(mlp, 1) << golden.name() << " layer " << i;
      worst = std::max({worst, attention, mlp});
    }
    std::cout << golden.name() << ": the worst layer output is off by " << worst << " tolerances\n";
  }
}

TEST(CpuGolden, LogitsAgreeEndToEndPrefilledAndDecoded) {
  for (const GoldenCase& golden : golden_cases()) {
    if (has_ties(golden)) continue;  // near ties flip in BF16, as they do in the oracle's own BF16 run
    const int32_t vocab = golden.model()->config().vocab_size;
    const double error = logits_error(golden.scales(), bf16_arithmetic());
    double worst = 0;
    for (const GoldenSequence& sequence : golden.sequences()) {
      for (int32_t chunk : {64, 1}) {
        const CpuTrace out = trace(golden, sequence.tokens, chunk);
        const double ratio =
            ratio_to(golden, sequence.name + ".logits", from_position(out.logits, sequence.first_logits, vocab), error);
        EXPECT_LE(ratio, 1) << golden.name() << " " << sequence.name << " chunk " << chunk;
        worst = std::max(worst, ratio);
      }
    }
    std::cout << golden.name() << ": the worst logit is off by " << worst << " tolerances\n";
  }
}

// Greedy continuations through the Executor interface: equal for 64 tokens wherever the oracle's gap exceeds the
// tolerance.
TEST(CpuGolden, GreedyContinuationIsTheOracles) {
  int decided = 0;
  for (const GoldenCase& golden : golden_cases()) {
    const GoldenGreedy& greedy = golden.greedy();
    if (greedy.tokens.empty()) continue;
    const GoldenTensor gap = golden.tensor("greedy.gap"), spread = golden.tensor("greedy.logits_rms");
    const double needed = gap_tolerance(logits_error(golden.scales(), bf16_arithmetic()));
    Result<std::unique_ptr<Executor>> made = make_cpu_executor(golden.model(), options());
    ASSERT_TRUE(made.ok()) << made.error().message;
    Executor& executor = **made;
    SequenceSpec spec;
    spec.sampling.temperature = 0;
    executor.open_sequence(0, spec);
    std::vector<PageId> pages;
    for (int32_t page = 0;
         page * kPagePositions < static_cast<int32_t>(greedy.prompt.size() + greedy.tokens.size()) + 1; ++page)
      pages.emplace_back(page);
    StepRow row;
    row.tokens = greedy.prompt;
    row.full_pages = row.sliding_pages = pages;
    row.logits = LogitsWanted::kLast;
    for (size_t step = 0; step < greedy.tokens.size(); ++step) {
      StepPlan plan;
      plan.rows.push_back(row);
      const auto ticket = executor.submit(plan);
      ASSERT_TRUE(ticket.ok()) << ticket.error().message;
      const auto result = executor.wait(*ticket);
      ASSERT_TRUE(result.ok());
      const TokenId token = result->rows[0].sampled.id;
      if (gap.values[step] > needed * spread.values[step]) {
        ASSERT_EQ(token, greedy.tokens[step]) << golden.name() << " step " << step;
        ++decided;
      } else if (token != greedy.tokens[step]) {
        break;  // undecided within the tolerance: from here on the continuations may differ
      }
      row.position += row.tokens.empty() ? 1 : static_cast<int32_t>(row.tokens.size());
      row.tokens = {};  // feed back what was drawn
    }
  }
  std::cout << decided << " decided steps\n";
  EXPECT_GT(decided, 100);
}

}  // namespace
}  // namespace boreas
