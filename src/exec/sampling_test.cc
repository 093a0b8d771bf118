// sampling.cc against plain, slow definitions of the same rules. Random tests print their seed.
#include "exec/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/prng.h"
#include "exec/cuda/drawn_testing.h"
#include "exec/cuda/sequence.h"
#include "exec/sampling_math.h"

namespace boreas {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(Prng& prng, size_t count, float spread, bool coarse = false) {
  std::vector<float> logits(count);
  for (float& logit : logits) {
    logit = (prng.uniform() + prng.uniform() + prng.uniform() - 1.5f) * spread;
    if (coarse) logit = std::round(logit);  // many equal values
  }
  return logits;
}

// Ids that the filters keep, by sorting everything and adding in double.
std::vector<TokenId> naive_kept(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const float max = *std::max_element(logits.begin(), logits.end());
  const auto scaled = [&](TokenId id) { return (logits[static_cast<size_t>(id)] - max) * (1 / params.temperature); };
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return scaled(a) > scaled(b); });
  if (params.min_p > 0) {
    while (scaled(order.back()) < std::log(params.min_p)) order.pop_back();
  }
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size()) {
    order.resize(static_cast<size_t>(params.top_k));
  }
  if (params.top_p < 1) {
    double total = 0;
    for (const TokenId id : order) total += std::exp(static_cast<double>(scaled(id)));
    double sum = 0;
    size_t kept = 0;
    while (kept < order.size() && sum < total * static_cast<double>(params.top_p)) {
      sum += std::exp(static_cast<double>(scaled(order[kept++])));
    }
    order.resize(std::max<size_t>(kept, 1));
  }
  return order;
}

// The winner among given ids by computing all of the noise.
TokenId naive_draw(const std::vector<float>& logits, const std::vector<TokenId>& kept, const SamplingParams& params,
                   int64_t position) {
  TokenId best = -1;
  double best_score = -std::numeric_limits<double>::infinity();
  for (const TokenId id : kept) {
    const float u = sampling_uniform(params.seed, params.choice_index, position, id);
    const double score =
        static_cast<double>(logits[static_cast<size_t>(id)]) * static_cast<double>(1 / params.temperature) +
        static_cast<double>(sampling_math::gumbel(u));
    if (score > best_score || (score == best_score && id < best)) {
      best = id;
      best_score = score;
    }
  }
  return best;
}

SampledToken sample(const std::vector<float>& logits, const SamplingParams& params, int64_t position = 7) {
  return sample_token(logits, params, PenaltyState(), nullptr, position);
}

TEST(SamplingMath, AgreesWithLibm) {
  Prng prng(11);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::ldexp(1.0f + prng.uniform(), static_cast<int>(prng.between(-40, 40)));
    EXPECT_NEAR(sampling_math::log(x), std::log(static_cast<double>(x)),
                2e-7 * std::max(1.0, std::abs(std::log(static_cast<double>(x)))));
    const float y = -prng.uniform() * 86.0f;
    EXPECT_NEAR(sampling_math::exp(y) / std::exp(static_cast<double>(y)), 1.0, 4e-7);
    const float u = sampling_math::uniform(prng.next_u32() >> prng.below(32));
    const double exact = -std::log(-std::log1p(-static_cast<double>(u)));
    EXPECT_NEAR(sampling_math::gumbel(u), exact, 1e-6 * std::max(1.0, std::abs(exact)));
    EXPECT_LE(sampling_math::gumbel(u), -std::log(static_cast<double>(u)) + 1e-5);
  }
  EXPECT_EQ(sampling_math::exp(0.0f), 1.0f);
  EXPECT_EQ(sampling_math::log(1.0f), 0.0f);
  EXPECT_LT(sampling_math::uniform(0xffffffffu), 1.0f);
  EXPECT_GT(sampling_math::uniform(0), 0.0f);
  EXPECT_LT(sampling_math::gumbel(sampling_math::uniform(0)), sampling_math::kGumbelMax);
}

TEST(Sampling, GreedyTakesTheLowestIdAmongEqualValues) {
  SamplingParams params;
  params.temperature = 0;
  params.top_k = 1;
  params.top_p = 0.001f;
  EXPECT_EQ(sample({1, 5, 2, 5, 5}, params).id, 1);
  EXPECT_EQ(sample({-3, -4, -3}, params).id, 0);
  EXPECT_EQ(sample({2}, params).id, 0);
}

