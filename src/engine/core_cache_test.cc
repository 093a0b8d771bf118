// EngineCore with the prefix cache, one behaviour a test.
#include "engine/core_testing.h"
#include "exec/fake/fake_executor.h"

namespace boreas {
namespace {

using CoreTest = CoreFixture<FakeExecutor, FakeOptions>;

class CoreCacheTest : public CoreTest {
 protected:
  // Runs a request to its end and returns how many prompt tokens came from the cache.
  int32_t ask(const Request& asked, std::vector<TokenId>* output = nullptr) {
    Log& log = add(asked);
    finish_all();
    if (output != nullptr) *output = log.tokens();
    return log.events.back().cached_tokens;
  }
  // The next turn: the prompt, the answer and `count` tokens more.
  Request next_turn(const Request& asked, const std::vector<TokenId>& output, int32_t count) {
    Request next = asked;
    next.prompt.insert(next.prompt.end(), output.begin(), output.end());
    for (int32_t i = 0; i < count; ++i) next.prompt.push_back((i * 5 + 1) % 64);
    return next;
  }
};

TEST_F(CoreCacheTest, ATurnFindsPromptAndAnswerOfTheTurnsBefore) {
  Request turn = request(200, 100);
  std::vector<TokenId> answer;
  EXPECT_EQ(ask(turn, &answer), 0);
  turn = next_turn(turn, answer, 50);
  EXPECT_EQ(ask(turn, &answer), 256);  // 299 positions are computed: 4 whole pages
  turn = next_turn(turn, answer, 50);
  EXPECT_EQ(ask(turn, &answer), 448 / 64 * 64);
  const EngineStats stats = core().stats();
  EXPECT_EQ(stats.cached_tokens, 256 + 448);
  EXPECT_EQ(stats.prompt_tokens, 200 + (350 - 256) + (500 - 448));
  EXPECT_EQ(stats.prefix_query_tokens, 200 + 350 + 500);
  EXPECT_EQ(stats.computed_tokens, stats.prompt_tokens + 3 * 99);
}

TEST_F(CoreCacheTest, TheLastPromptTokenIsAlwaysComputed) {
  ask(request(256, 1));
  EXPECT_EQ(ask(request(256, 1)), 192);
  Request longer = request(256, 1);
  longer.prompt.push_back(7);
  EXPECT_EQ(ask(longer), 256);
}

TEST_F(CoreCacheTest, SaltsAndTextsDoNotMix) {
  Request salted = request(300, 1);
  ask(salted);
  salted.cache_salt = "tenant";
  EXPECT_EQ(ask(salted), 0);
  EXPECT_EQ(ask(salted), 256);
  salted.prompt[70] = 63 - salted.prompt[70];
  EXPECT_EQ(ask(salted), 64);
}

TEST_F(CoreCacheTest, ExactModeTakesOnlyWhatAPrefillComputed) {
  fake.one_arithmetic = false;
  options.prefix_cache_exact = true;
  const Request first = request(200, 100);
  std::vector<TokenId> answer;
  ask(first, &answer);
  const Request second = next_turn(first, answer, 50);
  EXPECT_EQ(ask(second, &answer), 192);
  EXPECT_EQ(answer, alone(second).tokens());
}

// The page that ends with a prompt's last token, and all of a scored prompt, may hold a decode's arithmetic.
TEST_F(CoreCacheTest, ExactModeLeavesThePageOfAPromptsLastToken) {
  fake.one_arithmetic = false;
  options.prefix_cache_exact = true;
  Request first = request(256, 1);
  ask(first);
  Request longer = first;
  longer.prompt.resize(300, TokenId{7});
  EXPECT_EQ(ask(longer), 192);
  Request scored = request(256, 1);
  for (TokenId& token : scored.prompt) token = 63 - token;
  scored.prompt_top_logprobs = 0;
  ask(scored);
  longer = scored;
  longer.prompt_top_logprobs = -1;
  longer.prompt.resize(300, TokenId{7});
  EXPECT_EQ(ask(longer), 0);
}

TEST_F(CoreCacheTest, OtherwiseGeneratedPagesAreTakenUntilAPrefillReplacesThem) {
  fake.one_arithmetic = false;
  const Request first = request(200, 100);
  std::vector<TokenId> answer;
  ask(first, &answer);
  EXPECT_EQ(ask(next_turn(first, answer, 50)), 256);
  EXPECT_EQ(executor().wrong_texts(), 0);
}

TEST_F(CoreCacheTest, ARestOfOneTokenIsNotLeftToADifferentArithmetic) {
  fake.one_arithmetic = false;
  ask(request(257, 1));
  EXPECT_EQ(ask(request(257, 1)), 192);
  EXPECT_EQ(ask(request(257, 1)), 192);
}

TEST_F(CoreCacheTest, PagesOfACorruptedRequestAreNotHandedOut) {
  options.step_tokens_max = 100;
  FakeFaults faults;
  faults.corrupt_row = [](int64_t step, const StepRow&) { return step == 2; };
  executor().set_faults(std::move(faults));
  Log& bad = add(request(300, 5));
  finish_all();
  EXPECT_EQ(bad.finish(), FinishReason::kError);
  EXPECT_EQ(core().stats().pages_full_cached, 0);
  EXPECT_EQ(ask(request(300, 5)), 0);
  EXPECT_EQ(ask(request(300, 5)), 256);
}

TEST_F(CoreCacheTest, PagesOfACancelledPrefillAreNotHandedOut) {
  options.step_tokens_max = 100;
  add(request(300, 5));
  core().step();
  core().step();
  core().cancel(RequestId(1));
  EXPECT_EQ(core().stats().pages_full_cached, 0);
  EXPECT_EQ(ask(request(300, 5)), 0);
}

TEST_F(CoreCacheTest, PagesOfACancelledAnswerAre) {
  Log& log = add(request(300, 200));
  while (log.tokens().size() < 100) core().step();
  core().cancel(RequestId(1));
  EXPECT_EQ(ask(next_turn(request(300, 1), log.tokens(), 1)), (300 + 99) / 64 * 64);
}

TEST_F(CoreCacheTest, AHitEndsWhereTheWindowBeforeItIsComplete) {
  fake.pages_sliding = 8;
  fake.context_max = 2000;
  Request first = request(1000, 1);
  ask(first);
  Request branch = first;
  branch.prompt.resize(500);
  for (int32_t i = 0; i < 200; ++i) branch.prompt.push_back((i * 3) % 64);
  EXPECT_EQ(ask(branch), 0);  // the sliding pages before position 448 are gone
  // That was a branch, and may be one again: this time they were kept.
  for (TokenId& token : std::span(branch.prompt).subspan(500)) token = 63 - token;
  EXPECT_EQ(ask(branch), 448);
  EXPECT_EQ(executor().wrong_texts() + executor().wrong_reads(), 0);
}

TEST_F(CoreCacheTest, AllChoicesStartFromTheCache) {
  ask(request(300, 1));
  const int64_t before = executor().tokens_computed();
  Request shared = request(300, 10);
  shared.choices = 3;
  shared.sampling.seed = 5;
  EXPECT_EQ(ask(shared), 256);
  EXPECT_EQ(executor().tokens_computed() - before, 3 * (300 - 256) + 3 * 9);
  EXPECT_EQ(core().stats().cached_tokens, 256);
  EXPECT_EQ(core().stats().prompt_tokens, 300 + 44);
}

TEST_F(CoreCacheTest, ScoringTakesNothingButGives) {
  ask(request(300, 1));
  Request scored = request(300, 2);
  scored.prompt_top_logprobs = 0;
  EXPECT_EQ(ask(scored), 0);
  scored.prompt[3] = 63 - scored.prompt[3];
  EXPECT_EQ(ask(scored), 0);
  scored.prompt_top_logprobs = -1;
  EXPECT_EQ(ask(scored), 256);
}

TEST_F(CoreCacheTest, OffMeansOff) {
  options.prefix_cache = false;
  ask(request(300, 1));
  EXPECT_EQ(ask(request(300, 1)), 0);
  EXPECT_EQ(core().stats().pages_full_cached, 0);
  EXPECT_EQ(core().stats().prefix_query_tokens, 0);
}

TEST_F(CoreCacheTest, TheOldestTextIsEvictedFirstFromItsEnd) {
  fake.pages_full = 12;
  options.context_max = 600;
  Request old_text = request(260, 1);
  Request young_text = request(261, 1);
  ask(old_text);
  ask(young_text);
  ask(request(310, 1));  // takes 5 pages: 4 are free, one is evicted
  EXPECT_EQ(ask(young_text), 256);
  EXPECT_EQ(ask(old_text), 192);
}

TEST_F(CoreCacheTest, EqualPromptsAtTheSameTimeEndUpWithOneCopy) {
  Log& one = add(request(300, 20));
  Log& two = add(request(300, 20));
  finish_all();
  EXPECT_EQ(one.tokens(), two.tokens());
  EXPECT_EQ(core().stats().pages_full_cached, 4);
}

}  // namespace
}  // namespace boreas
