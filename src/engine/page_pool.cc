#include "engine/page_pool.h"

#include "base/check.h"

namespace boreas {

PagePool::PagePool(int32_t pages) : references_(static_cast<size_t>(pages)) {
  free_.reserve(references_.size());
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(PageId(page));
}

size_t PagePool::index(PageId page) const {
  CHECK(page.value >= 0 && page.value < pages());
  return static_cast<size_t>(page.value);
}

std::optional<PageId> PagePool::acquire() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  CHECK(references_[index(page)] == 0);
  references_[index(page)] = 1;
  return page;
}

void PagePool::share(PageId page) {
  CHECK(references_[index(page)] > 0);
  ++references_[index(page)];
}

void PagePool::release(PageId page) {
  CHECK(references_[index(page)] > 0);
  if (--references_[index(page)] == 0) free_.push_back(page);
}

}  // namespace boreas