TEST(Sampling, DrawsEqualTheNaiveDefinition) {
  const uint64_t seed = 20240607;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Prng prng(seed);
  for (int i = 0; i < 3000; ++i) {
    SamplingParams params;
    params.seed = prng.next_u64();
    params.choice_index = static_cast<int32_t>(prng.below(5));
    params.temperature = 0.05f + prng.uniform() * 1.9f;
    if (prng.below(2) != 0) params.top_k = static_cast<int32_t>(prng.below(60));
    if (prng.below(2) != 0) params.top_p = 0.01f + 0.99f * prng.uniform();
    if (prng.below(3) == 0) params.min_p = prng.uniform() * prng.uniform();
    const auto logits = random_logits(prng, 1 + prng.below(300), 1.0f + prng.uniform() * 40.0f, prng.below(2) != 0);
    const auto kept = naive_kept(logits, params);
    const int64_t position = prng.below(100000);
    ASSERT_EQ(sample(logits, params, position).id, naive_draw(logits, kept, params, position))
        << "case " << i << " kept " << kept.size() << " of " << logits.size();
  }
}

// Logits at the ends of what a float holds, equal, next to each other, or far from the rest, with every parameter at
// its ends: distances and products overflow, noise vanishes, and nothing may be passed over for it.
TEST(Sampling, HostileLogitsAreDrawnAsDefined) {
  const uint64_t seed = 31;
  Prng prng(seed);
  const auto any_of = [&](const std::vector<float>& values) {
    return values[prng.below(static_cast<uint32_t>(values.size()))];
  };
  for (int i = 0; i < 4000; ++i) {
    std::vector<float> logits(static_cast<size_t>(any_of({1, 3, 4, 5, 63, 64, 65, 300})));
    const float offset = any_of({0, -0.0f, 1e-40f, 100, -1e4f, 1e8f, 3.4e36f, -3.4e36f, FLT_MAX, -FLT_MAX});
    const float spread = any_of({0, 1, 30, 1e30f, 3e38f});
    const bool two_valued = prng.below(2) == 0;
    for (float& logit : logits) {
      const float step = two_valued ? static_cast<float>(prng.below(2)) : prng.uniform();
      logit = offset + (offset > 0 ? -spread : spread) * step;
      if (prng.below(4) == 0) logit = std::nextafter(logit, 0.0f);
    }
    SamplingParams params;
    params.seed = prng.next_u64();
    params.temperature = any_of({0.01f, 0.7f, 1, 2, 1e-30f});
    if (prng.below(2) == 0) params.top_p = any_of({FLT_MIN, 1e-6f, 0.5f, 0.95f, 0.99999994f});
    if (prng.below(2) == 0)
      params.top_k = static_cast<int32_t>(1 + prng.below(static_cast<uint32_t>(logits.size()) + 5));
    if (prng.below(3) == 0) params.min_p = any_of({1, 0.99999994f, 0.5f, 1e-6f, 1e-45f});
    const int64_t position = prng.next_u32() >> 1;
    ASSERT_EQ(sample(logits, params, position).id, cuda::drawn_by_sorting(logits, cuda::draw_plan_of(params), position))
        << "seed " << seed << " case " << i;
  }
}

// Every kept token can be drawn and no other: by many draws over a nearly flat distribution.
TEST(Sampling, FiltersKeepExactlyTheRightSet) {
  const uint64_t seed = 99;
  Prng prng(seed);
  for (int i = 0; i < 60; ++i) {
    SamplingParams params;
    params.temperature = 1.5f;
    if (i % 3 == 0) params.top_k = static_cast<int32_t>(1 + prng.below(12));
    if (i % 3 == 1) params.top_p = 0.05f + 0.9f * prng.uniform();
    if (i % 3 == 2) params.min_p = 0.05f + 0.9f * prng.uniform();
    const auto logits = random_logits(prng, 24, 3.0f, i % 2 == 0);
    auto kept = naive_kept(logits, params);
    std::vector<bool> seen(logits.size());
    for (int draw = 0; draw < 4000; ++draw) {
      params.seed = prng.next_u64();
      seen[static_cast<size_t>(sample(logits, params).id)] = true;
    }
    for (size_t id = 0; id < logits.size(); ++id) {
      const bool is_kept = std::find(kept.begin(), kept.end(), static_cast<TokenId>(id)) != kept.end();
      ASSERT_EQ(seen[id], is_kept) << "seed " << seed << " case " << i << " id " << id;
    }
  }
}

TEST(Sampling, ChiSquareOfTheDistribution) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f, -2.5f, 1.5f, 0.0f, -6.0f, 3.0f};
  for (const float temperature : {0.7f, 1.0f, 1.6f}) {
    SamplingParams params;
    params.temperature = temperature;
    std::vector<double> expected(logits.size());
    double total = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      total += expected[i] = std::exp(static_cast<double>(logits[i] / temperature));
    }
    constexpr int kDraws = 200000;
    std::vector<int> counts(logits.size());
    for (int draw = 0; draw < kDraws; ++draw) {
      params.seed = static_cast<uint64_t>(draw % 50) + 1;
      params.choice_index = draw / 50 % 4;
      ++counts[static_cast<size_t>(sample(logits, params, draw / 200).id)];
    }
    double chi_square = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double wanted = expected[i] / total * kDraws;
      chi_square += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
    }
    EXPECT_LT(chi_square, 27.9) << "temperature " << temperature;  // 9 degrees of freedom, p = 0.001
  }
}

