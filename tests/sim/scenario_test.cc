// Random scenarios. BOREAS_SIM_SCENARIOS=n runs n of them, BOREAS_SIM_SEED=s starts at seed s: a failure names the seed
// that replays it alone.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "scenario.h"

namespace boreas {
namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(EngineSimulation, EveryRequestEqualsItsRunAlone) {
  const uint64_t first = number_from_environment("BOREAS_SIM_SEED", 1);
  const uint64_t count = number_from_environment("BOREAS_SIM_SCENARIOS", 3000);
  ScenarioCounts counts;
  uint64_t failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const std::string problem = run_scenario(seed, counts);
    if (problem.empty()) continue;
    ++failures;
    ADD_FAILURE() << problem << "\nreplay: BOREAS_SIM_SEED=" << seed << " BOREAS_SIM_SCENARIOS=1";
  }
  std::printf(
      "%llu scenarios, %llu failures (%lld requests, %lld steps, %lld tokens, %lld preemptions, %lld aborted, "
      "%lld failed, %lld choices shared pages, %lld executor faults)\n",
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(failures),
      static_cast<long long>(counts.requests), static_cast<long long>(counts.steps),
      static_cast<long long>(counts.tokens), static_cast<long long>(counts.preemptions),
      static_cast<long long>(counts.aborted), static_cast<long long>(counts.failed),
      static_cast<long long>(counts.choices_shared), static_cast<long long>(counts.faults));
  if (count < 1000) return;
  // The scenarios must really go where the bugs are.
  EXPECT_GT(counts.preemptions, static_cast<int64_t>(count) / 10);
  EXPECT_GT(counts.choices_shared, static_cast<int64_t>(count) / 10);
  EXPECT_GT(counts.aborted, static_cast<int64_t>(count) / 10);
  EXPECT_GT(counts.faults, static_cast<int64_t>(count) / 100);
}

}  // namespace
}  // namespace boreas
