// Times every product of prefill on the North shape and prints a line each: time, TFLOP/s, GB/s of weights, and of
// dense products cuBLASLt's time beside ours (its SwiGLU products have no SwiGLU). Weights of dense products take turns
// so that they do not come from the L2 cache. --results records a JSON line each.
#include <cuda_runtime.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/bench_support.h"
#include "exec/cuda/shape_testing.h"
#include "tests/gpu/cublas_products.h"
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

// Microseconds of cuBLASLt's product of the same shape; 0, with a message, where it has none.
double yardstick_us(CublasProducts* cublas, const PrefillGemmCase& c, GemmMatrix matrix, int32_t tokens, void* y) {
  if (cublas == nullptr) return 0;
  const int32_t columns = c.columns(matrix) * (c.is_swiglu(matrix) ? 2 : 1), k = c.k(matrix);
  const size_t matrix_bytes = size_t(columns) * size_t(k) * 2;
  GpuBuffer x(size_t(tokens) * size_t(k) * 2), w(matrix_bytes * kCopies);
  x.fill(0x3c);
  w.fill(0x3c);
  std::string problem;
  const auto note = [&problem](const Status& status) {
    if (!status.ok()) problem = status.error().message;
  };
  note(cublas->choose(tokens, columns, k, c.is_floats(matrix)));
  double us = 0;
  if (problem.empty())
    us = time_us(
        [&](int32_t copy) { note(cublas->run(x.as<void>(), w.as<std::byte>() + matrix_bytes * size_t(copy), y)); });
  if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
  return problem.empty() ? us : 0;
}

bool run(const std::vector<int32_t>& token_counts, const std::string& results) {
  auto cublas = CublasProducts::make();
  if (!cublas.ok()) std::fprintf(stderr, "%s\n", cublas.error().message.c_str());
  cudaDeviceProp device{};
  cudaGetDeviceProperties(&device, 0);
  bool recorded = true;
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
      const double other =
          grouped ? 0 : yardstick_us(cublas.ok() ? cublas->get() : nullptr, c, matrix, tokens, y.as<void>());
      std::printf("tokens %5d %-15s %9.1f us %7.1f TFLOP/s %7.1f GB/s of weights", tokens, kNames[i], us,
                  flops / us * 1e-6, bytes / us * 1e-3);
      if (other > 0) std::printf("  cuBLASLt %9.1f us, %.2f of ours", other, other / us);
      std::printf("\n");
      boost::json::object line = result_line("prefill_gemm", grouped ? "grouped" : "dense", device.name);
      line["model_shape"] = "north (dummy weights)";
      line["dtype"] = "bf16";
      line["product"] = kNames[i];
      line["tokens"] = tokens;
      line["us"] = us;
      line["tflop_s"] = flops / us * 1e-6;
      if (other > 0) line["cublaslt_us"] = other;
      if (!results.empty()) recorded = record_result(line, results) && recorded;
      if (matrix != GemmMatrix::kDenseUpGate && matrix != GemmMatrix::kDenseDown) layer_us += us;
    }
    std::printf("tokens %5d routed layer %.1f us, 49 layers %.0f tok/s\n", tokens, layer_us,
                tokens / layer_us / 49 * 1e6);
  }
  return recorded;
}

int main_of(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);  // a run that is cut short shows what it has
  std::vector<int32_t> token_counts = {1, 64, 128, 512, 1024, 2048, 8192};
  std::string results;
  CLI::App app("Times the products of prefill on the North shape, the dense ones beside cuBLASLt's.");
  app.add_option("--tokens", token_counts, "numbers of tokens")
      ->check(CLI::Range(1, kTokensMax))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--results", results, "append the lines to <machine>.ndjson in this folder")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  return run(token_counts, results) ? 0 : 2;
}

}  // namespace
}  // namespace boreas::cuda

int main(int argc, char** argv) { return boreas::cuda::main_of(argc, argv); }
