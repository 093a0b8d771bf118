#include "exec/cuda/prefill/batch.h"

#include <algorithm>

#include "base/check.h"
#include "program/layout.h"

namespace boreas::cuda {
namespace {

int32_t pages_of(int32_t positions) { return static_cast<int32_t>(ceil_div(positions, kPagePositions)); }

// Pages `first` and on of a sequence of `end` positions get the next places; returns that of page 0, had it one.
// page_table: index of page 0's entry.
int32_t unfold(int32_t page_table, int32_t first, int32_t end, std::vector<UnfoldedPage>& list) {
  const int32_t place = static_cast<int32_t>(list.size()) - first;
  for (int32_t page = first; page < pages_of(end); ++page)
    list.push_back({page_table + page, place + page, std::min(kPagePositions, end - page * kPagePositions)});
  return place;
}

}  // namespace

int32_t prefill_tokens_of(const StepRow& row) {
  const int32_t count = static_cast<int32_t>(row.tokens.size());
  const auto was_wanted = [&row](LogitsWanted what) { return row.logits == what || row.replays == what; };
  if (count < 2 || was_wanted(LogitsWanted::kAll)) return 0;
  return was_wanted(LogitsWanted::kLast) ? count - 1 : count;
}

std::vector<PrefillBatch> cut_into_batches(std::span<const PrefillRange> ranges, int32_t tokens_max,
                                           int32_t pages_max) {
  CHECK(tokens_max > 0);
  std::vector<PrefillBatch> batches;
  for (const PrefillRange& range : ranges) {
    const int32_t count = static_cast<int32_t>(range.tokens.size());
    for (int32_t first = 0; first < count;) {
      if (batches.empty() || batches.back().tokens == tokens_max) batches.emplace_back();
      int32_t taken = std::min(count - first, tokens_max - batches.back().tokens);
      if (batches.back().pages + pages_of(range.position + first + taken) > pages_max && batches.back().tokens > 0) {
        batches.emplace_back();
        taken = std::min(count - first, tokens_max);
      }
      PrefillBatch& batch = batches.back();
      batch.ranges.push_back({range.tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(taken)),
                              range.position + first, range.pages});
      batch.tokens += taken;
      batch.pages += pages_of(range.position + first + taken);
      CHECK(batch.pages <= pages_max);
      first += taken;
    }
  }
  return batches;
}

PrefillTables make_prefill_tables(const PrefillBatch& batch, int32_t tokens_per_item, int32_t window) {
  PrefillTables tables;
  tables.tokens.reserve(static_cast<size_t>(batch.tokens));
  for (const PrefillRange& range : batch.ranges) {
    const int32_t end = range.position + static_cast<int32_t>(range.tokens.size());
    const int32_t sliding_first = first_visible(range.position, true, window) / kPagePositions;
    const int32_t full = unfold(range.pages.full, 0, end, tables.full);
    const int32_t sliding = unfold(range.pages.sliding - range.pages.sliding_first, sliding_first, end, tables.sliding);
    for (int32_t first = range.position; first < end; first += tokens_per_item) {
      const int32_t token_first = static_cast<int32_t>(tables.tokens.size()) + first - range.position;
      tables.items.push_back({token_first, std::min(tokens_per_item, end - first), first, full, sliding});
    }
    for (int32_t position = range.position; position < end; ++position) {
      const int32_t page = position / kPagePositions;
      tables.tokens.push_back({range.tokens[static_cast<size_t>(position - range.position)], position,
                               range.pages.full + page, range.pages.sliding + page - range.pages.sliding_first});
    }
  }
  // Blocks start in this order; the longest ones first leave the smallest gap at the end.
  std::stable_sort(tables.items.begin(), tables.items.end(),
                   [](const AttentionItem& a, const AttentionItem& b) { return a.position > b.position; });
  return tables;
}

}  // namespace boreas::cuda
