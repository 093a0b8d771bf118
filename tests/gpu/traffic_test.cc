// Random traffic through the engine over the CUDA executor (tests/sim/traffic.h): prefix cache, chunks, cancels, swap,
// joins and leaves, on the demo checkpoint. Without a usable GPU it is skipped, saying why.
#include <gtest/gtest.h>

#include "base/check.h"
#include "exec/cuda/cuda_executor.h"
#include "tests/sim/traffic.h"

namespace boreas {
namespace {

std::unique_ptr<Executor> make_executor_on_gpu(const std::shared_ptr<const Model>& model, int32_t pages_full,
                                               int32_t pages_sliding) {
  auto executor = make_cuda_executor(model, traffic_options<CudaExecutorOptions>(pages_full, pages_sliding));
  CHECK(executor.ok());
  return std::move(*executor);
}

TEST(TrafficOnGpu, EqualsRunsAlone) {
  const Status usable = check_gpu(0);
  if (!usable.ok()) GTEST_SKIP() << usable.error().message;
  run_traffics(demo_world(), make_executor_on_gpu, 48, 4);
}

}  // namespace
}  // namespace boreas
