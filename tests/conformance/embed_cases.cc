// EMBED: residual = the token's row of the embedding, to the bit, in the hop and in the worker's own slot.
#include "tests/conformance/cases.h"

namespace boreas::conformance {

void check_kEmbed(Backend& backend) {
  for_each_scenario(3, [&](Scenario& scenario) {
    const Step step = random_step(scenario);
    const TensorView& embedding = scenario.machine.model->weights().at(WeightRole::kEmbedding);
    std::vector<float> want;
    for (const StepRow& row : step.plan.rows)
      for (TokenId token : row.tokens)
        for (int32_t i = 0; i < scenario.config().hidden_size; ++i)
          want.push_back(bf16_to_float(embedding.bf16_row(token)[i]));
    Data data;
    backend.run(scenario.machine, step, {Op::kEmbed}, data);
    expect_equal(data.hop(Hop::kResidual), want, "hop of " + scenario.name);
    expect_equal(data.slot(Slot::kResidual), want, "slot of " + scenario.name);
  });
}

}  // namespace boreas::conformance
