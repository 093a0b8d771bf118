// Who draws a token, and that no sampling parameter gets lost when a device does.
#include "exec/cuda/sequence.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace boreas::cuda {
namespace {

struct Change {
  std::string field;
  std::function<void(SamplingParams&)> make;
};

// One for each member of SamplingParams, in their order, to a value that matters.
const std::vector<Change>& changes() {
  static const std::vector<Change> all{
      {"temperature", [](SamplingParams& p) { p.temperature = 0.5f; }},
      {"top_p", [](SamplingParams& p) { p.top_p = 0.5f; }},
      {"top_k", [](SamplingParams& p) { p.top_k = 5; }},
      {"min_p", [](SamplingParams& p) { p.min_p = 0.5f; }},
      {"repetition_penalty", [](SamplingParams& p) { p.repetition_penalty = 1.5f; }},
      {"frequency_penalty", [](SamplingParams& p) { p.frequency_penalty = 1; }},
      {"presence_penalty", [](SamplingParams& p) { p.presence_penalty = 1; }},
      {"seed", [](SamplingParams& p) { p.seed = 5; }},
      {"choice_index", [](SamplingParams& p) { p.choice_index = 5; }},
      {"min_tokens and suppressed_ids", [](SamplingParams& p) { p.min_tokens = 5, p.suppressed_ids = {1}; }},
      {"top_logprobs", [](SamplingParams& p) { p.top_logprobs = 0; }},
      {"logit_bias",
       [](SamplingParams& p) {
         p.logit_bias = {{1, 5.0f}};
       }},
      {"allowed_ids", [](SamplingParams& p) { p.allowed_ids = {1}; }},
  };
  return all;
}

SampleMode mode_of(const SamplingParams& params) {
  SequenceSpec spec;
  spec.sampling = params;
  StepRow row;
  row.logits = LogitsWanted::kLast;
  return Sequence(spec).sample_mode(row);
}

bool same_draw(const DrawPlan& a, const DrawPlan& b) {
  return a.seed == b.seed && a.choice_index == b.choice_index && a.inverse_temperature == b.inverse_temperature &&
         a.score_min == b.score_min && a.top_p == b.top_p && a.top_k == b.top_k;
}

// A member that is added to SamplingParams or DrawPlan does not compile here until the lists above know it.
TEST(Sequence, TheListsHereAreComplete) {
  const auto& [temperature, top_p, top_k, min_p, repetition, frequency, presence, seed, choice, min_tokens, logprobs,
               bias, allowed, suppressed] = SamplingParams();
  EXPECT_EQ(std::tie(temperature, top_p, top_k, min_p, repetition, frequency, presence, seed, choice, min_tokens,
                     logprobs, bias, allowed, suppressed),
            std::make_tuple(1.0f, 1.0f, 0, 0.0f, 1.0f, 0.0f, 0.0f, uint64_t{0}, 0, 0, -1,
                            std::vector<std::pair<TokenId, float>>(), std::vector<TokenId>(), std::vector<TokenId>()));
  const auto& [draw_seed, draw_choice, inverse_temperature, score_min, draw_top_p, draw_top_k] = DrawPlan();
  EXPECT_TRUE(same_draw({draw_seed, draw_choice, inverse_temperature, score_min, draw_top_p, draw_top_k}, DrawPlan()));
}

TEST(Sequence, AParameterReachesTheDeviceOrKeepsTheDrawOnTheHost) {
  ASSERT_EQ(mode_of({}), kSampleDraw);
  for (const Change& change : changes()) {
    SamplingParams params;
    change.make(params);
    ASSERT_FALSE(params == SamplingParams()) << change.field;
    if (mode_of(params) == kSampleHost) continue;
    EXPECT_EQ(mode_of(params), kSampleDraw) << change.field;
    EXPECT_FALSE(same_draw(draw_plan_of(params), draw_plan_of({}))) << change.field << " is lost";
  }
}

TEST(Sequence, WhatTheDeviceDraws) {
  const std::vector<std::string> on_device{"temperature", "top_p", "top_k", "min_p", "seed", "choice_index"};
  std::vector<std::string> found;
  for (const Change& change : changes()) {
    SamplingParams params;
    change.make(params);
    if (mode_of(params) == kSampleDraw) found.push_back(change.field);
  }
  EXPECT_EQ(found, on_device);
  SamplingParams params;
  params.top_p = 0.5f;
  params.top_k = 5;
  EXPECT_EQ(mode_of(params), kSampleHost) << "two cuts";
  params.temperature = 0;
  EXPECT_EQ(mode_of(params), kSampleGreedy);
  params.frequency_penalty = 1;
  EXPECT_EQ(mode_of(params), kSampleHost) << "penalties come before the largest";
}

}  // namespace
}  // namespace boreas::cuda
