#include "traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "engine/core.h"
#include "lone_run.h"
#include "seeds.h"
#include "text/text.h"

namespace boreas {
namespace {

struct Sent {
  Request request;
  int64_t arrival_step = 0;
  int64_t cancel_step = -1;
  std::vector<LoneRun> alone;  // one a choice
  std::vector<std::vector<SampledToken>> heard;
  std::vector<std::optional<FinishReason>> finish;
  std::vector<SampledToken> prompt_logprobs;
};

class Traffic {
 public:
  Traffic(uint64_t seed, const World& world, const MakeExecutor& make_executor)
      : prng_(seed), world_(world), system_(world.text(prng_, 150)) {
    const int32_t context_pages = pages_for(kTrafficContextMax), window = world.model->config().window;
    alone_ = make_executor(world.model, context_pages, context_pages);
    // The longest request fits, three of them do not.
    const int32_t sliding = 2 * PageLedger::sliding_pages_max(window, kPagePositions);
    executor_ = make_executor(world.model, context_pages + 2, std::max(sliding, 6));
    EngineOptions options;
    options.step_tokens_max = 96;
    options.decode_percent = 0;         // what is batched with what must not hang on this machine's speed
    options.prefix_cache_exact = true;  // else a follow-up turn may read what decode's arithmetic wrote
    const ExecutorInfo& info = executor_->info();
    options.swap_bytes_max = std::max(info.page_bytes_full, info.page_bytes_sliding) * 6;
    core_ = std::make_unique<EngineCore>(*executor_, options, clock_);
  }

  void plan(int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      Sent sent;
      make_request(sent);
      for (int32_t choice = 0; choice < sent.request.choices; ++choice) {
        sent.alone.push_back(lone_run_on(*alone_, sent.request, choice, kTrafficContextMax));
      }
      sent.heard.resize(sent.alone.size());
      sent.finish.resize(sent.alone.size());
      sent_.push_back(std::move(sent));
    }
  }

  EngineStats run() {
    for (int64_t step = 0;; ++step) {
      bool more = false;
      for (size_t i = 0; i < sent_.size(); ++i) {
        if (sent_[i].arrival_step == step) arrive(i);
        if (sent_[i].cancel_step == step) core_->cancel(RequestId(i + 1));
        more = more || sent_[i].arrival_step > step;
      }
      if (!more && core_->idle()) return core_->stats();
      core_->step();
    }
  }

  void compare() const {
    for (size_t i = 0; i < sent_.size(); ++i) {
      for (size_t choice = 0; choice < sent_[i].alone.size(); ++choice) compare_choice(i, choice);
    }
  }

 private:
  int32_t pick(int32_t low, int32_t high) { return static_cast<int32_t>(prng_.between(low, high)); }
  bool chance(int32_t percent) { return pick(0, 99) < percent; }

  void make_request(Sent& sent) {
    Request& request = sent.request;
    sent.arrival_step = pick(0, 120);
    if (!sent_.empty() && chance(60)) {
      const Sent& earlier = sent_[static_cast<size_t>(pick(0, static_cast<int32_t>(sent_.size()) - 1))];
      request.prompt = earlier.request.prompt;
      for (const SampledToken& token : earlier.alone.back().tokens) request.prompt.push_back(token.id);
      sent.arrival_step = earlier.arrival_step + pick(20, 150);
      if (chance(30)) request.prompt.resize(static_cast<size_t>(pick(1, static_cast<int32_t>(request.prompt.size()))));
    }
    if (request.prompt.empty() && chance(50)) request.prompt = system_;
    const std::vector<TokenId> added = world_.text(prng_, pick(1, chance(40) ? 200 : 60));
    request.prompt.insert(request.prompt.end(), added.begin(), added.end());
    request.prompt.resize(std::min(request.prompt.size(), size_t{kTrafficContextMax} - 150));
    request.max_tokens = pick(1, 120);
    request.choices = chance(25) ? pick(2, 3) : 1;
    request.sampling.seed = prng_.next_u64();
    request.sampling.temperature = chance(30) ? 0.0f : 0.8f;
    if (chance(30)) request.sampling.top_p = 0.9f;
    if (chance(30)) request.sampling.frequency_penalty = 0.3f;
    if (chance(30)) request.sampling.top_logprobs = 2;
    if (chance(15)) request.prompt_top_logprobs = 1;
    if (chance(30)) request.stop_ids = world_.text(prng_, 1);
    if (chance(15)) sent.cancel_step = sent.arrival_step + pick(0, 60);
  }

