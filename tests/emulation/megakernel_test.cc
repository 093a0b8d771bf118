// The megakernel's own source, run on the emulated device, against the CPU executor: a whole decode step of a small
// model, on a few workers, with ragged rows, window crossings and prefill blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "distance.h"
#include "emulated_machine.h"
#include "exec/cpu/cpu_executor.h"

namespace boreas {
namespace {

std::vector<float> cpu_logits(const std::shared_ptr<const Model>& model, std::span<const TokenId> tokens) {
  CpuExecutorOptions options;
  options.threads = 1;
  options.context_max = 4096;
  auto trace = trace_cpu_forward(model, tokens, 8, options);
  EXPECT_TRUE(trace.ok());
  return trace->logits;
}

// Decodes several sequences side by side, token by token, and compares every row's logits with the CPU executor's.
template <class C>
void check_against_cpu(int32_t layers, int32_t window, const std::vector<int32_t>& lengths, uint64_t seed,
                       int32_t prefill_block = 1) {
  const auto model = small_model(layers, window);
  Machine<C> machine(model, 32);
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<float>> expected;
  std::vector<int32_t> done(lengths.size(), 0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    tokens.push_back(some_tokens(lengths[i], static_cast<uint32_t>(i + 1)));
    expected.push_back(cpu_logits(model, tokens.back()));
  }
  double worst = 0;
  for (uint64_t launch = 0;; ++launch) {
    std::vector<typename Machine<C>::Row> rows;
    for (size_t i = 0; i < lengths.size(); ++i) {
      for (int32_t k = 0; k < prefill_block && done[i] < lengths[i] && rows.size() < cuda::kRowsMax; ++k) {
        rows.push_back({static_cast<int32_t>(i), done[i], tokens[i][static_cast<size_t>(done[i])]});
        ++done[i];
      }
    }
    if (rows.empty()) break;
    const auto result = machine.run(rows, seed == 0 ? 0 : seed + launch);
    ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
    for (size_t row = 0; row < rows.size(); ++row) {
      const std::span<const float> wanted(expected[static_cast<size_t>(rows[row].slot)].data() +
                                              static_cast<size_t>(rows[row].position) * C::kVocabulary,
                                          C::kVocabulary);
      const double off = distance(machine.logits(row), wanted);
      worst = std::max(worst, off);
      ASSERT_LT(off, bf16_distance(layers)) << "slot " << rows[row].slot << " position " << rows[row].position;
      const auto logits = machine.logits(row);
      EXPECT_EQ(machine.outcome(row).token, std::max_element(logits.begin(), logits.end()) - logits.begin());
    }
  }
  std::printf("worst relative distance %.5f\n", worst);
}

using emulation::FourWorkers;

TEST(Megakernel, OneRowEqualsTheCpuExecutor) { check_against_cpu<FourWorkers>(3, 32, {20}, 0); }
TEST(Megakernel, RaggedRowsEqualTheCpuExecutor) {
  check_against_cpu<FourWorkers>(5, 16, {3, 20, 1, 7, 12, 9, 2, 17}, 7);
}
// As on a GPU: slices of two rows and of none, tiles of every height.
TEST(Megakernel, AllWorkersEqualTheCpuExecutor) {
  check_against_cpu<cuda::Cut<cuda::GoldenShape, 128>>(2, 16, {1, 1}, 5);
}
TEST(MegakernelFull, AllWorkersEqualTheCpuExecutor) {
  check_against_cpu<cuda::Cut<cuda::GoldenShape, 128>>(2, 16, {3}, 0);
  check_against_cpu<cuda::Cut<cuda::GoldenShape, 128>>(2, 16, {2, 1, 2}, 5);
}
TEST(Megakernel, PrefillBlocksEqualTheCpuExecutor) { check_against_cpu<FourWorkers>(3, 32, {70, 9}, 3, 5); }
// Nobody touches shared memory without having met, at an mbarrier, a named barrier or the arrival count, whoever
// touched it before. Several rows over a window's end, and a second page.
TEST(Megakernel, SharedAccessesAreOrdered) {
  Machine<FourWorkers> machine(small_model(3, 32), 32);
  machine.check_races();
  for (uint64_t launch = 0; launch < 3; ++launch) {
    std::vector<Machine<FourWorkers>::Row> rows;
    for (int32_t row = 0; row < 5; ++row)
      rows.push_back({row, static_cast<int32_t>(launch) + 62 * (row % 2), static_cast<TokenId>(7 * row + 1)});
    const auto result = machine.run(rows, 100 + launch);
    ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
  }
}
TEST(Megakernel, UnevenSlicesEqualTheCpuExecutor) {
  check_against_cpu<cuda::Cut<cuda::GoldenShape, 3>>(3, 16, {9, 4, 6}, 11, 2);
}

// Promise 1 of the design: a row's bits do not depend on neighbours, on how many they are, or on who was late. Those of
// every row: one word taken too early changes few, and not by much.
void expect_bits_of_the_row_alone(std::initializer_list<int32_t> numbers_of_neighbours) {
  const auto model = small_model(3, 16);
  constexpr size_t kTexts = 3, kLength = 10;
  std::vector<TokenId> texts[kTexts];
  std::vector<std::vector<float>> alone[kTexts];
  Machine<FourWorkers> lone(model, 32);
  for (size_t text = 0; text < kTexts; ++text) {
    texts[text] = some_tokens(kLength, static_cast<uint32_t>(text + 1));
    for (int32_t i = 0; i < static_cast<int32_t>(kLength); ++i) {
      const TokenId token = texts[text][static_cast<size_t>(i)];
      ASSERT_EQ(lone.run({{static_cast<int32_t>(text), i, token}}, 0).outcome, emulation::Outcome::kFinished);
      alone[text].push_back(lone.logits(0));
    }
  }
  for (int32_t neighbours : numbers_of_neighbours) {
    Machine<FourWorkers> machine(model, 32);
    for (size_t i = 0; i < kLength; ++i) {
      std::vector<Machine<FourWorkers>::Row> rows;
      const int32_t first = static_cast<int32_t>(i) * 3;  // a row's place among the others changes
      const auto slot_of = [&](int32_t k) { return (first + k) % (neighbours + 1); };
      const auto text_of = [&](int32_t k) { return static_cast<size_t>(slot_of(k)) % kTexts; };
      for (int32_t k = 0; k <= neighbours; ++k)
        rows.push_back({slot_of(k), static_cast<int32_t>(i), texts[text_of(k)][i]});
      const auto result = machine.run(rows, 100 * static_cast<uint64_t>(neighbours) + i, 17);
      ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
      for (int32_t k = 0; k <= neighbours; ++k)
        ASSERT_EQ(machine.logits(static_cast<size_t>(k)), alone[text_of(k)][i])
            << neighbours << " neighbours, position " << i << ", row " << k;
    }
  }
}

TEST(Megakernel, BitsDependOnTheRowAlone) { expect_bits_of_the_row_alone({4}); }
TEST(MegakernelFull, BitsDependOnTheRowAlone) { expect_bits_of_the_row_alone({1, 7}); }

// Prefill in blocks of one to eight: the same bits, since there is one arithmetic.
TEST(Megakernel, BlocksOfAnySizeGiveTheSameBits) {
  const auto model = small_model(2, 16);
  const auto tokens = some_tokens(24, 5);
  std::vector<std::vector<float>> wanted;
  for (int32_t block : {1, 3, 8}) {
    Machine<FourWorkers> machine(model, 8);
    for (int32_t first = 0; first < 24; first += block) {
      std::vector<Machine<FourWorkers>::Row> rows;
      for (int32_t i = first; i < first + block; ++i) rows.push_back({0, i, tokens[static_cast<size_t>(i)]});
      ASSERT_EQ(machine.run(rows, 0).outcome, emulation::Outcome::kFinished);
      for (int32_t i = 0; i < block; ++i) {
        const auto logits = machine.logits(static_cast<size_t>(i));
        if (block == 1) wanted.push_back(logits);
        else ASSERT_EQ(logits, wanted[static_cast<size_t>(first + i)]) << block << " " << first + i;
      }
    }
  }
}

// What a recycled page still holds, NaN at worst, is not seen.
TEST(Megakernel, LeftoversInPagesDoNotShow) {
  const auto model = small_model(2, 16);
  Machine<FourWorkers> clean(model, 8), dirty(model, 8);
  dirty.fill_pages(0xff);  // every element is NaN
  const auto tokens = some_tokens(4, 9);
  for (int32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(clean.run({{0, i, tokens[static_cast<size_t>(i)]}}, 0).outcome, emulation::Outcome::kFinished);
    ASSERT_EQ(dirty.run({{0, i, tokens[static_cast<size_t>(i)]}}, 0).outcome, emulation::Outcome::kFinished);
    EXPECT_EQ(clean.logits(0), dirty.logits(0));
  }
}

// A task that publishes nothing: some wait passes its deadline and says where and for what.
TEST(Megakernel, ASilentTaskIsReported) {
  const auto model = small_model(2, 16);
  Machine<FourWorkers> machine(model, 8);
  const auto result = machine.run({{0, 0, 5}}, 0, 0, 1);  // worker 0's QKV of layer 0
  EXPECT_EQ(result.outcome, emulation::Outcome::kStopped);
  EXPECT_EQ(machine.fault().complete, 1u);
  EXPECT_EQ(machine.fault().what, cuda::kWaitHop);
  EXPECT_EQ(machine.fault().hop_or_barrier, static_cast<int32_t>(Hop::kQkv));
  EXPECT_EQ(machine.fault().role, static_cast<int32_t>(Role::kMessenger));
  EXPECT_EQ(machine.fault().layer, 0);
  EXPECT_EQ(machine.fault().wanted, 1u);
  EXPECT_EQ(machine.fault().seen, 0u);
}

// A long context against the CPU executor on the same seeded pages: several pages a piece, and pages out of the window.
TEST(Megakernel, LongContextEqualsTheCpuExecutor) {
  constexpr int32_t kPosition = 2500, kPages = 48;
  const auto model = small_model(2, 700);
  const ModelConfig& config = model->config();
  Machine<FourWorkers> machine(model, kPages);
  CpuExecutorOptions options;
  options.threads = 1;
  options.context_max = 4096;
  options.pages_full = options.pages_sliding = kPages;
  auto made = make_cpu_executor(model, options);
  ASSERT_TRUE(made.ok());
  const std::unique_ptr<Executor> cpu = std::move(made).value();
  std::vector<PageId> pages;
  Prng prng(4);
  for (int32_t page = 0; page <= kPosition / 64; ++page) {
    const int32_t id = Machine<FourWorkers>::page_of(0, page, kPages);
    pages.push_back(PageId(id));
    for (PagePoolKind pool : {PagePoolKind::kFull, PagePoolKind::kSliding}) {
      std::vector<uint16_t> content;  // [head][K, V][64][128]; one layer a pool
      for (int32_t i = 0; i < config.kv_heads * 2 * 64 * 128; ++i)
        content.push_back(static_cast<uint16_t>((prng.below(2) << 15) | (0x3e00 + prng.below(0x180))));
      for (int32_t head = 0; head < config.kv_heads; ++head)
        for (int32_t value = 0; value < 2; ++value)
          for (int32_t i = 0; i < 64 * 128; ++i)
            machine.kv(pool, id, 0, head, value != 0, i / 128, i % 128) =
                content[static_cast<size_t>((head * 2 + value) * 64 * 128 + i)];
      ASSERT_TRUE(cpu->restore_page(pool, PageId(id), std::as_bytes(std::span(content))).ok());
    }
  }
  SequenceSpec spec;
  spec.sampling.temperature = 0;
  spec.sampling.top_logprobs = config.vocab_size;
  cpu->open_sequence(0, spec);
  const TokenId token = 77;
  StepPlan plan;
  plan.rows.push_back({});
  plan.rows[0].position = kPosition;
  plan.rows[0].tokens = std::span(&token, 1);
  plan.rows[0].full_pages = plan.rows[0].sliding_pages = pages;
  plan.rows[0].logits = LogitsWanted::kLast;
  auto step = cpu->wait(*cpu->submit(plan));
  ASSERT_TRUE(step.ok());
  const auto result = machine.run({{0, kPosition, token}}, 3);
  ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
  const std::vector<float> logits = machine.logits(0);
  const SampledToken wanted = step->rows[0].sampled;
  ASSERT_EQ(wanted.top.size(), static_cast<size_t>(config.vocab_size));
  const SampledToken seen = score_token(logits, wanted.id, config.vocab_size);
  std::vector<float> a(logits.size()), b(logits.size());
  for (const TokenLogprob& entry : wanted.top) a[static_cast<size_t>(entry.id)] = entry.logprob;
  for (const TokenLogprob& entry : seen.top) b[static_cast<size_t>(entry.id)] = entry.logprob;
  EXPECT_LT(distance(b, a), bf16_distance(2));
  EXPECT_EQ(machine.outcome(0).token, wanted.id);
}

}  // namespace
}  // namespace boreas
