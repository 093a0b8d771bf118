#include "engine/host_pages.h"

#include <gtest/gtest.h>

#include <cstring>

namespace boreas {
namespace {

TEST(HostPages, StayInTheirBound) {
  HostPages pages(1000, 100, 300);
  EXPECT_TRUE(pages.room_for(1, 3));
  EXPECT_FALSE(pages.room_for(2, 3));
  std::vector<HostPageId> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(pages.add(PagePoolKind::kFull, 0));
  EXPECT_EQ(pages.bytes_used(), 1000);
  EXPECT_FALSE(pages.room_for(1, 0));
  for (const HostPageId id : ids) pages.release(id);
  EXPECT_EQ(pages.bytes_used(), 0);
  EXPECT_TRUE(pages.room_for(0, 3));
  const HostPageId sliding = pages.add(PagePoolKind::kSliding, 0);
  EXPECT_EQ(pages.bytes(sliding).size(), 300u);
  pages.release(sliding);
}

TEST(HostPages, OneCopyOfAVersion) {
  HostPages pages(1000, 100, 100);
  const HostPageId first = pages.add(PagePoolKind::kFull, 7);
  std::memset(pages.bytes(first).data(), 42, 100);
  ASSERT_TRUE(pages.contains(7));
  const HostPageId second = pages.share(7);
  EXPECT_EQ(first, second);
  EXPECT_EQ(pages.bytes_used(), 100);
  pages.release(first);
  EXPECT_EQ(static_cast<int>(pages.bytes(second)[99]), 42);
  pages.release(second);
  EXPECT_FALSE(pages.contains(7));
  EXPECT_EQ(pages.bytes_used(), 0);
}

}  // namespace
}  // namespace boreas
