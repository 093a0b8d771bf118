// One simulated life of an engine, made from one seed (scenario_plan.h). Runs EngineCore with a virtual clock and a
// FakeExecutor, checks invariants after every step and every request against its run alone. Returns what went wrong, or
// an empty string.
#pragma once

#include <cstdint>
#include <string>

namespace boreas {

struct ScenarioCounts {
  int64_t steps = 0;
  int64_t tokens = 0;
  int64_t cached_tokens = 0;
  int64_t requests = 0;
  int64_t compared = 0;  // completed choices, equal to their runs alone
  int64_t inexact = 0;   // choices that took pages of another arithmetic from the cache
  int64_t preemptions = 0;
  int64_t recomputations = 0;
  int64_t swapped_in_pages = 0;
  int64_t aborted = 0;
  int64_t failed = 0;
  int64_t choices_shared = 0;  // sequences that shared pages with another at some time
  int64_t faults = 0;
};

// What decides: what clients hear beside their runs alone, what is recounted after every step, or both.
enum class JudgedBy : uint8_t { kTexts, kInvariants, kBoth };

std::string run_scenario(uint64_t seed, ScenarioCounts& counts, JudgedBy judge = JudgedBy::kBoth);

}  // namespace boreas