TEST(Sampling, DependsOnSeedChoiceAndPositionOnly) {
  Prng prng(5);
  const auto logits = random_logits(prng, 500, 4.0f);
  SamplingParams params;
  params.seed = 42;
  const TokenId drawn = sample(logits, params, 11).id;
  int different[3] = {};
  for (int i = 1; i <= 50; ++i) {
    (void)sample(random_logits(prng, 100 + prng.below(4000), 9.0f), params, i);  // other work in between
    EXPECT_EQ(sample(logits, params, 11).id, drawn);
    SamplingParams other = params;
    other.seed += static_cast<uint64_t>(i);
    different[0] += sample(logits, other, 11).id != drawn;
    other = params;
    other.choice_index = i;
    different[1] += sample(logits, other, 11).id != drawn;
    different[2] += sample(logits, params, 11 + i).id != drawn;
  }
  for (const int count : different) EXPECT_GT(count, 40);
  EXPECT_NE(sampling_uniform(1, 0, 0, 3), sampling_uniform(1ull << 32, 0, 0, 3));  // both halves of the seed count
}

TEST(Sampling, NoFilterCases) {
  Prng prng(6);
  const auto logits = random_logits(prng, 64, 5.0f);
  SamplingParams params;
  params.seed = 3;
  const TokenId plain = sample(logits, params).id;
  params.top_k = 1000;  // larger than the vocabulary: off
  EXPECT_EQ(sample(logits, params).id, plain);
  params.top_k = 0;
  params.top_p = 1e-9f;  // one token stays
  EXPECT_EQ(sample(logits, params).id, std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST(Sampling, MinPOneKeepsTies) {
  const std::vector<float> logits = {1.0f, 4.0f, 4.0f, 3.999f, 4.0f};
  SamplingParams params;
  params.min_p = 1;
  std::map<TokenId, int> counts;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    params.seed = seed;
    ++counts[sample(logits, params).id];
  }
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts.count(0) + counts.count(3), 0u);
}

TEST(Sampling, TopKTiesKeepTheLowestIds) {
  SamplingParams params;
  params.top_k = 2;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    params.seed = seed;
    EXPECT_LT(sample(std::vector<float>(40, 1.0f), params).id, 2);
  }
}

TEST(Sampling, BiasMasksAndMinTokens) {
  SamplingParams params;
  params.temperature = 0;
  const std::vector<float> logits = {1, 2, 3, 4};
  params.logit_bias = {{0, 10.0f}, {77, 5.0f}, {-1, 5.0f}};  // ids outside the vocabulary are ignored
  EXPECT_EQ(sample(logits, params).id, 0);
  params.allowed_ids = {1, 2};
  EXPECT_EQ(sample(logits, params).id, 2);
  params.suppressed_ids = {2};
  EXPECT_EQ(sample(logits, params).id, 2);
  params.min_tokens = 1;
  EXPECT_EQ(sample(logits, params).id, 1);
  PenaltyState one_token;
  one_token.add_output(3);
  EXPECT_EQ(sample_token(logits, params, one_token, nullptr, 0).id, 2);
  const TokenMask mask{{0b1011}};
  EXPECT_EQ(sample_token(logits, params, one_token, &mask, 0).id, 1);
  const TokenMask nothing{{0}};
  EXPECT_TRUE(sample_token(logits, params, one_token, &nothing, 0).corrupted);
  params.logit_bias = {{1, -kInfinity}};
  EXPECT_EQ(sample(logits, params).id, -1);  // 1 by bias, 2 by min_tokens, the others not allowed
}

TEST(Sampling, Penalties) {
  const std::vector<TokenId> prompt = {0, 5, 0};
  const std::vector<TokenId> output = {1, 1, 2};
  PenaltyState state(prompt, output);
  EXPECT_EQ(state.output_tokens(), 3);
  state.add_output(5);
  EXPECT_EQ(state.output_tokens(), 4);
  ASSERT_EQ(state.entries().size(), 4u);
  EXPECT_TRUE(state.entries()[3].in_prompt);
  EXPECT_EQ(state.entries()[3].output_count, 1);

  SamplingParams params;
  params.temperature = 0;
  const std::vector<float> logits = {4.0f, 5.0f, 4.5f, 3.9f, -1.0f, -0.5f};
  EXPECT_EQ(sample_token(logits, params, state, nullptr, 0).id, 1);
  params.presence_penalty = 1.0f;  // {4, 4, 3.5, 3.9, -1, -1.5}: the prompt is not counted
  EXPECT_EQ(sample_token(logits, params, state, nullptr, 0).id, 0);
  params.presence_penalty = 0;
  params.frequency_penalty = 0.6f;  // {4, 3.8, 3.9, 3.9, ..}
  EXPECT_EQ(sample_token(logits, params, state, nullptr, 0).id, 0);
  params.frequency_penalty = 0;
  params.repetition_penalty = 1.5f;  // {2.67, 3.3, 3, 3.9, ..}
  EXPECT_EQ(sample_token(logits, params, state, nullptr, 0).id, 3);
  params.allowed_ids = {4, 5};  // -1 stays, -0.5 * 2.5 = -1.25
  params.repetition_penalty = 2.5f;
  EXPECT_EQ(sample_token(logits, params, state, nullptr, 0).id, 4);
}

