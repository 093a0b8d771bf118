// SAMPLE: exactly what exec/sampling.h draws, for every row that draws, on whichever worker.
#include <gtest/gtest.h>

#include <limits>

#include "tests/conformance/cases.h"

namespace boreas::conformance {
namespace {

// Greedy and not, every filter, penalties, top log-probabilities, a mask, a forced token.
void vary(Scenario& scenario, Step& step) {
  const int32_t vocab = scenario.config().vocab_size;
  for (size_t slot = 0; slot < step.sequences.size(); ++slot) {
    SequenceSpec& spec = step.sequences[slot];
    StepRow& row = step.plan.rows[slot];
    spec.sampling.seed = scenario.prng.next_u64();
    spec.sampling.temperature = slot % 3 == 0 ? 0 : 0.5f + scenario.prng.uniform();
    spec.sampling.top_k = slot % 4 == 1 ? 7 : 0;
    spec.sampling.top_p = slot % 5 == 2 ? 0.6f : 1;
    spec.sampling.min_p = slot % 7 == 3 ? 0.1f : 0;
    spec.sampling.top_logprobs = static_cast<int32_t>(scenario.prng.below(4)) - 1;
    spec.sampling.frequency_penalty = slot % 2 == 0 ? 0.5f : 0;
    spec.sampling.repetition_penalty = slot % 2 == 1 ? 1.3f : 1;
    spec.prompt = spec.output = row.tokens;
    if (scenario.prng.below(4) == 0)
      row.forced_token = static_cast<TokenId>(scenario.prng.below(static_cast<uint32_t>(vocab)));
    if (scenario.prng.below(3) != 0) continue;
    auto mask = std::make_shared<TokenMask>();
    mask->bits.assign(static_cast<size_t>(vocab + 31) / 32, 0x5a5a5a5au);
    row.mask = mask;
  }
}

void expect_same(const SampledToken& got, const SampledToken& want, const std::string& what) {
  EXPECT_EQ(got.id, want.id) << what;
  EXPECT_EQ(got.logprob, want.logprob) << what;
  EXPECT_EQ(got.corrupted, want.corrupted) << what;
  ASSERT_EQ(got.top.size(), want.top.size()) << what;
  for (size_t i = 0; i < got.top.size(); ++i) {
    EXPECT_EQ(got.top[i].id, want.top[i].id) << what;
    EXPECT_EQ(got.top[i].logprob, want.top[i].logprob) << what;
  }
}

}  // namespace

void check_kSample(Backend& backend) {
  for_each_scenario(13, [&](Scenario& scenario) {
    Step step = random_step(scenario);
    vary(scenario, step);
    const size_t vocab = static_cast<size_t>(scenario.config().vocab_size);
    Data data;
    std::vector<SampledToken> want;
    for (size_t slot = 0; slot < step.plan.rows.size(); ++slot) {
      const StepRow& row = step.plan.rows[slot];
      if (row.logits == LogitsWanted::kNone) continue;
      const size_t scored = row.logits == LogitsWanted::kAll ? row.tokens.size() : 1;
      for (size_t i = 0; i < scored * vocab; ++i) data.logits.push_back(20 * scenario.prng.uniform() - 10);
      if (scenario.prng.below(8) == 0) data.logits.back() = std::numeric_limits<float>::quiet_NaN();
      const std::span<const float> logits = std::span(data.logits).last(vocab);
      const SequenceSpec& spec = step.sequences[slot];
      want.push_back(row.forced_token >= 0
                         ? score_token(logits, row.forced_token, spec.sampling.top_logprobs)
                         : sample_token(logits, spec.sampling, PenaltyState(spec.prompt, spec.output), row.mask.get(),
                                        row.position + static_cast<int64_t>(row.tokens.size())));
    }
    backend.run(scenario.machine, step, {Op::kSample}, data);
    ASSERT_EQ(data.sampled.size(), want.size()) << scenario.name;
    for (size_t i = 0; i < want.size(); ++i) expect_same(data.sampled[i], want[i], scenario.name);
    std::vector<float> got_ids, want_ids;
    for (const SampledToken& token : data.sampled) got_ids.push_back(static_cast<float>(token.id));
    for (const SampledToken& token : want) want_ids.push_back(static_cast<float>(token.id));
    expect_equal(got_ids, want_ids, scenario.name);
  });
}

}  // namespace boreas::conformance
