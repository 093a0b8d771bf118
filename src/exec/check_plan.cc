// What executors demand of a plan; see executor.h.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "exec/executor.h"

namespace boreas {
namespace {

int64_t tokens_of(const StepRow& row) { return std::max<int64_t>(1, static_cast<int64_t>(row.tokens.size())); }

void check_pages(const StepRow& row, const ExecutorInfo& info) {
  const int64_t end = int64_t{row.position} + tokens_of(row);
  CHECK(row.position >= 0 && end <= info.context_max);
  const int64_t page_last = (end - 1) / kPagePositions;
  if (info.page_bytes_full > 0) {
    CHECK(static_cast<int64_t>(row.full_pages.size()) > page_last);
    for (PageId page : row.full_pages) CHECK(page.value >= 0 && page.value < info.pages_full);
  }
  if (info.page_bytes_sliding > 0) {
    const int64_t first_visible = std::max<int64_t>(0, int64_t{row.position} - info.window + 1);
    CHECK(row.sliding_first >= 0);
    CHECK(row.sliding_first <= first_visible / kPagePositions);
    CHECK(row.sliding_first + static_cast<int64_t>(row.sliding_pages.size()) > page_last);
    for (PageId page : row.sliding_pages) CHECK(page.value >= 0 && page.value < info.pages_sliding);
  }
}

}  // namespace

void check_plan(const StepPlan& plan, const ExecutorInfo& info,
                const std::function<SlotState(int32_t slot)>& state_of) {
  CHECK(!plan.rows.empty() && plan.rows.size() <= static_cast<size_t>(info.rows_max));
  std::vector<bool> used(static_cast<size_t>(info.sequence_slots));
  int64_t tokens = 0;
  for (const StepRow& row : plan.rows) {
    CHECK(row.slot >= 0 && row.slot < info.sequence_slots);
    const size_t slot = static_cast<size_t>(row.slot);
    const SlotState state = state_of(row.slot);
    CHECK(state.open);
    CHECK(!used[slot]);
    used[slot] = true;
    CHECK(!row.tokens.empty() || state.has_token);
    for (TokenId token : row.tokens) CHECK(token >= 0 && token < info.vocab_size);
    CHECK(row.forced_token >= -1 && row.forced_token < info.vocab_size);
    if (row.mask != nullptr) CHECK(static_cast<int64_t>(row.mask->bits.size()) * 32 >= info.vocab_size);
    check_pages(row, info);
    tokens += tokens_of(row);
  }
  CHECK(tokens <= info.tokens_max);
}

}  // namespace boreas
