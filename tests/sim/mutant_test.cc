// Does the simulation find bugs? Each of seven kinds is planted (engine/planted_bug.h) and scenarios run until one
// fails: once with all invariants looked at, once judged only by what clients hear (and by CHECKs). This binary has its
// own copy of the engine, compiled with BOREAS_PLANTED_BUGS. A mutant runs in a child process, because a CHECK ends it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "engine/planted_bug.h"
#include "scenario.h"

namespace boreas {
namespace {

constexpr uint64_t kScenariosMax = 2000;

struct Report {
  uint64_t scenarios = 0;
  char problem[200] = "";
};

// Runs in the child. The status says whether a scenario found something.
[[noreturn]] void run_mutant(PlantedBug bug, bool invariants, Report& report) {
  planted_bug = bug;
  ScenarioCounts counts;
  for (uint64_t seed = 1; seed <= kScenariosMax; ++seed) {
    report.scenarios = seed;
    const std::string problem = run_scenario(seed, counts, invariants);
    if (problem.empty()) continue;
    std::snprintf(report.problem, sizeof report.problem, "%s", problem.c_str());
    _exit(1);
  }
  _exit(0);
}

bool is_found_so(const char* name, PlantedBug bug, bool invariants) {
  void* memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* report = new (memory) Report();
  const pid_t child = fork();
  if (child == 0) run_mutant(bug, invariants, *report);
  int status = 0;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child;
  const bool aborted = ended && WIFSIGNALED(status);
  const bool found = ended && (aborted || WEXITSTATUS(status) != 0);
  const char* how = aborted ? "a CHECK, see above" : report->problem;
  std::printf("%s, %s: %s after %llu scenarios (%s)\n", name, invariants ? "by invariants" : "by texts alone",
              found ? "found" : "NOT FOUND", static_cast<unsigned long long>(report->scenarios),
              found ? how : "no scenario failed");
  munmap(memory, sizeof(Report));
  return found;
}

void expect_found(const char* name, PlantedBug bug) {
  EXPECT_TRUE(is_found_so(name, bug, true));
  EXPECT_TRUE(is_found_so(name, bug, false));
}

TEST(EngineMutants, None) {
  ScenarioCounts counts;
  for (uint64_t seed = 1; seed <= 200; ++seed) EXPECT_EQ(run_scenario(seed, counts, true), "") << seed;
}
TEST(EngineMutants, StalePage) { expect_found("stale page", PlantedBug::kStalePage); }
TEST(EngineMutants, ReferenceCount) { expect_found("wrong reference count", PlantedBug::kReferenceCount); }
TEST(EngineMutants, WindowPageEarly) { expect_found("window page freed early", PlantedBug::kWindowPageEarly); }
TEST(EngineMutants, HashCollision) { expect_found("hash collision", PlantedBug::kHashCollision); }
TEST(EngineMutants, ResumePosition) { expect_found("resumed at the wrong position", PlantedBug::kResumePosition); }
TEST(EngineMutants, SwappedPage) { expect_found("swapped page restored to the wrong page", PlantedBug::kSwappedPage); }
TEST(EngineMutants, SwappedLayer) {
  expect_found("swapped page restored to the wrong layers", PlantedBug::kSwappedLayer);
}

}  // namespace
}  // namespace boreas
