// The fp32 reference against the oracle; the oracle's own BF16 run against the tolerances every executor gets; and the
// goldens' power: each deliberate mistake must fail one of them by ten tolerances, in FP32 and in BF16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "tests/golden/golden_compare.h"

namespace boreas {
namespace {

constexpr double kFlawTolerances = 10;

TEST(Goldens, AllCasesAreThere) {
  std::vector<std::string> names;
  for (const GoldenCase& golden : golden_cases()) names.push_back(golden.name());
  EXPECT_THAT(names, testing::ElementsAre("base", "gpu", "greedy", "ties", "uneven"));
}

TEST(ReferenceGolden, EveryLayerAgreesWithTheOracle) {
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.per_layer() == nullptr) continue;
    const ModelConfig& config = golden.model()->config();
    const std::vector<TokenId>& tokens = golden.per_layer()->tokens;
    const ReferenceOutput out = reference_forward(*golden.model(), tokens);
    const auto errors = forward_error(golden.scales(), fp32_arithmetic(config, static_cast<int64_t>(tokens.size())));
    double worst = 0;
    for (size_t i = 0; i < errors.size(); ++i) {
      const std::string prefix = "full." + std::to_string(i) + ".";
      const double attention = ratio_to(golden, prefix + "attention", out.attention[i], errors[i].attention);
      const double mlp = ratio_to(golden, prefix + "mlp", out.mlp[i], errors[i].mlp);
      const double residual = ratio_to(golden, prefix + "residual", out.residual[i], errors[i].residual);
      EXPECT_LE(attention, 1) << golden.name() << " layer " << i;
      EXPECT_LE(mlp, 1) << golden.name() << " layer " << i;
      EXPECT_LE(residual, 1) << golden.name() << " layer " << i;
      worst = std::max({worst, attention, mlp, residual});
    }
    std::cout << golden.name() << ": the worst layer output is off by " << worst << " tolerances of at most "
              << kSigmas * errors.back().residual << " of its row's rms\n";
  }
}

TEST(ReferenceGolden, LogitsAgreeWithTheOracle) {
  for (const GoldenCase& golden : golden_cases()) {
    const ModelConfig& config = golden.model()->config();
    for (const GoldenSequence& sequence : golden.sequences()) {
      const ReferenceOutput out = reference_forward(*golden.model(), sequence.tokens);
      const double error =
          logits_error(golden.scales(), fp32_arithmetic(config, static_cast<int64_t>(sequence.tokens.size())));
      const std::string where = golden.name() + " " + sequence.name;
      EXPECT_LE(ratio_to(golden, sequence.name + ".logits", "full.logits_other_expert",
                         from_position(out.logits, sequence.first_logits, config.vocab_size), error),
                1)
          << where;
      if (sequence.decode_from == 0) continue;
      EXPECT_LE(ratio_to(golden, sequence.name + ".decode_logits",
                         from_position(out.logits, sequence.decode_from - 1, config.vocab_size), error),
                1)
          << where << ", decoded";
    }
  }
}

// One forward over prompt and continuation is the same as 64 of them: the tokens are the oracle's as long as all match.
TEST(ReferenceGolden, GreedyContinuationIsTheOracles) {
  int continued = 0;
  for (const GoldenCase& golden : golden_cases()) {
    const GoldenGreedy& greedy = golden.greedy();
    if (greedy.tokens.empty()) continue;
    ++continued;
    ASSERT_EQ(greedy.tokens.size(), 64u);
    std::vector<TokenId> tokens = greedy.prompt;
    tokens.insert(tokens.end(), greedy.tokens.begin(), greedy.tokens.end());
    const ReferenceOutput out = reference_forward(*golden.model(), tokens);
    const ModelConfig& config = golden.model()->config();
    const GoldenTensor gap = golden.tensor("greedy.gap");
    const GoldenTensor spread = golden.tensor("greedy.logits_rms");
    const double decisive =
        gap_tolerance(logits_error(golden.scales(), fp32_arithmetic(config, static_cast<int64_t>(tokens.size()))));
    for (size_t step = 0; step < greedy.tokens.size(); ++step) {
      ASSERT_GT(gap.values[step], decisive * spread.values[step])
          << golden.name() << ": the golden itself is undecided";
      const auto logits =
          from_position(out.logits, static_cast<int64_t>(greedy.prompt.size() + step) - 1, config.vocab_size);
      const auto best = std::max_element(logits.begin(), logits.begin() + config.vocab_size);
      ASSERT_EQ(best - logits.begin(), greedy.tokens[step]) << golden.name() << " step " << step;
    }
  }
  EXPECT_EQ(continued, 4);
}

