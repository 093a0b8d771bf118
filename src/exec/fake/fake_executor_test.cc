// FakeExecutor by itself: what it generates depends on every page that it reads, and on nothing else.
#include "exec/fake/fake_executor.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace boreas {
namespace {

struct Tables {
  std::vector<PageId> full;
  std::vector<PageId> sliding;
};

std::vector<TokenId> some_prompt(int32_t count) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < count; ++i) prompt.push_back((i * 7 + 3) % 64);
  return prompt;
}

Tables tables_of(int32_t positions, int32_t offset = 0) {
  Tables tables;
  for (int32_t i = 0; i * kPagePositions < positions; ++i) {
    tables.full.push_back(PageId(i * 2 + offset));
    tables.sliding.push_back(PageId(i + offset));
  }
  return tables;
}

StepRow row_of(std::span<const TokenId> tokens, int32_t position, int32_t end, const Tables& tables) {
  StepRow row;
  row.tokens = tokens;
  row.position = position;
  const auto pages = static_cast<size_t>((end - 1) / kPagePositions + 1);
  row.full_pages = std::span(tables.full).first(pages);
  row.sliding_pages = std::span(tables.sliding).first(pages);
  row.logits = LogitsWanted::kLast;
  return row;
}

RowResult run_one(FakeExecutor& executor, const StepRow& row) {
  StepPlan plan;
  plan.rows.push_back(row);
  const auto ticket = executor.submit(plan);
  CHECK(ticket.ok());
  auto result = executor.wait(ticket.value());
  CHECK(result.ok());
  return result.value().rows[0];
}

// Prefills in chunks and decodes; between the two `tamper` may change pages.
std::vector<TokenId> generate(FakeExecutor& executor, std::span<const TokenId> prompt, int32_t chunk, int32_t count,
                              const Tables& tables, const std::function<void()>& tamper = {}) {
  SequenceSpec spec;
  spec.sampling.temperature = 0;
  spec.prompt = prompt;
  executor.open_sequence(0, spec);
  const auto length = static_cast<int32_t>(prompt.size());
  TokenId next = -1;
  for (int32_t begin = 0; begin < length; begin += chunk) {
    const int32_t end = std::min(begin + chunk, length);
    const auto range = prompt.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    StepRow row = row_of(range, begin, end, tables);
    if (end < length) row.logits = LogitsWanted::kNone;
    next = run_one(executor, row).sampled.id;
  }
  if (tamper) tamper();
  std::vector<TokenId> output = {next};
  for (int32_t i = 1; i < count; ++i) {
    const int32_t position = length + i - 1;
    const TokenId input = output.back();
    output.push_back(run_one(executor, row_of({&input, 1}, position, position + 1, tables)).sampled.id);
  }
  executor.close_sequence(0);
  return output;
}

TEST(FakeExecutor, ChunksAndPagesDoNotChangeTheText) {
  const auto prompt = some_prompt(200);
  FakeExecutor one({}), two({});
  const auto text = generate(one, prompt, 200, 80, tables_of(280));
  EXPECT_EQ(generate(two, prompt, 33, 80, tables_of(280, 7)), text);
  EXPECT_EQ(one.wrong_reads() + two.wrong_reads(), 0);
}

TEST(FakeExecutor, EveryVisiblePageCounts) {
  const auto prompt = some_prompt(300);
  const Tables tables = tables_of(330);
  FakeExecutor clean({});
  const auto text = generate(clean, prompt, 300, 20, tables);
  const auto tampered = [&](PagePoolKind pool, PageId page) {
    FakeExecutor executor({});
    const auto tamper = [&] { CHECK(executor.copy_page(pool, PageId(100), page).ok()); };
    return generate(executor, prompt, 300, 20, tables, tamper);
  };
  for (int32_t i = 0; i < 5; ++i) {
    EXPECT_NE(tampered(PagePoolKind::kFull, tables.full[static_cast<size_t>(i)]), text) << i;
    // Window 128: the query at 300 sees 173..300, pages 2, 3 and 4.
    EXPECT_EQ(tampered(PagePoolKind::kSliding, tables.sliding[static_cast<size_t>(i)]) == text, i < 2) << i;
  }
}

TEST(FakeExecutor, StaleContentOfTheSamePositionCounts) {
  const auto prompt = some_prompt(130);
  auto other = prompt;
  other[3] = 63;
  FakeExecutor executor({});
  const Tables tables = tables_of(160);
  const auto text = generate(executor, prompt, 130, 10, tables);
  const Tables elsewhere = tables_of(160, 1);
  EXPECT_NE(generate(executor, other, 130, 10, elsewhere), text);
  // Page 0 of another text, right positions: the digest differs.
  const auto stale = [&] { CHECK(executor.copy_page(PagePoolKind::kFull, elsewhere.full[0], tables.full[0]).ok()); };
  EXPECT_NE(generate(executor, prompt, 130, 10, tables, stale), text);
  EXPECT_EQ(generate(executor, prompt, 130, 10, tables), text);
  EXPECT_EQ(executor.wrong_reads(), 0);
}

