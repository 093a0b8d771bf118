// The long-context golden on any executor. Used by long_context_golden_test.cc and tests/gpu/long_context_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <iostream>

#include "tests/golden/long_context/long_context.h"

namespace boreas {

// By how many tolerances each deliberate mistake must be off.
inline constexpr double kLongContextFlaw = 10;

// Equal to the oracle with the cache's pages; not with other ones in place of the first, the last or half of them. Of
// the thousand alike in between, one amiss stays within BF16's tolerance: plain arithmetic sees it
// (long_context_golden_test).
inline void check_long_context(Executor& executor, const ModelConfig& config, const LongContextGolden& golden,
                               PageLayout layout) {
  const auto filled = fill_long_context(executor, config, golden.position, layout);
  ASSERT_TRUE(filled.ok()) << filled.error().message;
  const double off = long_context_ratio(executor, config, golden, *filled);
  EXPECT_LE(off, 1);
  std::cout << executor.info().name << ": the worst logit is off by " << off << " tolerances\n";

  const size_t last = filled->full.size() - 1;
  const PageId spare(static_cast<int32_t>(last) + 1);
  const auto expect_flaw = [&](const StepTables& tables, const char* what) {
    const double flawed = long_context_ratio(executor, config, golden, tables);
    EXPECT_GE(flawed, kLongContextFlaw) << what;
    std::cout << what << ": off by " << flawed << " tolerances\n";
  };
  const auto replaced = [&](size_t at, size_t by) {  // by a copy: the token writes into the last page
    StepTables tables = *filled;
    EXPECT_TRUE(executor.copy_page(PagePoolKind::kFull, tables.full[by], spare).ok());
    tables.full[at] = spare;
    return tables;
  };
  expect_flaw(replaced(0, 1), "oldest page replaced by the next one");
  expect_flaw(replaced(last, last - 1), "newest page replaced by the one before");
  StepTables half = *filled;
  for (size_t i = half.full.size() / 2; i < last; ++i) half.full[i] = half.full[i - half.full.size() / 2];
  expect_flaw(half, "second half of the pages replaced by the first");
  EXPECT_LE(long_context_ratio(executor, config, golden, *filled), 1) << "after the flaws";
}

}  // namespace boreas
