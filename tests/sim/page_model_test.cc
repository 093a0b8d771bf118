// PagePool and PageLedger beside naive models: sets of owners, recounted from scratch.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/prng.h"
#include "engine/page_ledger.h"
#include "seeds.h"

namespace boreas {
namespace {

TEST(PagePoolModel, EqualsASetOfOwners) {
  for (Seeds seeds(50, 4); seeds.next();) {
    SCOPED_TRACE("seed " + std::to_string(seeds.seed()));
    Prng prng(seeds.seed());
    const auto pages = static_cast<int32_t>(prng.between(1, 40));
    PagePool pool(pages);
    std::map<int32_t, int32_t> owners;
    for (int i = 0; i < 2000; ++i) {
      const uint32_t action = prng.below(3);
      if (action == 0 || owners.empty()) {
        const auto page = pool.acquire();
        ASSERT_EQ(page.has_value(), static_cast<int32_t>(owners.size()) < pages);
        if (page) {
          ASSERT_TRUE(owners.emplace(page->value, 1).second);
        }
        continue;
      }
      auto owned = std::next(owners.begin(), prng.below(static_cast<uint32_t>(owners.size())));
      if (action == 1) {
        pool.share(PageId(owned->first));
        ++owned->second;
      } else {
        pool.release(PageId(owned->first));
        if (--owned->second == 0) owners.erase(owned);
      }
      ASSERT_EQ(pool.pages_free() + static_cast<int32_t>(owners.size()), pages);
    }
    for (int32_t page = 0; page < pages; ++page) {
      ASSERT_EQ(pool.references(PageId(page)), owners.count(page) > 0 ? owners[page] : 0);
    }
  }
}

// A sequence that grows by random ranges: cover() succeeds exactly where reachable_end() says so, every key in sight
// keeps its page, and the number of live sliding pages stays in its bound.
TEST(PageLedgerModel, WindowPagesStayWhileInSight) {
  for (Seeds seeds(300, 4); seeds.next();) {
    SCOPED_TRACE("seed " + std::to_string(seeds.seed()));
    Prng prng(seeds.seed());
    const auto window = static_cast<int32_t>(prng.between(1, 300));
    PageLedger ledger(30, static_cast<int32_t>(prng.between(2, 20)), window);
    SequencePages pages;
    std::map<int32_t, PageId> first_page;  // page index -> the page it had first
    for (int32_t computed = 0; computed < 1500;) {
      const int32_t end = computed + static_cast<int32_t>(prng.between(1, prng.below(4) == 0 ? 200 : 5));
      ledger.leave_window(pages, computed);
      const int32_t reachable = ledger.reachable_end(pages, end);
      ASSERT_EQ(ledger.cover(pages, computed, end), reachable == end);
      if (reachable != end) {
        if (reachable <= computed) break;
        ASSERT_TRUE(ledger.cover(pages, computed, reachable));
      }
      const int32_t covered = std::min(reachable, end);
      ASSERT_LE(pages.sliding_live(), PageLedger::sliding_pages_max(window, covered - computed));
      for (int32_t key = std::max(0, computed - window + 1); key < covered; ++key) {
        ASSERT_GE(page_of(key), pages.sliding_first);
        const PageId page = pages.sliding[static_cast<size_t>(page_of(key))];
        ASSERT_EQ(first_page.emplace(page_of(key), page).first->second, page);
        ASSERT_EQ(ledger.pool(PagePoolKind::kSliding).references(page), 1);
      }
      computed = covered;
    }
    ledger.release(pages);
    for (const auto kind : {PagePoolKind::kFull, PagePoolKind::kSliding}) {
      ASSERT_EQ(ledger.pool(kind).pages_free(), ledger.pool(kind).pages());
    }
  }
}

TEST(PageLedgerModel, SharedPagesHaveTwoOwners) {
  PageLedger ledger(20, 20, 100);
  SequencePages one, two;
  ASSERT_TRUE(ledger.cover(one, 0, 300));
  ledger.share(one, two, 256);
  EXPECT_EQ(two.full.size(), 4u);
  EXPECT_EQ(two.sliding_first, 2);  // the query at 256 sees keys from 157 on
  ASSERT_TRUE(ledger.cover(two, 256, 300));
  EXPECT_NE(one.full[4], two.full[4]);
  ledger.release(one);
  EXPECT_EQ(ledger.pool(PagePoolKind::kFull).references(two.full[0]), 1);
  EXPECT_EQ(ledger.pool(PagePoolKind::kSliding).pages_free(), 17);
  ledger.release(two);
  EXPECT_EQ(ledger.pool(PagePoolKind::kFull).pages_free(), 20);
  EXPECT_EQ(ledger.pool(PagePoolKind::kSliding).pages_free(), 20);
}

TEST(PageLedgerModel, DesignBounds) {
  EXPECT_EQ(PageLedger::sliding_pages_max(4096, 1), 65);
  EXPECT_EQ(PageLedger::sliding_pages_max(4096, 2048), (4095 + 2048 - 2) / 64 + 2);
}

}  // namespace
}  // namespace boreas
