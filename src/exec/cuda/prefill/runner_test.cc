// Prefill behind the executor, over made-up kernels in host memory: append leaves the tokens in the pages, where the
// made-up decode kernel looks for them; so a wrong page, position or order changes the text.
#include "exec/cuda/prefill/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "exec/cuda/made_up_kernel_testing.h"
#include "exec/cuda/prefill/arguments.h"

namespace boreas::cuda {
namespace {

struct PrefillLog {
  std::vector<int32_t> batches;  // tokens of each
  int64_t appends = 0, attentions = 0, finishes = 0;
  int64_t products[7] = {};
};

class MadeUpPrefill final : public prefill::PrefillKernels {
 public:
  using Enqueue = std::function<Status(std::function<Status()>)>;
  MadeUpPrefill(std::shared_ptr<PrefillLog> log, Enqueue enqueue)
      : log_(std::move(log)), enqueue_(std::move(enqueue)) {}

  Status add_operand(const bf16*, int32_t, int32_t) override { return Ok{}; }
  Status multiply(prefill::Product product, const std::byte*, const bf16*, int32_t, const prefill::GroupedRows&,
                  void*) override {
    ++log_->products[static_cast<size_t>(product)];
    return Ok{};
  }
  Status embed(const prefill::EmbedArgs&, int32_t tokens) override {
    log_->batches.push_back(tokens);
    return Ok{};
  }
  Status fill_turns(const prefill::RopeArgs&) override { return Ok{}; }
  Status append(const prefill::AppendArgs& args) override {
    ++log_->appends;
    return enqueue_([args] {
      for (int32_t i = 0; i < args.token_count; ++i) {
        const PrefillToken& token = args.tokens[i];
        const int32_t page = args.page_tables[args.sliding != 0 ? token.page_sliding : token.page_full];
        uint8_t* at = args.pages + static_cast<uint64_t>(page) * args.page_bytes;
        reinterpret_cast<TokenId*>(at)[token.position % kPagePositions] = token.token;
      }
      return Status(Ok{});
    });
  }
  // Every page that a query sees is unfolded, once, from the right entry.
  Status unfold(const prefill::UnfoldArgs& args, int32_t pages) override {
    return enqueue_([args, pages] {
      for (int32_t i = 0; i < pages; ++i) CHECK(args.list[i].place == i && args.list[i].positions >= 1);
      return Status(Ok{});
    });
  }
  Status attend(const prefill::AttentionArgs&, int32_t, int32_t) override {
    ++log_->attentions;
    return Ok{};
  }
  Status route(const prefill::RouteArgs&) override { return Ok{}; }
  Status finish(const prefill::FinishArgs&, int32_t) override {
    ++log_->finishes;
    return Ok{};
  }