TEST(Sampling, PenaltyStateEqualsAMap) {
  Prng prng(8);
  std::vector<TokenId> prompt(200), output(100);
  for (TokenId& id : prompt) id = static_cast<TokenId>(prng.below(50));
  for (TokenId& id : output) id = static_cast<TokenId>(prng.below(80));
  const PenaltyState at_once(prompt, output);
  PenaltyState by_token(prompt, {});
  std::map<TokenId, int> counts;
  for (const TokenId id : output) {
    by_token.add_output(id);
    ++counts[id];
  }
  ASSERT_EQ(at_once.entries().size(), by_token.entries().size());
  for (size_t i = 0; i < at_once.entries().size(); ++i) {
    const auto& a = at_once.entries()[i];
    const auto& b = by_token.entries()[i];
    EXPECT_EQ(a.id, b.id);
    EXPECT_EQ(a.in_prompt, b.in_prompt);
    EXPECT_EQ(a.output_count, b.output_count);
    EXPECT_EQ(a.output_count, counts[a.id]);
  }
}

TEST(Sampling, CorruptedLogits) {
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    for (const float temperature : {0.0f, 1.0f}) {
      std::vector<float> logits(33, 1.0f);
      logits[32] = bad;
      SamplingParams params;
      params.temperature = temperature;
      const SampledToken result = sample(logits, params);
      EXPECT_TRUE(result.corrupted);
      EXPECT_EQ(result.id, -1);
      EXPECT_TRUE(score_token(logits, 3, 2).corrupted);
    }
  }
  SamplingParams params;
  params.logit_bias = {{0, kInfinity}};
  EXPECT_TRUE(sample({1, 2}, params).corrupted);
  params.logit_bias = {{0, std::nanf("")}};
  params.top_p = 0.5f;
  params.top_k = 1;
  EXPECT_EQ(sample({1, 2}, params).id, 1);
}

TEST(Sampling, LogprobsAreOfTheRawDistribution) {
  Prng prng(9);
  const auto logits = random_logits(prng, 1000, 6.0f, true);
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  SamplingParams params;
  params.temperature = 0.3f;
  params.logit_bias = {{4, 3.0f}};
  params.seed = 1;
  for (const int32_t top : {0, 5, 64, 65, 2000}) {
    params.top_logprobs = top;
    const SampledToken result = sample(logits, params);
    const auto exact = [&](TokenId id) {
      return static_cast<double>(logits[static_cast<size_t>(id)]) - std::log(total);
    };
    EXPECT_NEAR(result.logprob, exact(result.id), 1e-5);
    ASSERT_EQ(result.top.size(), std::min<size_t>(static_cast<size_t>(top), logits.size()));
    for (size_t i = 0; i < result.top.size(); ++i) {
      EXPECT_NEAR(result.top[i].logprob, exact(result.top[i].id), 1e-5);
      if (i == 0) continue;
      const auto& last = result.top[i - 1];
      EXPECT_TRUE(last.logprob > result.top[i].logprob ||
                  (last.logprob == result.top[i].logprob && last.id < result.top[i].id));
    }
    EXPECT_EQ(score_token(logits, result.id, top).logprob, result.logprob);
  }
  params.top_logprobs = -1;
  EXPECT_TRUE(sample(logits, params).top.empty());
}

TEST(Sampling, TinyTemperatureAndLargeVocabulary) {
  Prng prng(10);
  auto logits = random_logits(prng, 262144, 20.0f);
  logits[200000] = 64.0f;
  SamplingParams params;
  params.temperature = 1e-30f;
  EXPECT_EQ(sample(logits, params).id, 200000);
  params.temperature = 1.0f;
  params.top_p = 0.95f;
  EXPECT_EQ(sample(logits, params).id, 200000);
  const std::vector<float> flat(262144, -2.0f);
  params.top_p = 0.5f;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    params.seed = seed;
    EXPECT_LT(sample(flat, params).id, 131072);
  }
}

}  // namespace
}  // namespace boreas
