// The decode kernel on a GPU, behind its executor, beside the CPU executor: ./check --gpu. Built with BOREAS_CUDA only;
// without a usable GPU the cases are skipped, saying why.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_executor.h"
#include "exec/cuda/cuda_executor.h"
#include "model/model.h"
#include "tests/emulation/distance.h"
#include "tests/emulation/executor_run.h"

namespace boreas {
namespace {

constexpr int32_t kPages = 64;

std::shared_ptr<const Model> demo_model() {
  auto model = load_model(BOREAS_SOURCE_DIR "/models/demo");
  return model.ok() ? *model : nullptr;
}

std::unique_ptr<Executor> on_cpu(std::shared_ptr<const Model> model) {
  CpuExecutorOptions options;
  options.pages_full = options.pages_sliding = kPages;
  options.context_max = std::min(2048, model->config().context_max);
  auto executor = make_cpu_executor(std::move(model), options);
  return executor.ok() ? std::move(executor).value() : nullptr;
}

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const Status usable = check_gpu(0);
    if (!usable.ok()) GTEST_SKIP() << usable.error().message;
  }
  std::unique_ptr<Executor> on_gpu(std::shared_ptr<const Model> model, CudaExecutorOptions options = {}) {
    options.pages_full = options.pages_sliding = kPages;
    options.context_max = std::min(2048, model->config().context_max);
    options.decode_only = true;  // prefill_test.cc looks at the other kernels
    // A sanitizer makes waits longer.
    if (const char* scale = std::getenv("BOREAS_DEADLINE_SCALE"))
      options.deadline_scale *= std::max(std::strtod(scale, nullptr), 1e-3);
    auto executor = make_cuda_executor(std::move(model), options);
    if (executor.ok()) return std::move(executor).value();
    ADD_FAILURE() << executor.error().message;
    return nullptr;
  }
};

// Its pages are page_first, page_first + 1, ...
Sequence sequence_of(int32_t slot, std::vector<TokenId> prompt, int32_t page_first) {
  Sequence sequence{slot, std::move(prompt), {}};
  for (int32_t page = 0; page < 6; ++page) sequence.pages.push_back(PageId(page_first + page));
  return sequence;
}

std::vector<TokenId> some_tokens(int32_t count, uint32_t seed, int32_t vocabulary) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<TokenId>(((static_cast<uint32_t>(i) * 2654435761u + seed * 40503u) >> 8) %
                                          static_cast<uint32_t>(vocabulary)));
  return tokens;
}

TEST_F(OnGpu, LogprobsAgreeWithTheCpuExecutor) {
  for (const auto& model : {golden_model(), demo_model()}) {
    ASSERT_TRUE(model);
    auto gpu = on_gpu(model), cpu = on_cpu(model);
    ASSERT_TRUE(gpu);
    ASSERT_TRUE(cpu);
    for (int32_t length : {1, 7, 63, 64, 65, 150}) {
      const Sequence sequence =
          sequence_of(1, some_tokens(length, static_cast<uint32_t>(length), model->config().vocab_size), 3);
      const Decoded a = decode(*gpu, {sequence}, 4, true)[0], b = decode(*cpu, {sequence}, 4, true)[0];
      ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
      for (size_t step = 0; step < a.logprobs.size(); ++step) {
        if (step > 0 && a.tokens[step - 1] != b.tokens[step - 1]) break;  // a near tie: other tokens from here on
        const double off = distance(a.logprobs[step], b.logprobs[step]);
        EXPECT_LT(off, bf16_distance(model->config().layer_count())) << "length " << length << ", step " << step;
      }
    }
  }
}

// Promise 1: the same bits run to run, and with any neighbours.
TEST_F(OnGpu, BitsDependOnTheRowAlone) {
  const auto model = golden_model();
  ASSERT_TRUE(model);
  auto gpu = on_gpu(model);
  ASSERT_TRUE(gpu);
  const Sequence own = sequence_of(0, some_tokens(20, 5, 512), 0);
  const Decoded alone = decode(*gpu, {own}, 20, true)[0];
  for (int32_t repeat = 0; repeat < 200; ++repeat) {
    std::vector<Sequence> sequences{own};
    for (int32_t k = 1; k <= repeat % 8; ++k)
      sequences.push_back(
          sequence_of(k, some_tokens(1 + (repeat * 7 + k * 11) % 40, static_cast<uint32_t>(repeat + k), 512), 6 * k));
    const Decoded among = decode(*gpu, sequences, 20, true)[0];
    ASSERT_EQ(among.tokens, alone.tokens) << repeat;
    ASSERT_EQ(among.logprobs, alone.logprobs) << repeat;
  }
}

