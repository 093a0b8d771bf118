// FILTER: what it finds shows in what SAMPLE draws, so both run here, on rows of every filter and of none; whatever
// else a contract names stays as it was (the backend looks at it).
#include <gtest/gtest.h>

#include "tests/conformance/cases.h"

namespace boreas::conformance {

void check_kFilter(Backend& backend) {
  for_each_scenario(14, [&](Scenario& scenario) {
    Step step = random_step(scenario);
    const size_t vocab = static_cast<size_t>(scenario.config().vocab_size);
    Data data;
    std::vector<float> want, got;
    for (size_t slot = 0; slot < step.plan.rows.size(); ++slot) {
      SamplingParams& params = step.sequences[slot].sampling;
      params.seed = scenario.prng.next_u64();
      params.temperature = 0.2f + 2 * scenario.prng.uniform();
      if (slot % 4 == 1) params.top_k = static_cast<int32_t>(1 + scenario.prng.below(20));
      if (slot % 4 == 2) params.top_p = 0.1f + 0.8f * scenario.prng.uniform();
      if (slot % 4 == 3) params.min_p = 0.5f * scenario.prng.uniform();
      const StepRow& row = step.plan.rows[slot];
      if (row.logits == LogitsWanted::kNone) continue;
      const size_t scored = row.logits == LogitsWanted::kAll ? row.tokens.size() : 1;
      for (size_t i = 0; i < scored * vocab; ++i) data.logits.push_back(10 * scenario.prng.uniform());
      const int64_t position = row.position + static_cast<int64_t>(row.tokens.size());
      const std::span<const float> logits = std::span(data.logits).last(vocab);
      want.push_back(static_cast<float>(sample_token(logits, params, {}, nullptr, position).id));
    }
    for (const Op op : {Op::kFilter, Op::kSample}) {
      Call call;
      call.op = op;
      backend.run(scenario.machine, step, call, data);
    }
    for (const SampledToken& token : data.sampled) got.push_back(static_cast<float>(token.id));
    expect_equal(got, want, scenario.name);
  });
}

}  // namespace boreas::conformance
