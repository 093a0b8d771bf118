#include "exec/cuda/prefill/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/prng.h"
#include "program/layout.h"

namespace boreas::cuda {
namespace {

StepRow row_of(std::span<const TokenId> tokens, LogitsWanted logits) {
  StepRow row;
  row.tokens = tokens;
  row.logits = logits;
  return row;
}

TEST(PrefillBatch, TheLastTokenOfAPromptIsLeftToDecode) {
  const std::vector<TokenId> tokens(100, 3);
  EXPECT_EQ(prefill_tokens_of(row_of(tokens, LogitsWanted::kNone)), 100);
  EXPECT_EQ(prefill_tokens_of(row_of(tokens, LogitsWanted::kLast)), 99);
  EXPECT_EQ(prefill_tokens_of(row_of(tokens, LogitsWanted::kAll)), 0);
  EXPECT_EQ(prefill_tokens_of(row_of(std::span(tokens).first(2), LogitsWanted::kLast)), 1);
  for (LogitsWanted logits : {LogitsWanted::kNone, LogitsWanted::kLast, LogitsWanted::kAll}) {
    EXPECT_EQ(prefill_tokens_of(row_of(std::span(tokens).first(1), logits)), 0);
    EXPECT_EQ(prefill_tokens_of(row_of({}, logits)), 0);
  }
  StepRow again = row_of(tokens, LogitsWanted::kNone);
  again.replays = LogitsWanted::kLast;
  EXPECT_EQ(prefill_tokens_of(again), 99);
  again.replays = LogitsWanted::kAll;
  EXPECT_EQ(prefill_tokens_of(again), 0);
}

// The page of a position, as the list unfolds it at item.unfolded_* + page, is the one of the sequence's table.
void expect_unfolded(const std::vector<UnfoldedPage>& list, int32_t place, int32_t page_table, int32_t end) {
  ASSERT_TRUE(place >= 0 && place < static_cast<int32_t>(list.size()));
  const UnfoldedPage& page = list[static_cast<size_t>(place)];
  ASSERT_EQ(page.place, place);
  ASSERT_EQ(page.page_table, page_table);
  ASSERT_EQ(page.positions, end);
}

struct RandomRanges {
  explicit RandomRanges(Prng& prng) : ids(600) {
    std::iota(ids.begin(), ids.end(), 0);
    for (size_t first = 0; first < ids.size();) {
      const size_t count = std::min<size_t>(1 + prng.below(200), ids.size() - first);
      const int32_t base = static_cast<int32_t>(ranges.size()) * 1000, position = static_cast<int32_t>(prng.below(500));
      const int32_t sliding_first = first_visible(position, true, kWindow) / 64;
      ranges.push_back({std::span(ids).subspan(first, count), position, {base, base + 500, sliding_first}});
      first += count;
    }
  }
  static constexpr int32_t kWindow = 150;
  std::vector<TokenId> ids;
  std::vector<PrefillRange> ranges;
};

void expect_item(const PrefillTables& tables, const AttentionItem& item, const PrefillBatch& batch) {
  // The range that the item is of; batches hold few.
  const auto range = std::find_if(batch.ranges.begin(), batch.ranges.end(), [&](const PrefillRange& one) {
    const TokenId id = tables.tokens[static_cast<size_t>(item.token_first)].token;
    return one.tokens.front() <= id && id <= one.tokens.back();
  });
  ASSERT_NE(range, batch.ranges.end());
  const int32_t end = range->position + static_cast<int32_t>(range->tokens.size());
  const int32_t last = item.position + item.token_count - 1;
  for (int32_t page = 0; page <= last / 64; ++page) {
    const int32_t positions = std::min(64, end - page * 64);
    expect_unfolded(tables.full, item.unfolded_full + page, range->pages.full + page, positions);
    if (page < first_visible(item.position, true, RandomRanges::kWindow) / 64) continue;
    const int32_t table = range->pages.sliding + page - range->pages.sliding_first;
    expect_unfolded(tables.sliding, item.unfolded_sliding + page, table, positions);
  }
}

// Of random ranges: cut into batches, and again into items, every token is there once, in order, at its position, with
// the pages of its own sequence; and every item finds the pages it sees.
TEST(PrefillBatch, CutsKeepEveryToken) {
  constexpr uint64_t kSeed = 23;
  Prng prng(kSeed);
  for (int32_t round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const RandomRanges random(prng);
    const int32_t tokens_max = 1 + static_cast<int32_t>(prng.below(300));
    const int32_t pages_max = 11 + static_cast<int32_t>(prng.below(30));  // a sequence has at most 11
    const int32_t tokens_per_item = 1 + static_cast<int32_t>(prng.below(40));
    TokenId next = 0;
    size_t range = 0;
    for (const PrefillBatch& batch : cut_into_batches(random.ranges, tokens_max, pages_max)) {
      EXPECT_TRUE(batch.tokens > 0 && batch.tokens <= tokens_max);
      const PrefillTables tables = make_prefill_tables(batch, tokens_per_item, RandomRanges::kWindow);
      ASSERT_EQ(static_cast<int32_t>(tables.tokens.size()), batch.tokens);
      ASSERT_EQ(static_cast<int32_t>(tables.full.size()), batch.pages);
      ASSERT_TRUE(batch.pages <= pages_max && tables.sliding.size() <= tables.full.size());
      for (const PrefillToken& token : tables.tokens) {
        ASSERT_EQ(token.token, next);
        while (random.ranges[range].tokens.back() < next) ++range;
        const PrefillRange& source = random.ranges[range];
        ASSERT_EQ(token.position, source.position + next - source.tokens[0]);
        ASSERT_EQ(token.page_full, source.pages.full + token.position / 64);
        ASSERT_EQ(token.page_sliding, source.pages.sliding + token.position / 64 - source.pages.sliding_first);
        ++next;
      }
      std::vector<int32_t> seen(tables.tokens.size());
      for (const AttentionItem& item : tables.items) {
        ASSERT_TRUE(item.token_count >= 1 && item.token_count <= tokens_per_item);
        for (int32_t k = 0; k < item.token_count; ++k) {
          ++seen[static_cast<size_t>(item.token_first + k)];
          ASSERT_EQ(tables.tokens[static_cast<size_t>(item.token_first + k)].position, item.position + k);
        }
        expect_item(tables, item, batch);
      }
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int32_t count) { return count == 1; }));
      EXPECT_TRUE(std::is_sorted(tables.items.begin(), tables.items.end(),
                                 [](const auto& a, const auto& b) { return a.position > b.position; }));
    }
    EXPECT_EQ(next, static_cast<TokenId>(random.ids.size()));
  }
}

}  // namespace
}  // namespace boreas::cuda
