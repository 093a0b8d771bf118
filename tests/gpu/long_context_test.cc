// One step of models/demo at position 65,535 behind a filled cache, on a GPU, against transformers: the CPU executor's
// case of tests/golden/long_context. Without a usable GPU it is skipped, saying why.
#include <gtest/gtest.h>

#include "exec/cuda/cuda_executor.h"
#include "tests/golden/long_context/executor_checks.h"

namespace boreas {
namespace {

TEST(LongContextOnGpu, AgreesWithTheOracleOnTheWholeCache) {
  const Status usable = check_gpu(0);
  if (!usable.ok()) GTEST_SKIP() << usable.error().message;
  const auto model = load_demo_model();
  ASSERT_TRUE(model);
  const auto golden = load_long_context_golden(model->config());
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  CudaExecutorOptions options;
  options.sequence_slots = options.rows_max = 1;
  options.pages_full = long_context_full_pages(golden->position);
  options.pages_sliding = long_context_sliding_pages(model->config(), golden->position);
  options.decode_only = true;  // the token is decode's in any case
  const auto executor = make_cuda_executor(model, options);
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  ASSERT_EQ((*executor)->info().context_max, model->config().context_max);
  check_long_context(**executor, model->config(), *golden, PageLayout::kTiles);
}

}  // namespace
}  // namespace boreas
