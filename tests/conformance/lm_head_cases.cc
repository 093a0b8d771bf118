// LM_HEAD: logits of the rows that want them, in the plan's order; of no other row.
#include <cmath>

#include "tests/conformance/cases.h"

namespace boreas::conformance {

void check_kLmHead(Backend& backend) {
  for_each_scenario(12, [&](Scenario& scenario) {
    const ModelConfig& config = scenario.config();
    const size_t hidden = static_cast<size_t>(config.hidden_size);
    const TensorView& embedding = scenario.machine.model->weights().at(WeightRole::kEmbedding);
    for (int32_t first : {0, 1}) {  // with the first row wanted, and with it not
      Step step = random_step(scenario);
      if (first == 1) step.plan.rows[0].logits = LogitsWanted::kNone;
      Data data;
      std::vector<float>& normed = data.slot(Slot::kNormed) =
          random_values(scenario.prng, scenario.values(config.hidden_size));
      std::vector<Bounded> want;
      size_t row = 0;
      for (const StepRow& range : step.plan.rows) {
        for (size_t i = 0; i < range.tokens.size(); ++i, ++row) {
          const bool last = i + 1 == range.tokens.size();
          if (range.logits != LogitsWanted::kAll && !(last && range.logits == LogitsWanted::kLast)) continue;
          for (int32_t token = 0; token < config.vocab_size; ++token) {
            Bounded logit = dot(backend, embedding.bf16_row(token), std::span(normed).subspan(row * hidden, hidden));
            const double scale = double{config.logit_scale};
            logit = {logit.value * scale, logit.error * scale + std::abs(logit.value * scale) * roundings(1)};
            want.push_back(logit);
          }
        }
      }
      backend.run(scenario.machine, step, {Op::kLmHead}, data);
      expect_near(data.logits, want, scenario.name);
    }
  });
}

}  // namespace boreas::conformance
