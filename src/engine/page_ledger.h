// PageLedger: both page pools, the page tables of sequences and the prefix cache. The engine core calls it; one thread.
//
//   page index     0    1    2    3    4    5          a sequence about to compute positions start..end-1
//   full         [ a ][ b ][ c ][ d ][ e ][ f ]        every page up to end - 1
//   sliding                      [ x ][ y ][ z ]       from the page of start - window + 1, the oldest key in sight
//                          sliding_first = 3           pages before it went back to the pool, or stay with the cache
//   path         [ n0 ][ n1 ][ n2 ][ n3 ]              cache nodes of its text, as far as it has been published
//
// Always: who holds a page of a cache node in its tables pins that node in its path. A page that only the cache holds
// counts as available: it is evicted when a sequence needs it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/page_pool.h"
#include "engine/prefix_cache.h"
#include "exec/executor.h"

namespace boreas {

constexpr int32_t page_of(int32_t position) { return position / kPagePositions; }
constexpr int32_t pages_for(int32_t positions) {
  return positions / kPagePositions + (positions % kPagePositions != 0);
}

// The page tables of one sequence, both indexed by page index. Entries of `sliding` before sliding_first are stale.
struct SequencePages {
  std::vector<PageId> full;
  std::vector<PageId> sliding;
  int32_t sliding_first = 0;

  NodeId root = kNoNode;     // of its cache salt; pinned where it is set
  std::vector<NodeId> path;  // pinned
  int32_t verified = 0;      // entries of path whose pages are good as far as this sequence knows
  uint64_t writer = 0;       // marks its pending pages; unique to the sequence
  int32_t exact_end = std::numeric_limits<int32_t>::max();  // its own pages before this one are exact (OfferedPages)
  // Sliding pages that are worth keeping when they leave the window, because another text may go on from there: the
  // first `adopted` (this one did) and those in the ranges. Others are evicted first.
  struct PageRange {
    int32_t first = 0;
    int32_t end = 0;
  };
  int32_t adopted = 0;
  std::array<PageRange, 2> keep;

  bool empty() const { return full.empty() && sliding.empty(); }
  int32_t sliding_live() const { return static_cast<int32_t>(sliding.size()) - sliding_first; }
};

class PageLedger {
 public:
  // Most positions of a chunk that must always be possible: the engine never cuts a prompt into ranges of one token, so
  // it may have to take three at once.
  static constexpr int32_t kChunkPositionsMin = 3;

  // window: visible keys of sliding layers, 0 = there are none (pages_sliding is then not used).
  PageLedger(int32_t pages_full, int32_t pages_sliding, int32_t window, uint64_t hash_seed = 0);
  PageLedger(const PageLedger&) = delete;
  PageLedger& operator=(const PageLedger&) = delete;

  // Sliding pages that a sequence of any length needs to compute chunk_positions at once.
  static int32_t sliding_pages_max(int32_t window, int32_t chunk_positions);

  // Gives back sliding pages that no query from `start` on sees.
  void leave_window(SequencePages& pages, int32_t start);
  // leave_window(), then extends the tables to cover positions up to end - 1. False: too few pages are available;
  // nothing was acquired.
  bool cover(SequencePages& pages, int32_t start, int32_t end);
  // The largest end <= wanted that cover() can reach now, after leave_window().
  int32_t reachable_end(const SequencePages& pages, int32_t wanted) const;
  // `to` (empty) becomes a second owner of all that `from` holds of positions before `end` (a multiple of the page
  // size, not past what `from` covers) that a query at `end` sees.
  void share(const SequencePages& from, SequencePages& to, int32_t end);
  void release(SequencePages& pages);

  // Prefix cache. Of the nodes of a text's first pages so many can be adopted: a query after them must find every
  // sliding page in its window.
  int32_t adoptable(std::span<const NodeId> nodes) const;
  // `pages` (tables empty, root set) takes the pages of all nodes.
  void adopt(SequencePages& pages, std::span<const NodeId> nodes);
  // Appends the node of the next page to the path. The full table covers it.
  void publish(SequencePages& pages, const PageText& text);
  // Logits computed from the next page of the path that is not verified were finite.
  void verify(SequencePages& pages);
  // One page for a sequence that is being restored.
  PageId acquire(PagePoolKind kind);

  // Pages missing until a sequence with `positions` positions can run, working in small chunks.
  int32_t full_missing(const SequencePages& pages, int32_t positions) const;
  int32_t sliding_missing(const SequencePages& pages, int32_t positions) const;

  int32_t available(PagePoolKind kind) const { return pool(kind).pages_free() + cache_.idle(kind); }
  int32_t first_visible_page(int32_t position) const;
  bool has_window() const { return window_ > 0; }
  const PagePool& pool(PagePoolKind kind) const { return kind == PagePoolKind::kFull ? full_ : sliding_; }
  PrefixCache& cache() { return cache_; }
  const PrefixCache& cache() const { return cache_; }

 private:
  OfferedPages offered(const SequencePages& pages, int32_t index) const;
  void give_back_full(SequencePages& pages, int32_t index);
  void give_back_sliding(SequencePages& pages, int32_t index, bool passing);

  PagePool full_;
  PagePool sliding_;
  int32_t window_ = 0;
  PrefixCache cache_;
};

}  // namespace boreas
