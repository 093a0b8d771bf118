// Prefill on a GPU, behind the executor: against the CPU executor, and equal bits however a prompt is cut, whatever
// runs beside it, run to run. Skipped, saying why, without a usable GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_executor.h"
#include "exec/cuda/cuda_executor.h"
#include "model/model.h"
#include "tests/emulation/distance.h"
#include "tests/emulation/prefill_run.h"

namespace boreas {
namespace {

constexpr int32_t kPages = 64;

std::shared_ptr<const Model> demo_model() {
  auto model = load_model(BOREAS_SOURCE_DIR "/models/demo");
  return model.ok() ? *model : nullptr;
}

std::vector<TokenId> some_tokens(int32_t count, uint32_t seed, int32_t vocabulary) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<TokenId>(((static_cast<uint32_t>(i) * 2654435761u + seed * 40503u) >> 8) %
                                          static_cast<uint32_t>(vocabulary)));
  return tokens;
}
// Its pages are page_first, page_first + 1, ...
Sequence sequence_of(int32_t slot, std::vector<TokenId> prompt, int32_t page_first) {
  Sequence sequence{slot, std::move(prompt), {}};
  const int32_t pages = static_cast<int32_t>(sequence.prompt.size()) / kPagePositions + 2;
  for (int32_t page = 0; page < pages; ++page) sequence.pages.push_back(PageId(page_first + page));
  return sequence;
}

class PrefillOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const Status usable = check_gpu(0);
    if (!usable.ok()) GTEST_SKIP() << usable.error().message;
  }
  std::unique_ptr<Executor> on_gpu(std::shared_ptr<const Model> model, CudaExecutorOptions options = {}) {
    if (options.pages_full == 0) options.pages_full = options.pages_sliding = kPages;
    options.context_max = std::min(options.pages_full * kPagePositions, model->config().context_max);
    auto executor = make_cuda_executor(std::move(model), options);
    if (executor.ok()) return std::move(executor).value();
    ADD_FAILURE() << executor.error().message;
    return nullptr;
  }
  std::unique_ptr<Executor> on_cpu(std::shared_ptr<const Model> model) {
    CpuExecutorOptions options;
    options.pages_full = options.pages_sliding = kPages;
    options.context_max = std::min(kPages * kPagePositions, model->config().context_max);
    auto executor = make_cpu_executor(std::move(model), options);
    if (executor.ok()) return std::move(executor).value();
    ADD_FAILURE() << executor.error().message;
    return nullptr;
  }
};

// Where two experts are nearly tied, the rounding of q, k and v before RoPE may tip the scales for a token, which then
// is somebody else's; so most prompts must agree, not all.
TEST_F(PrefillOnGpu, LogprobsAgreeWithTheCpuExecutor) {
  for (const auto& model : {golden_model(), demo_model()}) {
    ASSERT_TRUE(model);
    auto gpu = on_gpu(model), cpu = on_cpu(model);
    ASSERT_TRUE(gpu && cpu);
    EXPECT_FALSE(gpu->info().one_arithmetic);
    std::vector<double> off;
    for (int32_t length : {2, 8, 20, 33, 63, 64, 65, 66, 100, 127, 128, 129, 150, 300, 400}) {
      const Sequence sequence =
          sequence_of(1, some_tokens(length, static_cast<uint32_t>(length), model->config().vocab_size), 3);
      const auto a = logprobs_of(*gpu, sequence, {}, 0), b = logprobs_of(*cpu, sequence, {}, 0);
      ASSERT_TRUE(a.size() == 1 && b.size() == 1);
      off.push_back(distance(a[0], b[0]));
      std::printf("%d tokens: %.5f\n", length, off.back());
    }
    std::sort(off.begin(), off.end());
    EXPECT_LT(off[off.size() * 2 / 3], prefill_distance(model->config().layer_count()));
  }
}

TEST_F(PrefillOnGpu, BitsDoNotDependOnCuts) {
  for (const auto& model : {golden_model(), demo_model()}) {
    ASSERT_TRUE(model);
    auto gpu = on_gpu(model);
    ASSERT_TRUE(gpu);
    const Sequence sequence = sequence_of(2, some_tokens(500, 4, model->config().vocab_size), 7);
    const auto whole = logprobs_of(*gpu, sequence, {}, 4);
    ASSERT_EQ(whole.size(), 5u);
    for (const std::vector<int32_t>& cuts :
         {std::vector<int32_t>{2}, {7, 64}, {65, 100, 132}, {128, 256, 384}, {3, 6, 9, 490, 498}, {}})
      EXPECT_EQ(logprobs_of(*gpu, sequence, cuts, 4), whole) << (cuts.empty() ? 0 : cuts[0]);
    gpu.reset();
    CudaExecutorOptions small;
    small.tokens_max = 100;  // and so of a batch
    gpu = on_gpu(model, small);
    ASSERT_TRUE(gpu);
    EXPECT_EQ(logprobs_of(*gpu, sequence, {100, 200, 300, 397, 490}, 4), whole);
  }
}

TEST_F(PrefillOnGpu, BitsDoNotDependOnNeighbours) {
  const auto model = golden_model();
  ASSERT_TRUE(model);
  auto gpu = on_gpu(model);
  ASSERT_TRUE(gpu);
  const Sequence own = sequence_of(0, some_tokens(200, 5, 512), 0);
  const Decoded alone = decode(*gpu, {own}, 6, true)[0];
  for (int32_t repeat = 0; repeat < 30; ++repeat) {
    std::vector<Sequence> sequences{own};
    for (int32_t k = 1; k <= repeat % 8; ++k)
      sequences.push_back(sequence_of(
          k, some_tokens(1 + (repeat * 37 + k * 101) % 300, static_cast<uint32_t>(repeat + k), 512), 7 * k));
    std::swap(sequences.front(), sequences.back());
    const Decoded among = decode(*gpu, sequences, 6, true).back();
    ASSERT_EQ(among.tokens, alone.tokens) << repeat;
    ASSERT_EQ(among.logprobs, alone.logprobs) << repeat;
  }
}

// Made-up weights of the published shape, a prompt longer than the window.
TEST_F(PrefillOnGpu, PublishedShapeIsFiniteAndEqualForAnyCut) {
  const auto shape = model_shape("north");
  ASSERT_TRUE(shape.ok());
  const auto model = make_dummy_model(*shape, {}, DummyValues::kMadeByExecutor);
  ASSERT_TRUE(model.ok());
  CudaExecutorOptions options;
  options.pages_full = options.pages_sliding = 70;
  options.sequence_slots = options.rows_max = 1;
  options.tokens_max = 8192;
  auto gpu = on_gpu(*model, options);
  ASSERT_TRUE(gpu);
  const Sequence sequence = sequence_of(0, some_tokens(4100, 9, 262144), 0);
  const auto whole = logprobs_of(*gpu, sequence, {}, 8);
  ASSERT_EQ(whole.size(), 9u);
  for (const std::vector<float>& logprobs : whole)
    EXPECT_TRUE(std::all_of(logprobs.begin(), logprobs.end(), [](float value) { return std::isfinite(value); }));
  EXPECT_EQ(logprobs_of(*gpu, sequence, {1000, 1777, 4097}, 8), whole);
}

}  // namespace
}  // namespace boreas
