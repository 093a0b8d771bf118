// Preemption by swap: the pages of a sequence go to host memory and come back. A page that the prefix cache still has
// when the sequence returns is taken from there.
#include <algorithm>

#include "base/check.h"
#include "engine/core.h"
#include "engine/planted_bug.h"

namespace boreas {
namespace {

// The version of the node's page if `page` is that one and good, else 0.
uint64_t version_of(const PageLedger& ledger, const SequencePages& pages, size_t index, PagePoolKind kind,
                    PageId page) {
  if (index >= pages.path.size()) return 0;
  const PrefixCache::CachedPage& cached = ledger.cache().node(pages.path[index]).at(kind);
  return cached.verified() && cached.page == page ? cached.version : 0;
}

}  // namespace

// Saves all pages of a sequence that is about to be preempted. False: there is nothing to save, no room for it, or the
// executor failed.
bool EngineCore::swap_out(Sequence& sequence) {
  SequencePages& pages = sequence.pages;
  ledger_.leave_window(pages, sequence.range_start());
  auto swapped = std::make_unique<SwappedPages>();
  const auto count = static_cast<size_t>(pages_for(sequence.computed));
  if (count == 0) return false;
  swapped->sliding_first = pages.sliding_first;
  int64_t missing[2] = {0, 0};  // by PagePoolKind
  const auto describe = [&](PagePoolKind kind, size_t index, PageId page, std::vector<SwappedPages::Page>& list) {
    const uint64_t version = version_of(ledger_, pages, index, kind, page);
    list.push_back({kNoHostPage, version});
    missing[static_cast<size_t>(kind)] += version == 0 || !host_pages_.contains(version);
  };
  for (size_t i = 0; i < count; ++i) describe(PagePoolKind::kFull, i, pages.full[i], swapped->full);
  for (auto i = static_cast<size_t>(pages.sliding_first); ledger_.has_window() && i < count; ++i) {
    describe(PagePoolKind::kSliding, i, pages.sliding[i], swapped->sliding);
  }
  if (!host_pages_.room_for(missing[0], missing[1])) return false;
  for (const NodeId node : pages.path) swapped->path.push_back({node, ledger_.cache().node(node).serial});

  SwappedPages& saved = *swapped;
  sequence.swapped = std::move(swapped);
  for (size_t i = 0; i < saved.full.size(); ++i) {
    if (!save_page(PagePoolKind::kFull, pages.full[i], saved.full[i])) return false;
  }
  for (size_t i = 0; i < saved.sliding.size(); ++i) {
    const PageId page = pages.sliding[static_cast<size_t>(saved.sliding_first) + i];
    if (!save_page(PagePoolKind::kSliding, page, saved.sliding[i])) return false;
  }
  return true;
}

// False: the executor failed, and with it all requests.
bool EngineCore::save_page(PagePoolKind kind, PageId page, SwappedPages::Page& saved) {
  if (saved.version != 0 && host_pages_.contains(saved.version)) {
    saved.host = host_pages_.share(saved.version);
    return true;
  }
  saved.host = host_pages_.add(kind, saved.version);
  const std::span<std::byte> bytes = host_pages_.bytes(saved.host);
  if (bytes.empty()) return true;  // the model has no layers of this kind
  ++counters_.swapped_out_pages;
  const Status status = executor_.save_page(kind, page, bytes);
  if (!status.ok()) fault(status.error().message);
  return status.ok();
}

// Of a swapped sequence's pages, those that other sequences keep in the cache.
int32_t EngineCore::swapped_pages_in_use(const Sequence& sequence) const {
  const SwappedPages& swapped = *sequence.swapped;
  const PagePool& pool = ledger_.pool(PagePoolKind::kFull);
  int32_t count = 0;
  for (size_t i = 0; i < std::min(swapped.path.size(), swapped.full.size()); ++i) {
    if (!ledger_.cache().alive(swapped.path[i].node, swapped.path[i].serial)) break;
    const PrefixCache::CachedPage& cached = ledger_.cache().node(swapped.path[i].node).at(PagePoolKind::kFull);
    const bool there = cached.page != kNoPage && cached.version == swapped.full[i].version;
    count += there && pool.references(cached.page) > 1;
  }
  return count;
}

// The pages that the sequence had, or others with the same content. The caller has made sure that there are enough.
void EngineCore::swap_in(Sequence& sequence) {
  const std::unique_ptr<SwappedPages>& swapped = sequence.swapped;
  SequencePages& pages = sequence.pages;
  PrefixCache& cache = ledger_.cache();
  open_path(sequence);
  for (const SwappedPages::PathNode& entry : swapped->path) {
    if (!cache.alive(entry.node, entry.serial)) break;
    cache.pin(entry.node);
    pages.path.push_back(entry.node);
  }
  const size_t count = swapped->full.size();
  const auto first = static_cast<size_t>(swapped->sliding_first);
  std::vector<bool> full_missing(count, true), sliding_missing(swapped->sliding.size(), true);
  const auto take = [&](PagePoolKind kind, size_t index, const SwappedPages::Page& wanted) {
    if (wanted.version == 0 || index >= pages.path.size()) return kNoPage;
    const PrefixCache::CachedPage& cached = cache.node(pages.path[index]).at(kind);
    return cached.version == wanted.version ? cache.take(pages.path[index], kind) : kNoPage;
  };
  // First what is there, so that it is not evicted for the rest.
  for (size_t i = 0; i < count; ++i) pages.full.push_back(take(PagePoolKind::kFull, i, swapped->full[i]));
  if (ledger_.has_window()) pages.sliding.assign(count, kNoPage);
  pages.sliding_first = swapped->sliding_first;
  for (size_t i = 0; i < swapped->sliding.size(); ++i) {
    pages.sliding[first + i] = take(PagePoolKind::kSliding, first + i, swapped->sliding[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    full_missing[i] = pages.full[i] == kNoPage;
    if (full_missing[i]) pages.full[i] = ledger_.acquire(PagePoolKind::kFull);
  }
  for (size_t i = 0; i < swapped->sliding.size(); ++i) {
    sliding_missing[i] = pages.sliding[first + i] == kNoPage;
    if (sliding_missing[i]) pages.sliding[first + i] = ledger_.acquire(PagePoolKind::kSliding);
  }
  if (!restore_pages(sequence, *swapped, full_missing, sliding_missing)) return;
  drop_swapped(sequence);
  publish_pages(sequence, sequence.computed);
}

bool EngineCore::restore_pages(Sequence& sequence, const SwappedPages& swapped, const std::vector<bool>& full_missing,
                               const std::vector<bool>& sliding_missing) {
  const auto restore = [&](PagePoolKind kind, PageId page, HostPageId host) {
    const std::span<const std::byte> bytes = host_pages_.bytes(host);
    if (bytes.empty()) return true;
    ++counters_.swapped_in_pages;
    const Status status = executor_.restore_page(kind, page, bytes);
    if (!status.ok()) fault(status.error().message);
    return status.ok();
  };
  const SequencePages& pages = sequence.pages;
  for (size_t i = 0; i < full_missing.size(); ++i) {
    const size_t source = planted(PlantedBug::kSwappedPage) && i < 2 && full_missing.size() > 1 ? 1 - i : i;
    if (full_missing[i] && !restore(PagePoolKind::kFull, pages.full[i], swapped.full[source].host)) return false;
  }
  for (size_t i = 0; i < sliding_missing.size(); ++i) {
    const size_t index = static_cast<size_t>(swapped.sliding_first) + i;
    const HostPageId host = planted(PlantedBug::kSwappedLayer) ? swapped.full[index].host : swapped.sliding[i].host;
    if (sliding_missing[i] && !restore(PagePoolKind::kSliding, pages.sliding[index], host)) return false;
  }
  return true;
}

void EngineCore::drop_swapped(Sequence& sequence) {
  if (sequence.swapped == nullptr) return;
  const std::unique_ptr<SwappedPages> dropped = std::move(sequence.swapped);
  for (const auto* list : {&dropped->full, &dropped->sliding}) {
    for (const SwappedPages::Page& page : *list) {
      if (page.host != kNoHostPage) host_pages_.release(page.host);
    }
  }
}

}  // namespace boreas