// With log-probabilities the host draws, from the same logits: any kind of drawing that the kernel does, eight rows of
// different kinds side by side, and each alone.
TEST_F(OnGpu, DrawsAreTheHosts) {
  for (const auto& model : {golden_model(), demo_model()}) {
    ASSERT_TRUE(model);
    auto gpu = on_gpu(model);
    ASSERT_TRUE(gpu);
    for (uint32_t round = 0; round < 4; ++round) {
      std::vector<Sequence> sequences;
      for (int32_t slot = 0; slot < 8; ++slot) {
        sequences.push_back(sequence_of(slot, some_tokens(9 + slot, 10 * round, model->config().vocab_size), 6 * slot));
        SamplingParams& params = sequences.back().sampling;
        params.temperature =
            slot == 7 ? 0.0f : 0.4f * static_cast<float>(1 + (static_cast<uint32_t>(slot) + round) % 4);
        params.seed = 1000 * round + static_cast<uint64_t>(slot);
        params.choice_index = slot % 3;
        if (slot % 4 == 1) params.top_p = slot == 1 ? 0.95f : 0.2f;
        if (slot % 4 == 2) params.top_k = slot == 2 ? 3 : 100;
        if (slot == 3 || slot == 5) params.min_p = 0.1f;
      }
      const auto by_host = decode(*gpu, sequences, 60, true), by_device = decode(*gpu, sequences, 60, false);
      for (size_t i = 0; i < sequences.size(); ++i) {
        EXPECT_EQ(by_device[i].tokens, by_host[i].tokens) << "round " << round << " slot " << i;
        if (round > 0) continue;
        EXPECT_EQ(decode(*gpu, {sequences[i]}, 60, false)[0].tokens, by_device[i].tokens) << i;
      }
    }
  }
}

// Steps cut into kernels give the megakernel's bits, alone and side by side, drawn by the host from all logits and by
// the device.
TEST_F(OnGpu, ArmsOfComparisonGiveTheMegakernelsBits) {
  const auto model = golden_model();
  ASSERT_TRUE(model);
  std::vector<Sequence> sequences;
  for (int32_t slot = 0; slot < 5; ++slot) {
    sequences.push_back(sequence_of(slot, some_tokens(3 + 29 * slot, static_cast<uint32_t>(slot), 512), 6 * slot));
    SamplingParams& params = sequences.back().sampling;
    params.temperature = slot == 0 ? 0.0f : 0.8f;
    params.seed = 70 + static_cast<uint64_t>(slot);
    if (slot == 2) params.top_p = 0.3f;
    if (slot == 3) params.top_k = 2;
  }
  struct Run {
    std::vector<Decoded> alone, together, drawn;
  };
  const auto run = [&](CudaArm arm, KernelCut cut, Run& out) {
    CudaExecutorOptions options;
    options.arm = arm;
    options.cut = cut;
    auto executor = on_gpu(model, options);
    ASSERT_TRUE(executor);
    out.alone = decode(*executor, {sequences[4]}, 40, true);
    out.together = decode(*executor, sequences, 40, true);
    out.drawn = decode(*executor, sequences, 40, false);
  };
  Run whole;
  run(CudaArm::kMegakernel, KernelCut::kLevels, whole);
  for (const CudaArm arm : {CudaArm::kGraph, CudaArm::kDependentLaunch}) {
    for (const KernelCut cut : {KernelCut::kLevels, KernelCut::kOps}) {
      Run pieces;
      run(arm, cut, pieces);
      const std::string what = std::string(arm == CudaArm::kGraph ? "graph" : "dependent launch") +
                               (cut == KernelCut::kOps ? " by op" : " by level");
      expect_equal(pieces.alone, whole.alone, what + ", alone");
      expect_equal(pieces.together, whole.together, what + ", together");
      expect_equal(pieces.drawn, whole.drawn, what + ", drawn");
    }
  }
}

// 34 seeds of some 310 steps, one to eight rows of different lengths: more than 10,000 steps with pauses before every
// wait and publication.
TEST_F(OnGpu, RandomDelaysChangeNothing) {
  const auto model = golden_model();
  ASSERT_TRUE(model);
  std::vector<Sequence> sequences;
  for (int32_t slot = 0; slot < 8; ++slot)
    sequences.push_back(sequence_of(slot, some_tokens(9 + 3 * slot, static_cast<uint32_t>(8 + slot), 512), 6 * slot));
  constexpr int32_t kTokens = 300;
  auto plain = on_gpu(model);
  ASSERT_TRUE(plain);
  const std::vector<Decoded> wanted = decode(*plain, sequences, kTokens, true);
  plain.reset();
  for (uint32_t seed = 1; seed <= 34; ++seed) {
    CudaExecutorOptions options;
    options.delay_seed = seed;
    auto delayed = on_gpu(model, options);
    ASSERT_TRUE(delayed);
    const size_t rows = 1 + seed % sequences.size();
    const auto found =
        decode(*delayed, {sequences.begin(), sequences.begin() + static_cast<ptrdiff_t>(rows)}, kTokens, true);
    for (size_t i = 0; i < rows; ++i) {
      ASSERT_EQ(found[i].tokens, wanted[i].tokens) << "seed " << seed << ", row " << i;
      ASSERT_EQ(found[i].logprobs, wanted[i].logprobs) << "seed " << seed << ", row " << i;
    }
  }
}

}  // namespace
}  // namespace boreas