// The tolerances that executors get must hold what the oracle itself does in BF16.
TEST(Tolerance, HoldsTheOraclesOwnBf16LayerByLayer) {
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.per_layer() == nullptr) continue;
    double worst_attention = 0;
    double worst_mlp = 0;
    for (size_t i = 0; i < golden.scales().size(); ++i) {
      const std::string prefix = "layer." + std::to_string(i) + ".";
      const LayerError error = layer_error(golden.scales()[i], bf16_arithmetic());
      const double attention =
          ratio_to(golden, prefix + "attention", golden.tensor(prefix + "attention_bf16").values, error.attention);
      const double mlp = ratio_to(golden, prefix + "mlp", golden.tensor(prefix + "mlp_bf16").values, error.mlp);
      EXPECT_LE(attention, 1) << golden.name() << " layer " << i;
      EXPECT_LE(mlp, 1) << golden.name() << " layer " << i;
      worst_attention = std::max(worst_attention, attention);
      worst_mlp = std::max(worst_mlp, mlp);
    }
    std::cout << golden.name() << ": attention off by " << worst_attention << ", MLP by " << worst_mlp
              << " tolerances\n";
    EXPECT_GT(std::min(worst_attention, worst_mlp), 0.1) << golden.name() << ": the tolerance is far too wide";
  }
}

TEST(Tolerance, HoldsTheOraclesOwnBf16EndToEnd) {
  for (const GoldenCase& golden : golden_cases()) {
    if (has_ties(golden)) continue;  // a near tie that falls the other way is no rounding error
    const double error = logits_error(golden.scales(), bf16_arithmetic());
    double worst = 0;
    for (const GoldenSequence& sequence : golden.sequences()) {
      const GoldenTensor bf16_run = golden.tensor(sequence.name + ".logits_bf16");
      const double ratio = ratio_to(golden, sequence.name + ".logits", bf16_run.values, error);
      EXPECT_LE(ratio, 1) << golden.name() << " " << sequence.name;
      worst = std::max(worst, ratio);
    }
    std::cout << golden.name() << ": logits off by " << worst << " tolerances of " << kSigmas * error
              << " of their rms\n";
    EXPECT_GT(worst, 0.1) << golden.name() << ": the tolerance is far too wide";
  }
}

// The bundled random checkpoint is one of this family, too: it loads, and its logits are numbers with a spread.
TEST(TinyCheckpoint, LoadsAndComputes) {
  auto model = load_model(std::string(BOREAS_SOURCE_DIR) + "/models/tiny");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const std::vector<TokenId> prompt = {2, 3, 6, 8, 40, 41, 9, 4};
  const ReferenceOutput out = reference_forward(**model, prompt);
  EXPECT_THAT((*model)->config().eos_token_ids, testing::ElementsAre(4));
  EXPECT_THAT(out.logits, testing::Each(testing::AllOf(testing::Gt(-100), testing::Lt(100))));
  EXPECT_GT(rms(out.logits), 0.5);
}

