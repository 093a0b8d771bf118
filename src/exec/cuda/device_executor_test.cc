// The executor over a made-up kernel in host memory: whatever mix of prefill and decode rows, sampling and steps in
// flight, every sequence's text is what it would be alone.
#include "exec/cuda/device_executor.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <iostream>
#include <map>

#include "exec/cuda/made_up_kernel_testing.h"

namespace boreas::cuda {
namespace {

// Sequences that prefill and decode side by side, up to two plans in flight. Every sampled token is compared with
// sample_token on what the text alone says.
class Runner {
 public:
  explicit Runner(const MadeUp& setup) : setup_(setup) {
    auto made = setup.make();
    CHECK(made.ok());
    executor_ = std::move(*made);
  }
  Executor& executor() { return *executor_; }

  void open(int32_t slot, const std::vector<TokenId>& prompt, const SamplingParams& sampling,
            const std::vector<TokenId>& output = {}) {
    Text& text = texts_[slot];
    text = Text{};
    text.sampling = sampling;
    text.prompt_length = static_cast<int32_t>(prompt.size());
    text.known = prompt;
    text.known.insert(text.known.end(), output.begin(), output.end());
    text.penalties = PenaltyState(prompt, output);
    for (int32_t page = 0; page < 12; ++page) text.pages.emplace_back(slot * 12 + (page * 7 + 3) % 12);
    executor_->open_sequence(slot, {sampling, prompt, output});
  }
  void close(int32_t slot) {
    executor_->close_sequence(slot);
    texts_.erase(slot);
  }
  void mask_with(std::shared_ptr<const TokenMask> mask) { mask_ = std::move(mask); }
  void force(TokenId token) { forced_ = token; }

  // One plan with up to `chunk` prompt tokens of every sequence in its prompt, a decode row of every other.
  void submit(int32_t chunk) {
    if (in_flight_.size() == static_cast<size_t>(executor_->info().steps_in_flight_max)) retire();
    InFlight& step = in_flight_.emplace_back();
    for (auto& [slot, text] : texts_) add_row(step, slot, text, chunk);
    const Result<StepTicket> ticket = executor_->submit(step.plan);
    CHECK(ticket.ok());
    step.ticket = *ticket;
  }
  void retire() {
    const InFlight step = std::move(in_flight_.front());
    in_flight_.pop_front();
    const Result<StepResult> result = executor_->wait(step.ticket);
    CHECK(result.ok());
    for (size_t i = 0; i < step.plan.rows.size(); ++i)
      if (step.plan.rows[i].logits != LogitsWanted::kNone)
        check(step.slots[i], step.plan.rows[i], result->rows[i].sampled, step.ends[i]);
    EXPECT_GT(result->bytes_read, 0);
    EXPECT_EQ(result->elapsed_ns, 1);
  }
  void drain() {
    while (!in_flight_.empty()) retire();
  }
  const std::vector<TokenId>& known(int32_t slot) { return texts_.at(slot).known; }

 private:
  struct Text {
    std::vector<TokenId> known;  // prompt and output
    int32_t prompt_length = 0;
    int32_t position = 0;  // planned so far
    std::vector<PageId> pages;
    SamplingParams sampling;
    PenaltyState penalties;
  };
  struct InFlight {
    StepPlan plan;
    std::vector<int32_t> slots;
    std::vector<int32_t> ends;
    StepTicket ticket = 0;
    std::deque<std::vector<TokenId>> tokens;
  };

