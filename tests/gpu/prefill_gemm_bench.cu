// Times every product of prefill on the North shape and prints a line each: time, TFLOP/s, GB/s of weights. Weights of
// dense products take turns so that they do not come from the L2 cache. Arguments: numbers of tokens.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "exec/cuda/shape_testing.h"
#include "tests/gpu/prefill_gemm_case.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kTokensMax = 8192, kCopies = 4;
const char* const kNames[kGemmMatrices] = {"qkv",        "output",         "router",     "dense_up_gate",
                                           "dense_down", "expert_up_gate", "expert_down"};

// Median of some runs of several calls each, in microseconds a call.
template <class Call>
double time_us(Call call) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<double> times;
  for (int32_t run = 0; run < 7; ++run) {
    cudaEventRecord(begin);
    for (int32_t i = 0; i < kCopies; ++i) call(i);
    cudaEventRecord(end);
    finish_gpu_work();
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    times.push_back(ms * 1000.0 / kCopies);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

int32_t experts_hit(const MadeGroups& groups) {
  int32_t hit = 0;
  for (size_t e = 0; e + 1 < groups.first.size(); ++e) hit += groups.first[e + 1] > groups.first[e] ? 1 : 0;
  return hit;
}

void run(const std::vector<int32_t>& token_counts) {
  const PrefillGemmCase c(config_of_shape<NorthShape>(), kTokensMax, kCopies);
  GpuBuffer y(size_t{kTokensMax} * 8 * 2048 * 4);
  for (int32_t tokens : token_counts) {
    const MadeGroups groups = make_groups(tokens, c.config().experts, c.config().experts_per_token, 1);
    GpuBuffer first(groups.first.size() * 4), list(groups.tokens.size() * 4);
    first.set(groups.first.data(), first.bytes());
    list.set(groups.tokens.data(), list.bytes());
    const ExpertGroups on_gpu = {first.as<int32_t>(), list.as<int32_t>(), groups.first.back()};
    double layer_us = 0;
    for (int32_t i = 0; i < kGemmMatrices; ++i) {
      const GemmMatrix matrix = static_cast<GemmMatrix>(i);
      const bool grouped = c.is_expert(matrix);
      const double us = time_us([&](int32_t copy) {
        const Status status =
            grouped ? c.run_grouped(matrix, on_gpu, y.as<void>()) : c.run(matrix, tokens, copy, y.as<void>());
        if (!status.ok()) std::printf("%s\n", status.error().message.c_str());
      });
      const double rows = grouped ? groups.first.back() : tokens;
      const double flops = 2.0 * rows * c.columns(matrix) * (c.is_swiglu(matrix) ? 2 : 1) * c.k(matrix);
      const double bytes = static_cast<double>(c.weight_bytes(matrix)) *
                           (grouped ? double(experts_hit(groups)) / c.config().experts : 1.0);
      std::printf("tokens %5d %-15s %9.1f us %7.1f TFLOP/s %7.1f GB/s of weights\n", tokens, kNames[i], us,
                  flops / us * 1e-6, bytes / us * 1e-3);
      if (matrix != GemmMatrix::kDenseUpGate && matrix != GemmMatrix::kDenseDown) layer_us += us;
    }
    std::printf("tokens %5d routed layer %.1f us, 49 layers %.0f tok/s\n", tokens, layer_us,
                tokens / layer_us / 49 * 1e6);
  }
}

}  // namespace
}  // namespace boreas::cuda

int main(int count, char** values) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);  // a run that is cut short shows what it has
  std::vector<int32_t> token_counts;
  for (int i = 1; i < count; ++i) token_counts.push_back(std::clamp(std::atoi(values[i]), 1, boreas::cuda::kTokensMax));
  if (token_counts.empty()) token_counts = {1, 64, 128, 512, 1024, 2048, 8192};
  boreas::cuda::run(token_counts);
  return 0;
}
