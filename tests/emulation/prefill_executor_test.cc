// Prefill behind the CUDA executor: prompts through the prefill kernels' source, everything else through the
// megakernel's, on the emulated device, against the CPU executor. On the golden checkpoint.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distance.h"
#include "emulated_executor.h"
#include "exec/cuda/megakernel.cuh"
#include "launch.h"
#include "model/model.h"
#include "prefill_emulation.h"
#include "prefill_run.h"

namespace boreas {
namespace {

std::unique_ptr<Executor> emulated(std::shared_ptr<const Model> model, int32_t tokens_max = 512) {
  CudaExecutorOptions options;
  options.rows_max = 4;
  options.tokens_max = tokens_max;
  cuda::HostDeviceOptions device_options;
  device_options.prefill_kernels = emulation::emulated_prefill();
  return emulation::emulated_executor(&emulation::launch_kernel<emulation::ExecutorCut>, std::move(model), options,
                                      device_options);
}

std::unique_ptr<Executor> plain(std::shared_ptr<const Model> model) {
  return emulation::cpu_executor_like_it(std::move(model));
}

std::vector<TokenId> some_tokens(int32_t count, int32_t seed) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((i * 131 + seed * 57 + i * i % 97) % 512);
  return tokens;
}
Sequence sequence_of(int32_t slot, std::vector<TokenId> prompt, int32_t page_first) {
  Sequence sequence{slot, std::move(prompt), {}};
  for (int32_t i = 0; i < 6; ++i) sequence.pages.push_back(PageId((page_first + i * 5) % 24));
  return sequence;
}

void expect_logprobs_of_the_cpu_executor(std::initializer_list<int32_t> lengths) {
  const auto model = golden_model();
  auto gpu = emulated(model), cpu = plain(model);
  ASSERT_TRUE(gpu && cpu);
  EXPECT_FALSE(gpu->info().one_arithmetic);
  for (int32_t length : lengths) {
    const Sequence sequence = sequence_of(1, some_tokens(length, length), 3);
    const auto a = logprobs_of(*gpu, sequence, {}), b = logprobs_of(*cpu, sequence, {});
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_LT(distance(a[i], b[i]), prefill_distance(model->config().layer_count())) << length << " " << i;
  }
}

TEST(EmulatedPrefill, LogprobsAgreeWithTheCpuExecutor) { expect_logprobs_of_the_cpu_executor({2, 65}); }
TEST(EmulatedPrefillFull, LogprobsAgreeWithTheCpuExecutor) { expect_logprobs_of_the_cpu_executor({150}); }

// Cut in ranges, and where the runner's own batches end.
void expect_equal_bits_when_cut(const std::vector<std::vector<int32_t>>& ways) {
  const auto model = golden_model();
  auto gpu = emulated(model);
  ASSERT_TRUE(gpu);
  const Sequence sequence = sequence_of(2, some_tokens(135, 4), 7);
  const auto whole = logprobs_of(*gpu, sequence, {});
  ASSERT_EQ(whole.size(), 2u);
  for (const std::vector<int32_t>& cuts : ways) EXPECT_EQ(logprobs_of(*gpu, sequence, cuts), whole) << cuts[0];
  auto small = emulated(model, 48);
  ASSERT_TRUE(small);
  EXPECT_EQ(logprobs_of(*small, sequence, {40, 80, 120}), whole);
}

TEST(EmulatedPrefill, BitsDoNotDependOnCuts) { expect_equal_bits_when_cut({}); }
TEST(EmulatedPrefillFull, BitsDoNotDependOnCuts) { expect_equal_bits_when_cut({{2}, {7, 64}, {65, 100, 132}}); }

// Prompts packed into one plan, decode rows among them.
TEST(EmulatedPrefill, BitsDoNotDependOnNeighbours) {
  const auto model = golden_model();
  auto gpu = emulated(model);
  ASSERT_TRUE(gpu);
  const Sequence own = sequence_of(0, some_tokens(70, 8), 0);
  const Decoded alone = decode(*gpu, {own}, 2, true)[0];
  std::vector<Sequence> all{sequence_of(3, some_tokens(1, 1), 4), sequence_of(1, some_tokens(33, 2), 1), own,
                            sequence_of(2, some_tokens(90, 3), 2)};
  const Decoded among = decode(*gpu, all, 2, true)[2];
  EXPECT_EQ(among.tokens, alone.tokens);
  EXPECT_EQ(among.logprobs, alone.logprobs);
}

}  // namespace
}  // namespace boreas