  void add_row(InFlight& step, int32_t slot, Text& text, int32_t chunk) {
    StepRow row;
    row.slot = slot;
    row.position = text.position;
    const int32_t known = static_cast<int32_t>(text.known.size());
    // Behind a prompt the newest token comes from the executor, even if the test knows it already.
    const int32_t replayed = text.position < text.prompt_length ? text.prompt_length : known;
    const int32_t count = text.position < text.prompt_length ? std::min(chunk, replayed - text.position) : 0;
    if (count > 0) {
      step.tokens.emplace_back(text.known.begin() + text.position, text.known.begin() + text.position + count);
      row.tokens = step.tokens.back();
    }
    text.position += std::max(count, 1);
    row.full_pages = text.pages;
    row.sliding_first = first_visible(row.position, true, executor_->info().window) / kPagePositions;
    row.sliding_pages = std::span(text.pages).subspan(static_cast<size_t>(row.sliding_first));
    row.logits = text.position >= text.prompt_length ? LogitsWanted::kLast : LogitsWanted::kNone;
    row.mask = mask_;
    row.forced_token = row.logits == LogitsWanted::kLast ? forced_ : -1;
    step.plan.rows.push_back(row);
    step.slots.push_back(slot);
    step.ends.push_back(text.position);
  }

  void check(int32_t slot, const StepRow& row, const SampledToken& sampled, int32_t end) {
    Text& text = texts_.at(slot);
    ASSERT_EQ(static_cast<int32_t>(text.known.size()), end);
    const std::vector<float> logits = expected_logits(text.known, setup_.model->config());
    const SampledToken expected = row.forced_token >= 0
                                      ? score_token(logits, row.forced_token, text.sampling.top_logprobs)
                                      : sample_token(logits, text.sampling, text.penalties, row.mask.get(), end);
    ASSERT_EQ(sampled.id, expected.id) << "slot " << slot << ", position " << end;
    ASSERT_FALSE(sampled.corrupted);
    if (text.sampling.top_logprobs >= 0) {
      EXPECT_EQ(sampled.logprob, expected.logprob);
      ASSERT_EQ(sampled.top.size(), expected.top.size());
      for (size_t i = 0; i < sampled.top.size(); ++i) EXPECT_EQ(sampled.top[i].id, expected.top[i].id);
    }
    text.known.push_back(sampled.id);
    text.penalties.add_output(sampled.id);
  }

