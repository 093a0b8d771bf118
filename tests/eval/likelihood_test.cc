// Divergence and likelihood: the sums by hand, the CPU executor against the FP32 forward pass, oracle files.
#include "apps/eval_likelihood.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "exec/cpu/cpu_executor.h"
#include "model/model.h"
#include "tests/eval/temporary.h"

namespace boreas {
namespace {

namespace json = boost::json;

std::shared_ptr<const Model> tiny() {
  static const std::shared_ptr<const Model> model = load_model(BOREAS_SOURCE_DIR "/models/tiny").value();
  return model;
}

std::vector<ScoredText> texts() {
  std::vector<ScoredText> made;
  for (int32_t i = 0; i < 3; ++i) {
    ScoredText text{"text-" + std::to_string(i), {}, 60};
    for (int32_t t = 0; t < 90 + i; ++t) text.tokens.push_back((7 * t * t + 31 * i + 5) % tiny()->config().vocab_size);
    made.push_back(std::move(text));
  }
  return made;
}

std::unique_ptr<Executor> executor_of(int32_t tokens_max) {
  CpuExecutorOptions options;
  options.threads = 2;
  options.sequence_slots = 1;
  options.tokens_max = tokens_max;
  return make_cpu_executor(tiny(), options).value();
}

Oracle reference(ReferenceFlaw flaw) {
  return [flaw](const ScoredText& text) -> Result<std::vector<float>> {
    return reference_forward(*tiny(), text.tokens, flaw).logits;
  };
}

TEST(EvalLikelihood, OnePositionByHand) {
  const std::vector<float> oracle{1.0f + std::log(0.5f), 1.0f + std::log(0.5f)};
  const std::vector<float> here{std::log(0.25f), std::log(0.75f)};
  const PositionFigures figures = compare_position(oracle, here, 0);
  EXPECT_NEAR(figures.kl, 0.5 * std::log(0.5 / 0.25) + 0.5 * std::log(0.5 / 0.75), 1e-6);
  EXPECT_FALSE(figures.top1_equal);  // of equal ones the first counts
  EXPECT_NEAR(figures.nll_here, -std::log(0.25), 1e-6);
  EXPECT_NEAR(figures.nll_oracle, -std::log(0.5), 1e-6);
  const PositionFigures self = compare_position(here, here, 1);
  EXPECT_NEAR(self.kl, 0, 1e-12);
  EXPECT_TRUE(self.top1_equal);
}

TEST(EvalLikelihood, TheExecutorIsNearTheReferenceAndFarFromAFlawedOne) {
  const std::unique_ptr<Executor> executor = executor_of(2048);
  const Result<LikelihoodResult> good = measure_likelihood(*executor, texts(), reference(ReferenceFlaw::kNone), 2);
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(good->all.positions, 89 + 90 + 91);
  EXPECT_EQ(good->answers.positions, 30 + 31 + 32);
  EXPECT_GE(good->all.kl_mean, 0);
  EXPECT_LE(good->all.kl_mean, good->all.kl_p99);
  EXPECT_LE(good->all.kl_p99, good->all.kl_max);
  EXPECT_GT(good->all.top1_equal, 0.95);
  EXPECT_NEAR(good->all.nll_here, good->all.nll_oracle, 0.01);
  const Result<LikelihoodResult> bad =
      measure_likelihood(*executor, texts(), reference(ReferenceFlaw::kRenormalisedTopK), 2);
  ASSERT_TRUE(bad.ok()) << bad.error().message;
  EXPECT_GT(bad->all.kl_mean, 10 * good->all.kl_mean);
}

// Measured over all bundled texts: 2.4e-5 in the mean, 0.071 at worst, top-1 equal at 99.6 %; of the answers 1e-8.
TEST(EvalLikelihood, TheBundledModelIsNearItsReference) {
  const std::string directory = BOREAS_SOURCE_DIR "/models/demo";
  const std::shared_ptr<const Model> model = load_model(directory).value();
  const Tokenizer tokenizer = Tokenizer::load(directory).value();
  const std::vector<ScoredText> some = read_scored_texts(directory + "/likelihood.jsonl", tokenizer, 300).value();
  CpuExecutorOptions options;
  options.sequence_slots = 1;
  const std::unique_ptr<Executor> executor = make_cpu_executor(model, options).value();
  const Oracle oracle = [&](const ScoredText& text) -> Result<std::vector<float>> {
    return reference_forward(*model, text.tokens).logits;
  };
  const LikelihoodResult result = measure_likelihood(*executor, some, oracle, 2).value();
  EXPECT_LT(result.all.kl_mean, 2.4e-4);
  EXPECT_GT(result.all.top1_equal, 0.97);
  EXPECT_LT(result.answers.kl_mean, 1e-6);
  EXPECT_EQ(result.answers.top1_equal, 1);
  EXPECT_NEAR(result.all.nll_here, result.all.nll_oracle, 0.01);
}

TEST(EvalLikelihood, RangesGiveTheBitsOfTheWhole) {
  const std::vector<TokenId> tokens = texts().back().tokens;
  const Result<std::vector<float>> whole = executor_logprobs(*executor_of(2048), tokens);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->size(), (tokens.size() - 1) * static_cast<size_t>(tiny()->config().vocab_size));
  for (const int32_t range : {2, 17, 64}) {
    const Result<std::vector<float>> parts = executor_logprobs(*executor_of(range), tokens);
    ASSERT_TRUE(parts.ok()) << parts.error().message;
    EXPECT_TRUE(*parts == *whole) << range;
  }
}

TEST(EvalLikelihood, ATextBeyondTheMemoryIsAnError) {
  CpuExecutorOptions options;
  options.sequence_slots = 1;
  options.pages_full = 1;
  options.pages_sliding = 2;
  const std::unique_ptr<Executor> executor = make_cpu_executor(tiny(), options).value();
  EXPECT_FALSE(executor_logprobs(*executor, texts().front().tokens).ok());
}

class EvalOracle : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = temporary("oracle");
    std::filesystem::create_directories(folder_);
    json::array list;
    for (const ScoredText& text : texts()) {
      list.push_back(json::object{{"id", text.id}, {"tokens", json::array(text.tokens.begin(), text.tokens.end())}});
      const std::vector<float> logits = reference(ReferenceFlaw::kNone)(text).value();
      write(text.id + ".f32", {reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float)});
    }
    write("index.json", json::serialize(json::object{{"vocab_size", tiny()->config().vocab_size}, {"texts", list}}));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& bytes) { std::ofstream(folder_ / name) << bytes; }
  Result<Oracle> read() { return read_oracle_folder(folder_.string(), tiny()->config().vocab_size); }

  std::filesystem::path folder_;
};