 private:
  std::shared_ptr<PrefillLog> log_;
  Enqueue enqueue_;
};

struct WithPrefill : MadeUp {
  std::shared_ptr<PrefillLog> prefills = std::make_shared<PrefillLog>();
  WithPrefill() {
    device.prefill_kernels = [own = prefills](
                                 const ModelConfig&, int32_t,
                                 MadeUpPrefill::Enqueue enqueue) -> Result<std::unique_ptr<prefill::PrefillKernels>> {
      return std::unique_ptr<prefill::PrefillKernels>(std::make_unique<MadeUpPrefill>(own, std::move(enqueue)));
    };
  }
};

TokenId greedy_after(std::span<const TokenId> text, const ModelConfig& config) {
  const std::vector<float> logits = expected_logits(text, config);
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

StepRow row_of(int32_t slot, int32_t position, std::span<const TokenId> tokens, const std::vector<PageId>& pages,
               LogitsWanted logits) {
  StepRow row;
  row.slot = slot;
  row.position = position;
  row.tokens = tokens;
  row.full_pages = row.sliding_pages = pages;
  row.logits = logits;
  return row;
}

std::vector<PageId> pages_of(int32_t slot) {
  std::vector<PageId> pages;
  for (int32_t page = 0; page < 12; ++page) pages.emplace_back(slot * 12 + (page * 7 + 3) % 12);
  return pages;
}
SequenceSpec greedy() {
  SequenceSpec spec;
  spec.sampling.temperature = 0;
  return spec;
}
std::vector<TokenId> random_tokens(Prng& prng, size_t count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(prng.below(512));
  return tokens;
}

TEST(PrefillRunner, OnlyTheLastTokenOfAPromptIsDecoded) {
  WithPrefill setup;
  setup.options.tokens_max = 100;
  auto executor = setup.make();
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  EXPECT_FALSE((*executor)->info().one_arithmetic);
  Prng prng(3);
  const std::vector<TokenId> prompt = random_tokens(prng, 150);
  const std::vector<PageId> pages = pages_of(1);
  (*executor)->open_sequence(1, greedy());
  StepPlan first, second;
  first.rows.push_back(row_of(1, 0, std::span(prompt).first(90), pages, LogitsWanted::kNone));
  second.rows.push_back(row_of(1, 90, std::span(prompt).subspan(90), pages, LogitsWanted::kLast));
  const auto a = (*executor)->submit(first), b = (*executor)->submit(second);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto chunk = (*executor)->wait(*a), rest = (*executor)->wait(*b);
  ASSERT_TRUE(chunk.ok() && rest.ok());
  EXPECT_EQ(chunk->elapsed_ns, 1);
  EXPECT_EQ(rest->bytes_read, 0);  // not counted
  EXPECT_EQ(rest->rows[0].sampled.id, greedy_after(prompt, setup.model->config()));
  EXPECT_EQ(setup.prefills->batches, (std::vector<int32_t>{90, 59}));
  EXPECT_EQ(setup.kernel->rows, (std::vector<int32_t>{1}));
  // The last layer ends with its append.
  const int32_t layers = setup.model->config().layer_count();
  EXPECT_EQ(setup.prefills->appends, 2 * layers);
  EXPECT_EQ(setup.prefills->attentions, 2 * (layers - 1));
  EXPECT_EQ(setup.prefills->finishes, 2 * layers);
  EXPECT_EQ(setup.prefills->products[static_cast<size_t>(prefill::Product::kQkv)], 2 * layers);
  EXPECT_EQ(setup.prefills->products[static_cast<size_t>(prefill::Product::kOutput)], 2 * (layers - 1));
}

TEST(PrefillRunner, ScoredPromptsAndSingleTokensAreDecoded) {
  WithPrefill setup;
  auto executor = setup.make();
  ASSERT_TRUE(executor.ok());
  Prng prng(4);
  const std::vector<TokenId> prompt = random_tokens(prng, 20);
  const std::vector<PageId> scored = pages_of(0), single = pages_of(1);
  (*executor)->open_sequence(0, greedy());
  (*executor)->open_sequence(1, greedy());
  StepPlan plan;
  plan.rows.push_back(row_of(0, 0, prompt, scored, LogitsWanted::kAll));
  plan.rows.push_back(row_of(1, 0, std::span(prompt).first(1), single, LogitsWanted::kLast));
  const auto ticket = (*executor)->submit(plan);
  ASSERT_TRUE(ticket.ok());
  const auto result = (*executor)->wait(*ticket);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(setup.prefills->batches.empty());
  EXPECT_EQ(result->rows[0].prompt_logprobs.size(), 19u);
  EXPECT_EQ(result->rows[1].sampled.id, greedy_after(std::span(prompt).first(1), setup.model->config()));
  EXPECT_GT(result->bytes_read, 0);
}

TEST(PrefillRunner, NoneWhereDecodeTakesPrompts) {
  WithPrefill setup;
  setup.options.decode_only = true;
  auto executor = setup.make();
  ASSERT_TRUE(executor.ok());
  EXPECT_TRUE((*executor)->info().one_arithmetic);
  for (const auto& [what, bytes] : setup.log->allocations) EXPECT_NE(what.rfind("prefill", 0), 0u) << bytes;
}

// Prompts in random pieces beside decode rows, two plans in flight: every token follows from its own text alone.
TEST(PrefillRunner, AnyMixEqualsTheTextAlone) {
  constexpr uint64_t kSeed = 41;
  Prng prng(kSeed);
  for (int32_t round = 0; round < 30; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    WithPrefill setup;
    setup.options.tokens_max = 40 + static_cast<int32_t>(prng.below(200));
    auto executor = setup.make();
    ASSERT_TRUE(executor.ok());
    struct Text {
      std::vector<TokenId> known;
      int32_t planned = 0;
      std::vector<PageId> pages;
    };
    std::map<int32_t, Text> texts;
    for (int32_t slot = 0; slot < 1 + static_cast<int32_t>(prng.below(6)); ++slot) {
      texts[slot] = {random_tokens(prng, 1 + prng.below(300)), 0, pages_of(slot)};
      (*executor)->open_sequence(slot, greedy());
    }
    for (int32_t step = 0; step < 12; ++step) {
      StepPlan plan;
      int32_t left = setup.options.tokens_max;
      for (auto& [slot, text] : texts) {
        const int32_t rest = static_cast<int32_t>(text.known.size()) - text.planned;
        int32_t count = std::min({rest, left, 2 + static_cast<int32_t>(prng.below(150))});
        if (rest - count == 1) --count;  // never a range of one at the end
        if (count < 2 && rest != 1) continue;
        count = std::max(count, 1);
        if (count > left) continue;
        left -= count;
        const std::span<const TokenId> range = std::span(text.known).subspan(static_cast<size_t>(text.planned));
        text.planned += count;
        plan.rows.push_back(row_of(slot, text.planned - count, range.first(static_cast<size_t>(count)), text.pages,
                                   count == rest ? LogitsWanted::kLast : LogitsWanted::kNone));
      }
      if (plan.rows.empty()) continue;
      const auto ticket = (*executor)->submit(plan);
      ASSERT_TRUE(ticket.ok());
      const auto result = (*executor)->wait(*ticket);
      ASSERT_TRUE(result.ok()) << result.error().message;
      for (size_t i = 0; i < plan.rows.size(); ++i) {
        if (plan.rows[i].logits != LogitsWanted::kLast) continue;
        std::vector<TokenId>& known = texts[plan.rows[i].slot].known;
        ASSERT_EQ(result->rows[i].sampled.id, greedy_after(known, setup.model->config()));
        known.push_back(result->rows[i].sampled.id);
      }
    }
    EXPECT_FALSE(setup.prefills->batches.empty());
  }
}

}  // namespace
}  // namespace boreas::cuda