  const MadeUp& setup_;
  std::unique_ptr<Executor> executor_;
  std::map<int32_t, Text> texts_;
  std::deque<InFlight> in_flight_;
  std::shared_ptr<const TokenMask> mask_;
  TokenId forced_ = -1;
};

std::vector<TokenId> random_text(uint64_t seed, size_t count) {
  Prng prng(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(prng.below(GoldenShape::kVocabulary));
  return tokens;
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

TEST(DeviceExecutor, GreedyTextsWithTwoStepsInFlight) {
  const MadeUp setup;
  Runner runner(setup);
  for (int32_t slot = 0; slot < 5; ++slot)
    runner.open(slot, random_text(static_cast<uint64_t>(slot), static_cast<size_t>(3 + 30 * slot)), greedy());
  for (int32_t step = 0; step < 90; ++step) runner.submit(13);
  runner.drain();
  EXPECT_EQ(setup.kernel->samples[kSampleHost], 0);
  EXPECT_GT(setup.kernel->samples[kSampleGreedy], 300);
  EXPECT_EQ(setup.log->washes, 1);
  EXPECT_GT(setup.log->cached.bytes, 0u);
  // Decode alone ran in launches of five rows.
  EXPECT_EQ(setup.kernel->rows.back(), 5);
}

TEST(DeviceExecutor, WhateverTheHostDraws) {
  const MadeUp setup;
  Runner runner(setup);
  SamplingParams params;
  params.seed = 77;
  params.top_k = 20;
  params.top_p = 0.9f;
  runner.open(0, random_text(1, 20), params);
  params.repetition_penalty = 1.5f;
  params.frequency_penalty = 0.5f;
  params.top_p = 0.8f;
  runner.open(1, random_text(2, 40), params);
  params = greedy();
  params.logit_bias = {{5, 3.0f}};
  runner.open(2, random_text(3, 9), params);
  params = greedy();
  params.top_logprobs = 4;
  runner.open(3, random_text(4, 17), params);
  runner.open(4, random_text(5, 30), greedy());  // drawn by the device, beside them
  params = greedy();
  params.presence_penalty = 1;
  runner.open(5, random_text(6, 4), params);
  for (int32_t step = 0; step < 60; ++step) runner.submit(7);
  runner.drain();
  EXPECT_GT(setup.kernel->samples[kSampleHost], 5 * 50);
  EXPECT_GT(setup.kernel->samples[kSampleGreedy], 50);
}

// Temperature, and one filter of each kind: nothing waits for the host.
TEST(DeviceExecutor, WhateverTheDeviceDraws) {
  const MadeUp setup;
  Runner runner(setup);
  for (int32_t slot = 0; slot < 7; ++slot) {
    SamplingParams params;
    params.seed = 100 + static_cast<uint64_t>(slot);
    params.choice_index = slot % 3;
    params.temperature = 0.3f * static_cast<float>(1 + slot % 4);
    if (slot % 4 == 1) params.top_p = 0.7f;
    if (slot % 4 == 2) params.top_k = 9;
    if (slot > 3) params.min_p = 0.05f;
    if (slot == 6) params.top_k = 1, params.top_p = 0.5f;  // with nothing to draw
    runner.open(slot, random_text(static_cast<uint64_t>(slot), 20), params);
  }
  for (int32_t step = 0; step < 40; ++step) runner.submit(7);
  runner.drain();
  EXPECT_EQ(setup.kernel->samples[kSampleHost], 0);
  EXPECT_GT(setup.kernel->samples[kSampleDraw], 6 * 36);
  EXPECT_GT(setup.kernel->samples[kSampleGreedy], 36);
}

TEST(DeviceExecutor, SuppressedUntilMinTokensThenTheDeviceDraws) {
  const MadeUp setup;
  Runner runner(setup);
  SamplingParams params = greedy();
  params.min_tokens = 6;
  for (TokenId id = 0; id < 400; ++id) params.suppressed_ids.push_back(id);
  runner.open(0, random_text(1, 20), params);
  for (int32_t step = 0; step < 20; ++step) runner.submit(50);
  runner.drain();
  EXPECT_EQ(setup.kernel->samples[kSampleHost], 6);
  EXPECT_EQ(setup.kernel->samples[kSampleGreedy], 14);
}

TEST(DeviceExecutor, MasksAndForcedTokens) {
  const MadeUp setup;
  Runner runner(setup);
  SamplingParams params = greedy();
  runner.open(0, random_text(1, 20), params);
  params.top_logprobs = 2;
  runner.open(1, random_text(2, 20), params);
  auto mask = std::make_shared<TokenMask>();
  mask->bits.assign(GoldenShape::kVocabulary / 32, 0x00010001u);
  runner.submit(50);
  runner.mask_with(mask);
  for (int32_t step = 0; step < 5; ++step) runner.submit(50);
  runner.mask_with(nullptr);
  for (TokenId token : {3, 500, 3}) {
    runner.force(token);
    runner.submit(50);
  }
  runner.force(-1);
  for (int32_t step = 0; step < 5; ++step) runner.submit(50);
  runner.drain();
  EXPECT_EQ(setup.kernel->samples[kSampleForced], 3);  // slot 1's are scored by the host
}

TEST(DeviceExecutor, MoreLaunchesThanMayBeInFlight) {
  const MadeUp setup;
  Runner runner(setup);
  runner.open(0, random_text(1, 10), greedy());
  runner.submit(10);
  SamplingParams params;
  runner.open(1, random_text(2, 700), params);  // 88 launches
  for (int32_t step = 0; step < 4; ++step) runner.submit(700);
  runner.drain();
  EXPECT_GT(setup.kernel->launches, 88);
}

TEST(DeviceExecutor, ResumedSequencesGoOn) {
  const MadeUp setup;
  Runner runner(setup);
  SamplingParams params;
  params.repetition_penalty = 1.3f;
  const std::vector<TokenId> prompt = random_text(1, 30);
  runner.open(0, prompt, params);
  for (int32_t step = 0; step < 12; ++step) runner.submit(50);
  runner.drain();
  const std::vector<TokenId> all = runner.known(0);
  runner.close(0);
  // The same from the middle: prompt and five tokens are recomputed as one range, then it goes on.
  const std::unique_ptr<Executor> other = setup.make().value();
  const std::vector<TokenId> output(all.begin() + 30, all.begin() + 35);
  other->open_sequence(3, {params, prompt, output});
  std::vector<PageId> pages{PageId(4), PageId(9), PageId(2)};
  std::vector<TokenId> again(all.begin(), all.begin() + 34);
  StepPlan plan;
  plan.rows.resize(1);
  plan.rows[0].slot = 3;
  plan.rows[0].tokens = again;
  plan.rows[0].full_pages = plan.rows[0].sliding_pages = pages;
  const Result<StepTicket> first = other->submit(plan);
  ASSERT_TRUE(first.ok());
  plan.rows[0].tokens = {};
  plan.rows[0].logits = LogitsWanted::kLast;
  plan.rows[0].position = 34;
  const Result<StepTicket> second = other->submit(plan);  // its token is the last of the output
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(other->wait(*first).ok());
  const Result<StepResult> result = other->wait(*second);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->rows[0].sampled.id, all[35]);
}

TEST(DeviceExecutor, PromptLogprobs) {
  const MadeUp setup;
  const std::unique_ptr<Executor> executor = setup.make().value();
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt = random_text(9, 64);
  const std::vector<PageId> pages{PageId(1), PageId(0)};
  StepPlan plan;
  plan.rows.resize(1);
  plan.rows[0].tokens = prompt;
  plan.rows[0].full_pages = plan.rows[0].sliding_pages = pages;
  plan.rows[0].logits = LogitsWanted::kAll;
  plan.rows[0].prompt_top_logprobs = 3;
  const Result<StepTicket> ticket = executor->submit(plan);
  ASSERT_TRUE(ticket.ok());
  const Result<StepResult> result = executor->wait(*ticket);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->rows[0].prompt_logprobs.size(), 63u);
  for (size_t i = 0; i < 63; ++i) {
    const std::vector<float> logits = expected_logits(std::span(prompt).first(i + 1), setup.model->config());
    const SampledToken expected = score_token(logits, prompt[i + 1], 3);
    EXPECT_EQ(result->rows[0].prompt_logprobs[i].logprob, expected.logprob) << i;
    ASSERT_EQ(result->rows[0].prompt_logprobs[i].top.size(), 3u);
    EXPECT_EQ(result->rows[0].prompt_logprobs[i].top[0].id, expected.top[0].id);
  }
  const std::vector<float> last = expected_logits(prompt, setup.model->config());
  EXPECT_EQ(result->rows[0].sampled.id, std::max_element(last.begin(), last.end()) - last.begin());
}

// Random mixes: sequences come and go, also while their rows are in flight.
TEST(DeviceExecutor, AnyMixEqualsTheTextAlone) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    std::cout << "seed " << seed << "\n";
    Prng prng(seed);
    MadeUp setup;
    setup.options.first_step = static_cast<uint32_t>(prng.below(1000));
    setup.device.deferred = seed % 3 != 0;
    Runner runner(setup);
    std::map<int32_t, bool> open;
    for (int32_t step = 0; step < 60; ++step) {
      const int32_t slot = static_cast<int32_t>(prng.below(8));
      if (prng.below(3) == 0 && !open[slot]) {
        SamplingParams params;
        params.temperature = prng.below(2) == 0 ? 0.0f : 0.9f;
        params.seed = prng.next_u64();
        if (prng.below(3) == 0) params.frequency_penalty = 0.7f;
        if (prng.below(4) == 0) params.top_logprobs = static_cast<int32_t>(prng.below(3));
        runner.open(slot, random_text(prng.next_u64(), 2 + prng.below(200)), params);
        open[slot] = true;
      } else if (prng.below(6) == 0 && open[slot]) {
        runner.drain();
        runner.close(slot);
        open[slot] = false;
      }
      if (std::any_of(open.begin(), open.end(), [](const auto& entry) { return entry.second; }))
        runner.submit(static_cast<int32_t>(2 + prng.below(60)));
    }
    runner.drain();
  }
}

}  // namespace
}  // namespace boreas::cuda
