// Random scenarios; BOREAS_SIM_SEED, BOREAS_SIM_SCENARIOS and BOREAS_SIM_SECONDS choose them (seeds.h).
#include <gtest/gtest.h>

#include <cstdio>

#include "scenario.h"
#include "seeds.h"

namespace boreas {
namespace {

void print(const ScenarioCounts& counts, uint64_t first, uint64_t count, uint64_t failures) {
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  std::printf("%llu scenarios, %llu failures\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(failures));
  std::printf(
      "  seeds from %llu: %lld requests, %lld steps, %lld tokens, %lld choices equal to their runs alone, "
      "%lld took pages of another arithmetic\n",
      static_cast<unsigned long long>(first), number(counts.requests), number(counts.steps), number(counts.tokens),
      number(counts.compared), number(counts.inexact));
  std::printf(
      "  %lld cached tokens, %lld preemptions (%lld computed again), %lld pages restored, %lld aborted, "
      "%lld failed, %lld choices shared pages, %lld executor faults\n",
      number(counts.cached_tokens), number(counts.preemptions), number(counts.recomputations),
      number(counts.swapped_in_pages), number(counts.aborted), number(counts.failed), number(counts.choices_shared),
      number(counts.faults));
}

void expect_runs_alone(Seeds seeds) {
  ScenarioCounts counts;
  uint64_t failures = 0;
  while (failures < 5 && seeds.next()) {
    const std::string problem = run_scenario(seeds.seed(), counts);
    if (problem.empty()) continue;
    ++failures;
    ADD_FAILURE() << problem << "\nreplay: BOREAS_SIM_SEED=" << seeds.seed() << " BOREAS_SIM_SCENARIOS=1";
  }
  const uint64_t count = seeds.done();
  print(counts, seeds.first(), count, failures);
  if (count < 1000) return;
  // The scenarios must really go where the bugs are.
  const auto scenarios = static_cast<int64_t>(count);
  EXPECT_GT(counts.compared, scenarios);
  EXPECT_GT(counts.cached_tokens, scenarios * 10);
  EXPECT_GT(counts.inexact, scenarios / 100);
  EXPECT_GT(counts.preemptions, scenarios / 10);
  EXPECT_GT(counts.recomputations, scenarios / 30);
  EXPECT_GT(counts.swapped_in_pages, scenarios / 10);
  EXPECT_GT(counts.choices_shared, scenarios / 10);
  EXPECT_GT(counts.aborted, scenarios / 10);
  EXPECT_GT(counts.faults, scenarios / 100);
}

TEST(EngineSimulation, EveryRequestEqualsItsRunAlone) { expect_runs_alone(Seeds(2500, 1, true)); }
TEST(EngineSimulationFull, EveryRequestEqualsItsRunAlone) { expect_runs_alone(Seeds(10000, 1, true)); }

}  // namespace
}  // namespace boreas