// What makes the case "ties" worth its bytes: the two sides of a tie are far apart, and BF16 cannot tell which is
// right.
TEST(Goldens, TiesAreTiesAndMatter) {
  int tied_layers = 0;
  for (const GoldenCase& golden : golden_cases()) {
    if (!has_ties(golden)) continue;
    for (size_t i = 0; i < golden.scales().size(); ++i) {
      const std::string prefix = "layer." + std::to_string(i) + ".";
      if (!golden.has(prefix + "router_logits")) continue;
      ++tied_layers;
      const size_t chosen = static_cast<size_t>(golden.model()->config().experts_per_token);
      const GoldenTensor router = golden.tensor(prefix + "router_logits");
      const GoldenTensor mlp = golden.tensor(prefix + "mlp");
      const GoldenTensor other = golden.tensor(prefix + "mlp_other_expert");
      for (int64_t row = 0; row < router.rows; ++row) {
        std::vector<float> ranked(router.row(row).begin(), router.row(row).end());
        std::sort(ranked.begin(), ranked.end(), std::greater<>());
        EXPECT_LE(ranked[chosen - 1] - ranked[chosen], 0.02) << prefix << row;
        EXPECT_GT(ranked[chosen] - ranked[chosen + 1], 0.04) << prefix << row << ": another expert is near, too";
        const double error = layer_error(golden.scales()[i], bf16_arithmetic()).mlp;
        EXPECT_GT(row_ratio(mlp.row(row), other.row(row), error), 5) << prefix << row;
      }
    }
  }
  EXPECT_EQ(tied_layers, 2);
}

struct NamedFlaw {
  ReferenceFlaw flaw;
  const char* name;
};

constexpr NamedFlaw kFlaws[] = {
    {ReferenceFlaw::kHalfSplitRope, "half-split RoPE"},
    {ReferenceFlaw::kNoRopeOnDenseLayer, "no RoPE on the dense layer"},
    {ReferenceFlaw::kRopeOnNopeLayer, "RoPE on a NoPE layer"},
    {ReferenceFlaw::kWindowPlusOne, "window + 1"},
    {ReferenceFlaw::kWindowMinusOne, "window - 1"},
    {ReferenceFlaw::kSoftmaxRouter, "softmax router"},
    {ReferenceFlaw::kRenormalisedTopK, "renormalised top-k"},
    {ReferenceFlaw::kLogitScale, "logit scale"},
    {ReferenceFlaw::kNormEps, "norm epsilon"},
    {ReferenceFlaw::kDenseLayerSkipped, "dense layer skipped"},
    {ReferenceFlaw::kGqaInterleaved, "interleaved GQA"},
};

// By how many tolerances a flaw fails a case: at the first layer whose outputs leave the tolerance of that layer alone
// (up to there both sides had the same input), or else at the logits.
double failure(const GoldenCase& golden, const ReferenceOutput& flawed, const Arithmetic& arithmetic) {
  for (size_t i = 0; i < golden.scales().size(); ++i) {
    const std::string prefix = "full." + std::to_string(i) + ".";
    const LayerError error = layer_error(golden.scales()[i], arithmetic);
    const double off = std::max(ratio_to(golden, prefix + "attention", flawed.attention[i], error.attention),
                                ratio_to(golden, prefix + "mlp", flawed.mlp[i], error.mlp));
    if (off > 1) return off;
  }
  return ratio_to(golden, golden.per_layer()->name + ".logits", "full.logits_other_expert", flawed.logits,
                  logits_error(golden.scales(), arithmetic));
}

TEST(Goldens, EveryFlawFailsOneByTenTolerances) {
  for (const NamedFlaw& flaw : kFlaws) {
    double in_fp32 = 0;
    double in_bf16 = 0;
    std::string worst_case;
    for (const GoldenCase& golden : golden_cases()) {
      if (golden.per_layer() == nullptr) continue;
      const std::vector<TokenId>& tokens = golden.per_layer()->tokens;
      const ReferenceOutput flawed = reference_forward(*golden.model(), tokens, flaw.flaw);
      const Arithmetic fp32 = fp32_arithmetic(golden.model()->config(), static_cast<int64_t>(tokens.size()));
      in_fp32 = std::max(in_fp32, failure(golden, flawed, fp32));
      const double bf16_failure = failure(golden, flawed, bf16_arithmetic());
      if (bf16_failure > in_bf16) worst_case = golden.name();
      in_bf16 = std::max(in_bf16, bf16_failure);
    }
    EXPECT_GE(in_fp32, kFlawTolerances) << flaw.name;
    EXPECT_GE(in_bf16, kFlawTolerances) << flaw.name;
    std::cout << flaw.name << ": " << in_bf16 << " BF16 tolerances (" << worst_case << "), " << in_fp32
              << " FP32 tolerances\n";
  }
}

}  // namespace
}  // namespace boreas