TEST(FakeExecutor, SaveRestoreAndCopyKeepContent) {
  const auto prompt = some_prompt(100);
  const Tables tables = tables_of(130);
  FakeExecutor plain({});
  const auto text = generate(plain, prompt, 100, 20, tables);
  FakeExecutor executor({});
  const auto swap = [&] {
    std::vector<std::byte> bytes(static_cast<size_t>(executor.info().page_bytes_full));
    ASSERT_TRUE(executor.save_page(PagePoolKind::kFull, tables.full[0], bytes).ok());
    ASSERT_TRUE(executor.copy_page(PagePoolKind::kFull, PageId(200), tables.full[0]).ok());
    ASSERT_TRUE(executor.restore_page(PagePoolKind::kFull, tables.full[0], bytes).ok());
  };
  EXPECT_EQ(generate(executor, prompt, 100, 20, tables, swap), text);
}

TEST(FakeExecutor, DecodeArithmeticDiffersWhereItIsNotOne) {
  const auto prompt = some_prompt(100);
  FakeOptions options;
  options.one_arithmetic = false;
  FakeExecutor one(options), two(options), three(options);
  const auto text = generate(one, prompt, 100, 30, tables_of(140));
  EXPECT_EQ(generate(two, prompt, 50, 30, tables_of(140)), text);
  EXPECT_NE(generate(three, prompt, 1, 30, tables_of(140)), text);
}

TEST(FakeExecutor, ScriptMaskForcedTokenAndLogprobs) {
  FakeOptions options;
  options.full_logits = false;
  options.script = [](std::span<const TokenId> prompt, int32_t index) {
    return index < 3 ? prompt[0] + index : TokenId{-1};
  };
  FakeExecutor executor(options);
  SequenceSpec spec;
  const std::vector<TokenId> prompt = {40, 2};
  spec.prompt = prompt;
  spec.sampling.top_logprobs = 2;
  executor.open_sequence(0, spec);
  const Tables tables = tables_of(64);
  StepRow row = row_of(prompt, 0, 2, tables);
  const RowResult first = run_one(executor, row);
  EXPECT_EQ(first.sampled.id, 40);
  EXPECT_EQ(first.sampled.top.size(), 2u);
  row = row_of({}, 2, 3, tables);  // feeds 40 back
  EXPECT_EQ(run_one(executor, row).sampled.id, 41);
  auto mask = std::make_shared<TokenMask>();
  mask->bits = {0, 1u << 5};
  row = row_of({}, 3, 4, tables);
  row.mask = mask;
  EXPECT_EQ(run_one(executor, row).sampled.id, 37);  // 42 is not allowed
  row = row_of({}, 4, 5, tables);
  row.forced_token = 9;
  EXPECT_EQ(run_one(executor, row).sampled.id, 9);
}

TEST(FakeExecutor, Faults) {
  FakeExecutor executor({});
  FakeFaults faults;
  faults.corrupt_row = [](int64_t step, const StepRow&) { return step == 1; };
  faults.wait_error_step = 3;
  executor.set_faults(std::move(faults));
  SequenceSpec spec;
  const auto prompt = some_prompt(4);
  spec.prompt = prompt;
  executor.open_sequence(0, spec);
  const Tables tables = tables_of(64);
  EXPECT_FALSE(run_one(executor, row_of(prompt, 0, 4, tables)).sampled.corrupted);
  EXPECT_TRUE(run_one(executor, row_of(prompt, 0, 4, tables)).sampled.corrupted);
  EXPECT_FALSE(run_one(executor, row_of(prompt, 0, 4, tables)).sampled.corrupted);
  StepPlan plan;
  plan.rows.push_back(row_of(prompt, 0, 4, tables));
  const auto ticket = executor.submit(plan);
  ASSERT_TRUE(ticket.ok());
  EXPECT_FALSE(executor.wait(ticket.value()).ok());
  EXPECT_FALSE(executor.submit(plan).ok());
}

TEST(FakeExecutor, LatencyGoesToTheClock) {
  VirtualClock clock;
  FakeOptions options;
  options.clock = &clock;
  options.step_ns = 1000;
  options.token_ns = 10;
  FakeExecutor executor(options);
  SequenceSpec spec;
  const auto prompt = some_prompt(7);
  spec.prompt = prompt;
  executor.open_sequence(0, spec);
  run_one(executor, row_of(prompt, 0, 7, tables_of(64)));
  EXPECT_EQ(clock.now_ns(), 1070);
}

}  // namespace
}  // namespace boreas
