// PageLedger: both page pools and the page tables of sequences. The engine core calls it; one thread.
//
//   page index     0    1    2    3    4    5          a sequence about to compute positions start..end-1
//   full         [ a ][ b ][ c ][ d ][ e ][ f ]        every page up to end - 1
//   sliding                      [ x ][ y ][ z ]       from the page of start - window + 1, the oldest key in sight
//                          sliding_first = 3           pages before it went back to the pool
#pragma once

#include <cstdint>
#include <vector>

#include "engine/page_pool.h"
#include "exec/executor.h"

namespace boreas {

constexpr int32_t page_of(int32_t position) { return position / kPagePositions; }
constexpr int32_t pages_for(int32_t positions) { return (positions + kPagePositions - 1) / kPagePositions; }

// The page tables of one sequence, both indexed by page index. Entries of `sliding` before sliding_first are stale.
struct SequencePages {
  std::vector<PageId> full;
  std::vector<PageId> sliding;
  int32_t sliding_first = 0;

  bool empty() const { return full.empty() && sliding.empty(); }
  int32_t sliding_live() const { return static_cast<int32_t>(sliding.size()) - sliding_first; }
};

class PageLedger {
 public:
  // Most positions of a chunk that must always be possible: the engine never cuts a prompt into ranges of one token, so
  // it may have to take three at once.
  static constexpr int32_t kChunkPositionsMin = 3;

  // window: visible keys of sliding layers, 0 = there are none (pages_sliding is then not used).
  PageLedger(int32_t pages_full, int32_t pages_sliding, int32_t window);

  // Sliding pages that a sequence of any length needs to compute chunk_positions at once.
  static int32_t sliding_pages_max(int32_t window, int32_t chunk_positions);

  // Returns sliding pages that no query from `start` on sees.
  void leave_window(SequencePages& pages, int32_t start);
  // leave_window(), then extends the tables to cover positions up to end - 1. False: too few pages are free; nothing
  // was acquired.
  bool cover(SequencePages& pages, int32_t start, int32_t end);
  // The largest end <= wanted that cover() can reach now.
  int32_t reachable_end(const SequencePages& pages, int32_t start, int32_t wanted) const;
  // `to` (empty) becomes a second owner of all that `from` holds of positions before `end` (a multiple of the page
  // size, not past what `from` covers) that a query at `end` sees.
  void share(const SequencePages& from, SequencePages& to, int32_t end);
  void release(SequencePages& pages);

  // Pages missing until a sequence with `positions` positions can run, working in small chunks.
  int32_t full_missing(const SequencePages& pages, int32_t positions) const;
  int32_t sliding_missing(const SequencePages& pages, int32_t positions) const;

  const PagePool& pool(PagePoolKind kind) const { return kind == PagePoolKind::kFull ? full_ : sliding_; }

 private:
  int32_t first_visible_page(int32_t position) const;

  PagePool full_;
  PagePool sliding_;
  int32_t window_ = 0;
};

}  // namespace boreas
