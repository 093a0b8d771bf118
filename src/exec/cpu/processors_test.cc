#include "exec/cpu/processors.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <climits>
#include <fstream>
#include <string>
#include <thread>

namespace boreas::cpu {
namespace {

namespace fs = std::filesystem;

TEST(Processors, AQuotaIsRoundedUpToWholeProcessors) {
  EXPECT_EQ(processors_of_quota(200000, 100000), 2);
  EXPECT_EQ(processors_of_quota(150000, 100000), 2);
  EXPECT_EQ(processors_of_quota(1000, 100000), 1);
  EXPECT_EQ(processors_of_quota(INT64_MAX, 1), INT32_MAX);
  for (const auto& [quota, period] : {std::pair{-1, 100000}, {0, 100000}, {100000, 0}, {100000, -5}})
    EXPECT_FALSE(processors_of_quota(quota, period).has_value()) << quota << " " << period;
}

// A directory like /sys/fs/cgroup.
class Groups : public ::testing::Test {
 protected:
  Groups() : root_(fs::path(::testing::TempDir()) / ("groups-" + std::to_string(::getpid()))) {}
  ~Groups() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  int32_t limit(const std::string& membership) { return processors_of_groups(membership, root_).value_or(-1); }
  fs::path root_;
};

TEST_F(Groups, VersionTwoTakesTheSmallestQuotaOnTheWayUp) {
  write("cpu.max", "max 100000");
  write("a/cpu.max", "300000 100000");
  write("a/b/cpu.max", "max 100000");
  write("a/b/c/cpu.max", "800000 100000");
  EXPECT_EQ(limit("0::/a/b/c\n"), 3);
  EXPECT_EQ(limit("0::/\n"), -1);
  write("a/b/c/cpu.max", "50000 100000");
  EXPECT_EQ(limit("0::/a/b/c\n"), 1);
}

// Inside a container: the name is that of the outside, the mount begins at the own group.
TEST_F(Groups, AGroupThatIsNotThereFallsBackToTheRootOfTheMount) {
  write("cpu.max", "150000 100000");
  EXPECT_EQ(limit("0::/docker/0123456789abcdef\n"), 2);
  write("cpu/cpu.cfs_quota_us", "400000");
  write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limit("4:cpuset:/x\n2:cpu,cpuacct:/docker/0123\n"), 4);
  EXPECT_EQ(limit("4:cpuset:/x\n2:cpu,cpuacct:/docker/0123\n0::/\n"), 2);
}

TEST_F(Groups, VersionOneReadsQuotaAndPeriod) {
  write("cpu/cpu.cfs_quota_us", "-1");
  write("cpu/cpu.cfs_period_us", "100000");
  write("cpu/jobs/cpu.cfs_quota_us", "250000");
  write("cpu/jobs/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limit("1:cpu:/jobs/mine\n"), 3);
  EXPECT_EQ(limit("1:cpu:/other\n"), -1);
  EXPECT_EQ(limit("1:cpuacct:/jobs\n"), -1);  // not the controller that limits
}

TEST_F(Groups, WhatIsNoQuotaLimitsNothing) {
  for (const char* text : {"", "max 100000", "max", "100000", "100000 ", "-1 100000", "0 100000", "100000 0", "x y"}) {
    write("g/cpu.max", text);
    EXPECT_EQ(limit("0::/g\n"), -1) << text;
  }
  for (const char* membership : {"", "\n\n", "0", "0:", "::", "no colons", "0::", "1:cpu"})
    EXPECT_EQ(limit(membership), -1) << membership;
  EXPECT_EQ(limit("0::" + std::string(5000, '/') + "\n"), -1);
}

TEST(Processors, AProcessBoundToOneProcessorMayUseOne) {
  int32_t bound = 0, free = 0;
  std::thread([&] {
    free = usable_processors();
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    for (int32_t processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (!CPU_ISSET(processor, &all)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(processor, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // of this thread alone
      break;
    }
    bound = usable_processors();
  }).join();
  EXPECT_EQ(bound, 1);
  EXPECT_GE(free, 1);
}

}  // namespace
}  // namespace boreas::cpu