  void arrive(size_t index) {
    core_->add(RequestId(index + 1), sent_[index].request, [this, index](TokenEvent&& event) {
      Sent& sent = sent_[index];
      const auto choice = static_cast<size_t>(event.choice);
      for (SampledToken& token : event.tokens) sent.heard[choice].push_back(std::move(token));
      if (!event.prompt_logprobs.empty()) sent.prompt_logprobs = std::move(event.prompt_logprobs);
      if (event.finish) sent.finish[choice] = event.finish;
    });
  }

  void compare_choice(size_t index, size_t choice) const {
    SCOPED_TRACE("request " + std::to_string(index) + " choice " + std::to_string(choice));
    const Sent& sent = sent_[index];
    const LoneRun& lone = sent.alone[choice];
    const std::vector<SampledToken>& heard = sent.heard[choice];
    ASSERT_TRUE(sent.finish[choice].has_value());
    const bool aborted = *sent.finish[choice] == FinishReason::kAbort;
    if (!aborted) {
      EXPECT_EQ(*sent.finish[choice], lone.finish);
      EXPECT_EQ(heard.size(), lone.tokens.size());
    }
    ASSERT_LE(heard.size(), lone.tokens.size());
    for (size_t i = 0; i < heard.size(); ++i) ASSERT_TRUE(same_token(heard[i], lone.tokens[i])) << "token " << i;
    if (choice > 0 || aborted) return;
    ASSERT_EQ(sent.prompt_logprobs.size(), lone.prompt_logprobs.size());
    for (size_t i = 0; i < lone.prompt_logprobs.size(); ++i) {
      ASSERT_TRUE(same_token(sent.prompt_logprobs[i], lone.prompt_logprobs[i])) << "prompt logprob " << i;
    }
  }

  Prng prng_;
  const World& world_;
  std::vector<TokenId> system_;  // how many of the prompts begin
  std::unique_ptr<Executor> alone_, executor_;
  VirtualClock clock_;
  std::unique_ptr<EngineCore> core_;
  std::vector<Sent> sent_;
};

EngineStats run_traffic(uint64_t seed, const World& world, const MakeExecutor& make_executor, int32_t requests) {
  SCOPED_TRACE(world.name + ", seed " + std::to_string(seed));
  Traffic traffic(seed, world, make_executor);
  traffic.plan(requests);
  const EngineStats stats = traffic.run();
  traffic.compare();
  EXPECT_EQ(stats.pages_full_free, stats.pages_full);
  EXPECT_EQ(stats.pages_sliding_free, stats.pages_sliding);
  EXPECT_EQ(stats.swap_bytes_used, 0);
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "%s, seed %llu: %lld steps, %lld tokens, %lld cached, %lld preemptions (%lld computed again), "
      "%lld pages restored, %lld aborted\n",
      world.name.c_str(), static_cast<unsigned long long>(seed), number(stats.steps), number(stats.output_tokens),
      number(stats.cached_tokens), number(stats.preemptions), number(stats.recomputations),
      number(stats.swapped_in_pages), number(stats.finished[static_cast<size_t>(FinishReason::kAbort)]));
  return stats;
}

}  // namespace

World demo_world() {
  const std::string directory = BOREAS_SOURCE_DIR "/models/demo";
  auto model = load_model(directory);
  CHECK(model.ok());
  auto tokenizer = Tokenizer::load(directory);
  CHECK(tokenizer.ok());
  std::ifstream file(directory + "/held_out.jsonl");
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.resize(std::min(text.size(), text.find('\n', 200000)));
  auto tokens = tokenizer->encode(text, {});
  CHECK(tokens.ok() && tokens->size() > 20000);
  return {"demo checkpoint", *model, [tokens = *tokens](Prng& prng, int32_t count) {
            const auto first = prng.between(0, static_cast<int32_t>(tokens.size()) - count);
            return std::vector<TokenId>(tokens.begin() + first, tokens.begin() + first + count);
          }};
}

void run_traffics(const World& world, const MakeExecutor& make_executor, int32_t requests, uint64_t count) {
  int64_t cached = 0, restored = 0, recomputations = 0, aborted = 0;
  Seeds seeds(count, 4);
  while (seeds.next() && !::testing::Test::HasFailure()) {
    const EngineStats stats = run_traffic(seeds.seed(), world, make_executor, requests);
    cached += stats.cached_tokens;
    restored += stats.swapped_in_pages;
    recomputations += stats.recomputations;
    aborted += stats.finished[static_cast<size_t>(FinishReason::kAbort)];
  }
  if (!seeds.as_committed()) return;
  EXPECT_GT(cached, static_cast<int64_t>(count) * 250);  // that caching is looked at: a few pages in every run
  EXPECT_GT(restored, 0);
  EXPECT_GT(recomputations, 0);
  EXPECT_GT(aborted, 0);
}

}  // namespace boreas
