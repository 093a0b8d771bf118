// Does the simulation find bugs? Each of seven kinds is planted (engine/planted_bug.h), and scenarios run until one is
// failed by what clients hear alone, and then until one is failed by the invariants alone. This binary has its own copy
// of the engine, compiled with BOREAS_PLANTED_BUGS. Every scenario runs in a child process: a CHECK, in the engine or
// in the fake executor, may end it before either has had its say. That finds the bug, too, but counts for neither.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "engine/planted_bug.h"
#include "scenario.h"

namespace boreas {
namespace {

constexpr uint64_t kScenariosMax = 2000;

// Shared with a child.
struct Report {
  char problem[200] = "";
};

[[noreturn]] void run_in_child(uint64_t seed, PlantedBug bug, JudgedBy judge, Report& report) {
  std::freopen("/dev/null", "w", stderr);  // what its CHECKs say
  planted_bug = bug;
  ScenarioCounts counts;
  const std::string problem = run_scenario(seed, counts, judge);
  std::snprintf(report.problem, sizeof report.problem, "%s", problem.c_str());
  _exit(0);
}

bool is_found(const char* name, PlantedBug bug, JudgedBy judge) {
  void* memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* report = new (memory) Report();
  const char* by = judge == JudgedBy::kTexts ? "texts" : "invariants";
  int checks = 0;
  bool found = false;
  for (uint64_t seed = 1; seed <= kScenariosMax && !found; ++seed) {
    const pid_t child = fork();
    if (child == 0) run_in_child(seed, bug, judge, *report);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) break;
    checks += WIFSIGNALED(status);
    found = report->problem[0] != '\0';
    if (!found) continue;
    std::printf("%s: found by %s after %llu scenarios (%s); a CHECK or a crash ended %d of them\n", name, by,
                static_cast<unsigned long long>(seed), report->problem, checks);
  }
  if (!found) std::printf("%s: NOT FOUND by %s; a CHECK or a crash ended %d scenarios\n", name, by, checks);
  munmap(memory, sizeof(Report));
  return found;
}

void expect_found(const char* name, PlantedBug bug) {
  EXPECT_TRUE(is_found(name, bug, JudgedBy::kTexts));
  EXPECT_TRUE(is_found(name, bug, JudgedBy::kInvariants));
}

TEST(EngineMutants, None) {
  ScenarioCounts counts;
  for (uint64_t seed = 1; seed <= 200; ++seed) EXPECT_EQ(run_scenario(seed, counts), "") << seed;
}
TEST(EngineMutants, StalePage) { expect_found("stale page", PlantedBug::kStalePage); }
TEST(EngineMutants, ReferenceCount) { expect_found("wrong reference count", PlantedBug::kReferenceCount); }
TEST(EngineMutants, WindowPageEarly) { expect_found("window page freed early", PlantedBug::kWindowPageEarly); }
TEST(EngineMutants, HashCollision) { expect_found("hash collision", PlantedBug::kHashCollision); }
TEST(EngineMutants, ResumePosition) { expect_found("resumed at the wrong position", PlantedBug::kResumePosition); }
TEST(EngineMutants, SwappedPage) { expect_found("swapped page restored to the wrong page", PlantedBug::kSwappedPage); }
// The page holds the right tokens at the right positions; only what was computed from them is of other layers.
TEST(EngineMutants, SwappedLayer) {
  EXPECT_TRUE(is_found("swapped page restored to the wrong layers", PlantedBug::kSwappedLayer, JudgedBy::kTexts));
}

}  // namespace
}  // namespace boreas
