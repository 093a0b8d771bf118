#include "engine/page_ledger.h"

#include <algorithm>

#include "base/check.h"

namespace boreas {

PageLedger::PageLedger(int32_t pages_full, int32_t pages_sliding, int32_t window)
    : full_(pages_full), sliding_(window > 0 ? pages_sliding : 0), window_(window) {
  CHECK(pages_full > 0);
  CHECK(window == 0 || pages_sliding > 0);
}

int32_t PageLedger::sliding_pages_max(int32_t window, int32_t chunk_positions) {
  // The keys in sight of a chunk are window - 1 + chunk positions; n positions touch at most (n - 2) / 64 + 2 pages.
  const int32_t positions = window - 1 + chunk_positions;
  return std::max(positions - 2, 0) / kPagePositions + 2;
}

int32_t PageLedger::first_visible_page(int32_t position) const { return page_of(std::max(0, position - window_ + 1)); }

void PageLedger::leave_window(SequencePages& pages, int32_t start) {
  if (window_ == 0) return;
  const int32_t first = std::min(first_visible_page(start), static_cast<int32_t>(pages.sliding.size()));
  for (; pages.sliding_first < first; ++pages.sliding_first) {
    sliding_.release(pages.sliding[static_cast<size_t>(pages.sliding_first)]);
  }
}

bool PageLedger::cover(SequencePages& pages, int32_t start, int32_t end) {
  CHECK(start >= 0 && start < end);
  const int32_t wanted = pages_for(end);
  leave_window(pages, start);
  if (wanted - static_cast<int32_t>(pages.full.size()) > full_.pages_free()) return false;
  if (window_ > 0 && wanted - static_cast<int32_t>(pages.sliding.size()) > sliding_.pages_free()) return false;
  while (static_cast<int32_t>(pages.full.size()) < wanted) pages.full.push_back(*full_.acquire());
  while (window_ > 0 && static_cast<int32_t>(pages.sliding.size()) < wanted) {
    pages.sliding.push_back(*sliding_.acquire());
  }
  return true;
}

int32_t PageLedger::reachable_end(const SequencePages& pages, int32_t start, int32_t wanted) const {
  int32_t reachable = static_cast<int32_t>(pages.full.size()) + full_.pages_free();
  if (window_ > 0) {
    // Pages that only this sequence holds and that cover() will return first.
    int32_t returned = 0;
    const int32_t first = std::min(first_visible_page(start), static_cast<int32_t>(pages.sliding.size()));
    for (int32_t i = pages.sliding_first; i < first; ++i) {
      returned += sliding_.references(pages.sliding[static_cast<size_t>(i)]) == 1;
    }
    reachable = std::min(reachable, static_cast<int32_t>(pages.sliding.size()) + returned + sliding_.pages_free());
  }
  return pages_for(wanted) <= reachable ? wanted : reachable * kPagePositions;
}

void PageLedger::share(const SequencePages& from, SequencePages& to, int32_t end) {
  CHECK(to.empty() && end % kPagePositions == 0);
  const auto count = static_cast<size_t>(page_of(end));
  CHECK(from.full.size() >= count);
  to.full.assign(from.full.begin(), from.full.begin() + static_cast<int64_t>(count));
  for (const PageId page : to.full) full_.share(page);
  if (window_ == 0) return;
  CHECK(from.sliding.size() >= count && from.sliding_first <= first_visible_page(end));
  to.sliding.assign(from.sliding.begin(), from.sliding.begin() + static_cast<int64_t>(count));
  to.sliding_first = std::min(first_visible_page(end), static_cast<int32_t>(count));
  for (size_t i = static_cast<size_t>(to.sliding_first); i < count; ++i) sliding_.share(to.sliding[i]);
}

void PageLedger::release(SequencePages& pages) {
  for (const PageId page : pages.full) full_.release(page);
  for (size_t i = static_cast<size_t>(pages.sliding_first); i < pages.sliding.size(); ++i) {
    sliding_.release(pages.sliding[i]);
  }
  pages.full.clear();
  pages.sliding.clear();
  pages.sliding_first = 0;
}

int32_t PageLedger::full_missing(const SequencePages& pages, int32_t positions) const {
  return std::max(0, pages_for(positions) - static_cast<int32_t>(pages.full.size()));
}

int32_t PageLedger::sliding_missing(const SequencePages& pages, int32_t positions) const {
  if (window_ == 0) return 0;
  const int32_t left = std::max(0, pages_for(positions) - static_cast<int32_t>(pages.sliding.size()));
  const int32_t working = sliding_pages_max(window_, kPagePositions);
  return std::min(left, std::max(0, working - pages.sliding_live()));
}

}  // namespace boreas
