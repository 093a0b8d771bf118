// What the emulated megakernel draws, beside a plain way of drawing: LM_HEAD, FILTER and SAMPLE together.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/prng.h"
#include "emulated_machine.h"
#include "exec/cuda/drawn_testing.h"

namespace boreas {
namespace {

// Rows of every filter and of none, side by side, against a sorted vocabulary. The logits of made-up weights lie close
// together, so that small shares of the mass are many tokens, and most draws are outside.
template <class C>
void check_draws(int32_t launches, uint64_t seed) {
  Prng prng(seed);
  Machine<C> machine(small_model(2, 16), 32);
  machine.check_races();
  int32_t filtered = 0, not_the_best = 0;
  for (int32_t launch = 0; launch < launches; ++launch) {
    std::vector<typename Machine<C>::Row> rows;
    const int32_t count = static_cast<int32_t>(1 + prng.below(cuda::kRowsMax));
    for (int32_t slot = 0; slot < count; ++slot) {
      cuda::DrawPlan draw;
      draw.seed = prng.next_u64();
      draw.choice_index = static_cast<int32_t>(prng.below(4));
      draw.inverse_temperature = prng.below(2) == 0 ? 1.0f : 40 * prng.uniform();
      const uint32_t kind = prng.below(5);
      if (kind == 1) draw.top_p = 0.05f + 0.9f * prng.uniform();
      if (kind == 2) draw.top_k = static_cast<int32_t>(1 + prng.below(60));
      if (kind == 3 || (kind == 1 && prng.below(2) == 0)) draw.score_min = -0.3f * prng.uniform();
      rows.push_back({slot, launch, static_cast<TokenId>(prng.below(C::kVocabulary)), std::nullopt});
      if (kind != 4) rows.back().draw = draw;
    }
    const auto result = machine.run(rows, seed + static_cast<uint64_t>(launch));
    ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto logits = machine.logits(row);
      const TokenId best = static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      const auto& draw = rows[row].draw;
      const TokenId wanted = draw ? cuda::drawn_by_sorting(logits, *draw, rows[row].position + 1) : best;
      ASSERT_EQ(machine.outcome(row).token, wanted) << "seed " << seed << " launch " << launch << " row " << row;
      filtered += draw && draw->filters();
      not_the_best += wanted != best;
    }
  }
  EXPECT_GE(filtered, launches);
  EXPECT_GE(not_the_best, launches);
}
TEST(Megakernel, DrawsAreThoseOfASortedVocabulary) {
  check_draws<emulation::FourWorkers>(8, 2);
  check_draws<cuda::Cut<cuda::GoldenShape, 128>>(1, 3);
}

}  // namespace
}  // namespace boreas
