#include "exec/cpu/processors.h"

#include <gtest/gtest.h>

#include <climits>

namespace boreas::cpu {
namespace {

TEST(Processors, AQuotaIsRoundedUpToWholeProcessors) {
  EXPECT_EQ(processors_of_quota("200000 100000"), 2);
  EXPECT_EQ(processors_of_quota("150000 100000"), 2);
  EXPECT_EQ(processors_of_quota("1000 100000"), 1);
  EXPECT_EQ(processors_of_quota("9223372036854775807 1"), INT32_MAX);
}

TEST(Processors, WhatIsNoQuotaLimitsNothing) {
  for (const char* text : {"", "max 100000", "max", "100000", "100000 ", "-1 100000", "0 100000", "100000 0", "x y"})
    EXPECT_FALSE(processors_of_quota(text).has_value()) << text;
}

TEST(Processors, ThereIsAtLeastOne) { EXPECT_GE(usable_processors(), 1); }

}  // namespace
}  // namespace boreas::cpu