TEST_F(EvalOracle, AFolderOfLogitsIsAsGoodAsWhatWroteIt) {
  const Result<Oracle> oracle = read();
  ASSERT_TRUE(oracle.ok()) << oracle.error().message;
  const std::unique_ptr<Executor> executor = executor_of(2048);
  const LikelihoodResult from_file = measure_likelihood(*executor, texts(), *oracle, 2).value();
  const LikelihoodResult direct = measure_likelihood(*executor, texts(), reference(ReferenceFlaw::kNone), 2).value();
  EXPECT_EQ(from_file.all.kl_mean, direct.all.kl_mean);
  EXPECT_EQ(from_file.answers.nll_oracle, direct.answers.nll_oracle);
}

TEST_F(EvalOracle, WhatDoesNotFitIsAnError) {
  const Oracle oracle = read().value();
  ScoredText text = texts().front();
  text.tokens.back() ^= 1;
  EXPECT_FALSE(oracle(text).ok());
  text = texts().front();
  text.id = "unknown";
  EXPECT_FALSE(oracle(text).ok());
  write("text-0.f32", "short");
  EXPECT_FALSE(oracle(texts().front()).ok());
  write("text-0.f32",
        std::string(texts()[0].tokens.size() * static_cast<size_t>(tiny()->config().vocab_size) * 4, '\xFF'));
  EXPECT_FALSE(oracle(texts().front()).ok());  // not a number
  for (const char* bad : {"", "[]", "{}", R"({"vocab_size": 3, "texts": []})", R"({"vocab_size": 512})",
                          R"({"vocab_size": 512, "texts": [5]})", R"({"vocab_size": 512, "texts": [{"id": "a"}]})"}) {
    write("index.json", bad);
    EXPECT_FALSE(read().ok()) << bad;
  }
}

TEST(EvalTexts, TheBundledTextsAreReadAndBadOnesNamed) {
  const Tokenizer tokenizer = Tokenizer::load(BOREAS_SOURCE_DIR "/models/demo").value();
  const std::string bundled = BOREAS_SOURCE_DIR "/models/demo/likelihood.jsonl";
  const Result<std::vector<ScoredText>> all = read_scored_texts(bundled, tokenizer, 0);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_GE(all->size(), 30u);
  for (const ScoredText& text : *all) {
    EXPECT_LT(text.answer_from, text.tokens.size());
    EXPECT_EQ(text.tokens.back(), tokenizer.token_id("<|END_OF_TURN_TOKEN|>")) << text.id;
  }
  const Result<std::vector<ScoredText>> some = read_scored_texts(bundled, tokenizer, 1000);
  ASSERT_TRUE(some.ok());
  EXPECT_LT(some->size(), all->size());
  const std::string file = temporary("texts.jsonl").string();
  for (const char* bad : {"", "5", R"({"id": "a", "prompt": "x"})", R"({"id": "a", "prompt": "", "answer": ""})"}) {
    std::ofstream(file) << bad;
    EXPECT_FALSE(read_scored_texts(file, tokenizer, 0).ok()) << bad;
  }
  EXPECT_FALSE(read_scored_texts("/nowhere", tokenizer, 0).ok());
}

}  // namespace
}  // namespace boreas
