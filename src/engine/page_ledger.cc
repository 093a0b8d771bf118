#include "engine/page_ledger.h"

#include <algorithm>

#include "base/check.h"
#include "engine/planted_bug.h"

namespace boreas {

PageLedger::PageLedger(int32_t pages_full, int32_t pages_sliding, int32_t window, uint64_t hash_seed)
    : full_(pages_full), sliding_(window > 0 ? pages_sliding : 0), window_(window), cache_(full_, sliding_, hash_seed) {
  CHECK(pages_full > 0);
  CHECK(window == 0 || pages_sliding > 0);
}

int32_t PageLedger::sliding_pages_max(int32_t window, int32_t chunk_positions) {
  // The keys in sight of a chunk are window - 1 + chunk positions; n positions touch at most (n - 2) / 64 + 2 pages.
  const int64_t positions = int64_t{window} - 1 + chunk_positions;
  return static_cast<int32_t>(std::max<int64_t>(positions - 2, 0) / kPagePositions + 2);
}

int32_t PageLedger::first_visible_page(int32_t position) const { return page_of(std::max(0, position - window_ + 1)); }

PageId PageLedger::acquire(PagePoolKind kind) {
  PagePool& pool = kind == PagePoolKind::kFull ? full_ : sliding_;
  if (pool.pages_free() == 0) cache_.evict(kind);
  return *pool.acquire();
}

void PageLedger::give_back_full(SequencePages& pages, int32_t index) {
  const auto i = static_cast<size_t>(index);
  if (i < pages.path.size()) {
    cache_.give_back(pages.path[i], PagePoolKind::kFull, pages.full[i], false);
  } else {
    full_.release(pages.full[i]);
  }
}

void PageLedger::give_back_sliding(SequencePages& pages, int32_t index, bool passing) {
  const auto i = static_cast<size_t>(index);
  if (i < pages.path.size()) {
    cache_.give_back(pages.path[i], PagePoolKind::kSliding, pages.sliding[i], passing);
  } else {
    sliding_.release(pages.sliding[i]);
  }
}

void PageLedger::leave_window(SequencePages& pages, int32_t start) {
  if (window_ == 0) return;
  if (planted(PlantedBug::kWindowPageEarly)) start += kPagePositions / 2;
  const int32_t first = std::min(first_visible_page(start), static_cast<int32_t>(pages.sliding.size()));
  for (; pages.sliding_first < first; ++pages.sliding_first) {
    const int32_t index = pages.sliding_first;
    bool keep = index < pages.adopted;
    for (const auto& range : pages.keep) keep = keep || (index >= range.first && index < range.end);
    give_back_sliding(pages, index, !keep);
  }
}

bool PageLedger::cover(SequencePages& pages, int32_t start, int32_t end) {
  CHECK(start >= 0 && start < end);
  const int32_t wanted = pages_for(end);
  leave_window(pages, start);
  if (reachable_end(pages, end) < end) return false;
  while (static_cast<int32_t>(pages.full.size()) < wanted) pages.full.push_back(acquire(PagePoolKind::kFull));
  while (window_ > 0 && static_cast<int32_t>(pages.sliding.size()) < wanted) {
    pages.sliding.push_back(acquire(PagePoolKind::kSliding));
  }
  return true;
}

int32_t PageLedger::reachable_end(const SequencePages& pages, int32_t wanted) const {
  int32_t reachable = static_cast<int32_t>(pages.full.size()) + available(PagePoolKind::kFull);
  if (window_ > 0) {
    reachable = std::min(reachable, static_cast<int32_t>(pages.sliding.size()) + available(PagePoolKind::kSliding));
  }
  return pages_for(wanted) <= reachable ? wanted : reachable * kPagePositions;
}

void PageLedger::share(const SequencePages& from, SequencePages& to, int32_t end) {
  CHECK(to.empty() && to.path.empty() && end % kPagePositions == 0);
  const auto count = static_cast<size_t>(page_of(end));
  CHECK(from.full.size() >= count);
  to.full.assign(from.full.begin(), from.full.begin() + static_cast<int64_t>(count));
  for (const PageId page : to.full) {
    if (planted(PlantedBug::kReferenceCount) && page == to.full.back()) break;
    full_.share(page);
  }
  if (window_ > 0) {
    CHECK(from.sliding.size() >= count && from.sliding_first <= first_visible_page(end));
    to.sliding.assign(from.sliding.begin(), from.sliding.begin() + static_cast<int64_t>(count));
    to.sliding_first = std::min(first_visible_page(end), static_cast<int32_t>(count));
    for (size_t i = static_cast<size_t>(to.sliding_first); i < count; ++i) sliding_.share(to.sliding[i]);
  }
  if (from.root == kNoNode) return;
  CHECK(from.path.size() >= count);
  cache_.pin(to.root = from.root);
  to.path.assign(from.path.begin(), from.path.begin() + static_cast<int64_t>(count));
  for (const NodeId node : to.path) cache_.pin(node);
  to.adopted = static_cast<int32_t>(count);
}

// Last pages first, so that they are the first to be evicted: a text's beginning serves more requests than its end.
void PageLedger::release(SequencePages& pages) {
  // Pages of others that stood for its text may have been evicted; its own take their places.
  for (int32_t i = 0; i < pages.verified; ++i) {
    const NodeId node = pages.path[static_cast<size_t>(i)];
    if (!cache_.node(node).at(PagePoolKind::kFull).verified()) cache_.verify(node, offered(pages, i), pages.writer);
  }
  for (auto i = static_cast<int32_t>(pages.sliding.size()); i-- > pages.sliding_first;) {
    give_back_sliding(pages, i, false);
  }
  for (auto i = static_cast<int32_t>(pages.full.size()); i-- > 0;) give_back_full(pages, i);
  for (auto i = static_cast<int32_t>(pages.path.size()); i-- > 0;) {
    const NodeId node = pages.path[static_cast<size_t>(i)];
    if (i >= pages.verified) cache_.retract(node, pages.writer);
    cache_.unpin(node);
  }
  if (pages.root != kNoNode) cache_.unpin(pages.root);
  const uint64_t writer = pages.writer;
  pages = SequencePages();
  pages.writer = writer;
}

int32_t PageLedger::adoptable(std::span<const NodeId> nodes) const {
  if (window_ == 0) return static_cast<int32_t>(nodes.size());
  int32_t count = 0;
  int32_t run = 0;  // nodes in a row, up to this one, that have a sliding page
  for (int32_t end = 1; end <= static_cast<int32_t>(nodes.size()); ++end) {
    const PrefixCache::Node& node = cache_.node(nodes[static_cast<size_t>(end) - 1]);
    run = node.at(PagePoolKind::kSliding).verified() ? run + 1 : 0;
    if (run >= end - first_visible_page(end * kPagePositions)) count = end;
  }
  return count;
}

void PageLedger::adopt(SequencePages& pages, std::span<const NodeId> nodes) {
  CHECK(pages.empty() && pages.path.empty() && pages.root != kNoNode);
  const auto count = static_cast<int32_t>(nodes.size());
  pages.path.assign(nodes.begin(), nodes.end());
  pages.verified = pages.adopted = count;
  pages.sliding_first = window_ > 0 ? std::min(first_visible_page(count * kPagePositions), count) : 0;
  for (int32_t i = 0; i < count; ++i) {
    const NodeId node = nodes[static_cast<size_t>(i)];
    cache_.pin(node);
    pages.full.push_back(cache_.take(node, PagePoolKind::kFull));
    if (window_ == 0) continue;
    pages.sliding.push_back(i < pages.sliding_first ? kNoPage : cache_.take(node, PagePoolKind::kSliding));
  }
}

OfferedPages PageLedger::offered(const SequencePages& pages, int32_t index) const {
  const auto i = static_cast<size_t>(index);
  OfferedPages result;
  result.full = pages.full[i];
  if (index >= pages.sliding_first && i < pages.sliding.size()) result.sliding = pages.sliding[i];
  result.exact = index < pages.exact_end;
  return result;
}

void PageLedger::publish(SequencePages& pages, const PageText& text) {
  const auto index = static_cast<int32_t>(pages.path.size());
  CHECK(pages.root != kNoNode && index < static_cast<int32_t>(pages.full.size()));
  const NodeId parent = pages.path.empty() ? pages.root : pages.path.back();
  pages.path.push_back(cache_.publish(parent, text, offered(pages, index), pages.writer));
}

void PageLedger::verify(SequencePages& pages) {
  const int32_t index = pages.verified++;
  CHECK(index < static_cast<int32_t>(pages.path.size()));
  cache_.verify(pages.path[static_cast<size_t>(index)], offered(pages, index), pages.writer);
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
