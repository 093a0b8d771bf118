#include "engine/step_pacer.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/core_testing.h"
#include "exec/fake/fake_executor.h"

namespace boreas {
namespace {

using CoreTest = CoreFixture<FakeExecutor, FakeOptions>;

TEST(StepPacer, LearnsFromFinishedSteps) {
  StepPacer pacer(20000000, 0);
  EXPECT_EQ(pacer.prefill_tokens_max(), StepPacer::kTokensFirst);
  for (int i = 0; i < 20; ++i) pacer.observe(4, 0, 5000000);
  for (int i = 0; i < 40; ++i) pacer.observe(4, 256, 5000000 + 256 * 40000);
  EXPECT_NEAR(pacer.prefill_tokens_max(), 500, 2);                            // 20 ms at 40 us each
  for (int i = 0; i < 40; ++i) pacer.observe(4, 500, 5000000 + 500 * 80000);  // a longer context
  EXPECT_NEAR(pacer.prefill_tokens_max(), 250, 2);
}

TEST(StepPacer, NeverStopsAPromptAndMayBeOff) {
  StepPacer slow(1000000, 0);
  for (int i = 0; i < 40; ++i) slow.observe(1, 64, 64 * int64_t{10000000});
  EXPECT_EQ(slow.prefill_tokens_max(), StepPacer::kTokensMin);
  StepPacer off(0, 0);
  off.observe(1, 64, 1000000000);
  EXPECT_EQ(off.prefill_tokens_max(), std::numeric_limits<int32_t>::max());
  StepPacer unmeasured(1000000, 45);
  unmeasured.observe(1, 64, 0);
  EXPECT_EQ(unmeasured.prefill_tokens_max(), StepPacer::kTokensFirst);
}

TEST(StepPacer, DecodingGetsItsShareBetweenChunks) {
  StepPacer pacer(75000000, 40);
  pacer.observe(8, 0, 9000000);
  double decode_ns = 0, all_ns = 0;
  int32_t chunks = 0, pauses_in_a_row = 0, pauses_max = 0;
  for (int i = 0; i < 2000; ++i) {
    const int32_t tokens = pacer.prefill_tokens_max();
    const int64_t elapsed = 9000000 + tokens * int64_t{20000};
    pacer.observe(8, tokens, elapsed);
    decode_ns += 9000000;
    all_ns += static_cast<double>(elapsed);
    chunks += tokens > 0;
    pauses_in_a_row = tokens > 0 ? 0 : pauses_in_a_row + 1;
    pauses_max = std::max(pauses_max, pauses_in_a_row);
  }
  EXPECT_NEAR(decode_ns / all_ns, 0.4, 0.03);
  EXPECT_GT(chunks, 200);
  EXPECT_LE(pauses_max, 6);
  EXPECT_EQ(pacer.observe(8, 4000, 89000000), 80000000);
  EXPECT_EQ(pacer.prefill_tokens_max(), 0);
  EXPECT_EQ(pacer.observe(0, 4000, 80000000), 80000000);
  EXPECT_GT(pacer.prefill_tokens_max(), 0) << "nobody decodes, nobody is owed";
}

TEST_F(CoreTest, PrefillDelaysDecodesByTheLatencyBudget) {
  fake.clock = &clock;
  fake.step_ns = 2000000;
  fake.token_ns = 100000;
  fake.context_max = 20000;
  options.step_latency_ms = 10;
  Log& decoding = add(request(4, 3000));
  while (decoding.tokens().size() < 20) core().step();
  Log& long_one = add(request(4000, 1));
  int64_t gap_max_ns = 0;
  for (int steps = 0; long_one.tokens().empty(); ++steps) {
    const int64_t before = clock.now_ns();
    core().step();
    if (steps > 2) gap_max_ns = std::max(gap_max_ns, clock.now_ns() - before);
  }
  EXPECT_LE(gap_max_ns, 13000000);
  EXPECT_GE(gap_max_ns, 10000000);  // and makes use of it
  EXPECT_EQ(decoding.events.back().output_tokens, static_cast<int32_t>(decoding.tokens().size()));
}

}  // namespace
}  // namespace boreas
