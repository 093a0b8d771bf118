// Random scenarios. A failure names the seed that replays it alone:
//   BOREAS_SIM_SEED=s       the first seed (1; in long runs a random one)
//   BOREAS_SIM_SCENARIOS=n  so many scenarios
//   BOREAS_SIM_SECONDS=t    a long run: as many scenarios as fit
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "scenario.h"

namespace boreas {
namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

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

TEST(EngineSimulation, EveryRequestEqualsItsRunAlone) {
  const uint64_t seconds = number_from_environment("BOREAS_SIM_SECONDS", 0);
  const uint64_t first = number_from_environment("BOREAS_SIM_SEED", seconds > 0 ? std::random_device()() : 1);
  const uint64_t wanted = number_from_environment("BOREAS_SIM_SCENARIOS", seconds > 0 ? UINT64_MAX : 10000);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  ScenarioCounts counts;
  uint64_t count = 0;
  uint64_t failures = 0;
  for (; count < wanted && failures < 5; ++count) {
    if (seconds > 0 && std::chrono::steady_clock::now() > end) break;
    const std::string problem = run_scenario(first + count, counts);
    if (problem.empty()) continue;
    ++failures;
    ADD_FAILURE() << problem << "\nreplay: BOREAS_SIM_SEED=" << first + count << " BOREAS_SIM_SCENARIOS=1";
  }
  print(counts, first, count, failures);
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

}  // namespace
}  // namespace boreas
