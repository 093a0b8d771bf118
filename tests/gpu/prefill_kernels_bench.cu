// How fast the prefill's own kernels are, shape of the published model, one layer's worth of each: a JSON line a case.
// Needs a GPU; not a test.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "exec/cuda/prefill/arguments.h"
#include "exec/cuda/prefill/batch.h"
#include "exec/cuda/prefill/launches.h"
#include "exec/cuda/shape.h"

namespace boreas::cuda::prefill {
namespace {

using S = NorthShape;
constexpr int32_t kTokens = 8192, kQueries = S::kQueryHeads / S::kKvHeads;
constexpr int32_t kWidth = (S::kQueryHeads + 2 * S::kKvHeads) * kKvHeadDim;
constexpr int32_t kWindow = 4096;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

__global__ void fill_noise(uint16_t* to, int64_t count, float scale, uint32_t seed) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + seed;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
    const float value = (static_cast<float>(x & 0xffff) / 32768.0f - 1.0f) * scale;
    to[i] = static_cast<uint16_t>(__float_as_uint(value) >> 16);
  }
}

template <class T>
T* allocate(int64_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<size_t>(count) * sizeof(T)), "cudaMalloc");
  check(cudaMemset(memory, 0, static_cast<size_t>(count) * sizeof(T)), "cudaMemset");
  return static_cast<T*>(memory);
}
uint16_t* noise(int64_t count, float scale, uint32_t seed) {
  uint16_t* memory = allocate<uint16_t>(count);
  fill_noise<<<1024, 256>>>(memory, count, scale, seed);
  return memory;
}
template <class T>
T* copied(const std::vector<T>& values) {
  T* memory = allocate<T>(static_cast<int64_t>(values.size()));
  check(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return memory;
}

// Median of several runs, in microseconds.
double microseconds(const std::function<cudaError_t()>& work) {
  cudaEvent_t from, to;
  check(cudaEventCreate(&from), "cudaEventCreate");
  check(cudaEventCreate(&to), "cudaEventCreate");
  std::vector<double> times;
  for (int32_t run = -2; run < 7; ++run) {
    check(cudaEventRecord(from), "cudaEventRecord");
    check(work(), "launch");
    check(cudaEventRecord(to), "cudaEventRecord");
    check(cudaEventSynchronize(to), "kernel");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
    if (run >= 0) times.push_back(milliseconds * 1e3);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Bench {
  explicit Bench(int32_t context) : positions(context) {
    std::vector<int32_t> table;
    for (int32_t page = 0; page < context / 64; ++page) table.push_back(page);
    page_table = copied(table);
    pages = reinterpret_cast<uint8_t*>(noise(int64_t{context} / 64 * S::kKvHeads * kKvPageHeadBytes / 2, 1.0f, 3));
    qkv = noise(int64_t{kTokens} * kWidth, 1.0f, 5);
    output = allocate<uint16_t>(int64_t{kTokens} * S::kQueryHeads * kKvHeadDim);
    turns = allocate<float>(int64_t{kTokens} * kKvHeadDim);
    unfolded = allocate<uint8_t>(int64_t{context} / 64 * S::kKvHeads * kUnfoldedBytes);
  }

  // The last `tokens` positions.
  void attention(int32_t tokens, bool sliding) const {
    const std::vector<TokenId> ids(static_cast<size_t>(tokens), 1);
    PrefillBatch batch;
    batch.tokens = tokens;
    batch.ranges.push_back({ids, positions - tokens, {}});
    const PrefillTables tables = make_prefill_tables(batch, kTileRows / kQueries, kWindow);
    AttentionArgs args{};
    args.qkv = qkv;
    args.output = output;
    args.items = copied(tables.items);
    args.unfolded = unfolded;
    args.query_heads = S::kQueryHeads;
    args.kv_heads = S::kKvHeads;
    args.sliding = sliding;
    args.window = kWindow;
    const std::vector<UnfoldedPage>& list = sliding ? tables.sliding : tables.full;
    const UnfoldArgs unfold{copied(list), page_table, pages, S::kKvHeads * kKvPageHeadBytes, 0, unfolded, S::kKvHeads};
    const double unfold_us = microseconds([&] { return launch_unfold(unfold, static_cast<int32_t>(list.size()), 0); });
    check(prepare_attention(kQueries), "prepare");
    const double us =
        microseconds([&] { return launch_attention(args, kQueries, static_cast<int32_t>(tables.items.size()), 0); });
    double keys = 0;
    for (const PrefillToken& token : tables.tokens)
      keys += token.position + 1 - first_visible(token.position, sliding, kWindow);
    std::printf(
        "{\"kernel\": \"attention\", \"tokens\": %d, \"context\": %d, \"sliding\": %d, \"us\": %.1f, "
        "\"unfold_us\": %.1f, \"tflops\": %.1f}\n",
        tokens, positions, static_cast<int>(sliding), us, unfold_us,
        keys * 4 * S::kQueryHeads * kKvHeadDim / us * 1e-6);
  }

  void append(bool rope) const {
    const std::vector<TokenId> ids(kTokens, 1);
    PrefillBatch batch;
    batch.tokens = kTokens;
    batch.ranges.push_back({ids, positions - kTokens, {}});
    AppendArgs args{};
    args.tokens = copied(make_prefill_tables(batch, 32, kWindow).tokens);
    args.qkv = qkv;
    args.turns = rope ? turns : nullptr;
    args.page_tables = page_table;
    args.pages = pages;
    args.page_bytes = S::kKvHeads * kKvPageHeadBytes;
    args.token_count = kTokens;
    args.query_heads = S::kQueryHeads;
    args.kv_heads = S::kKvHeads;
    std::printf("{\"kernel\": \"append\", \"rope\": %d, \"us\": %.1f}\n", static_cast<int>(rope),
                microseconds([&] { return launch_append(args, 0); }));
    RopeArgs table{args.tokens, turns, kTokens, {}};
    std::printf("{\"kernel\": \"rope table\", \"us\": %.1f}\n", microseconds([&] { return launch_rope(table, 0); }));
  }

  void rows() const {
    constexpr int32_t kChoices = S::kExpertsPerToken, kHidden = S::kHidden;
    RouteArgs route{};
    route.logits = noise(kTokens * S::kExperts, 4.0f, 9);
    route.chosen = allocate<int32_t>(kTokens * kChoices);
    route.weights = allocate<float>(kTokens * kChoices);
    route.counts = allocate<int32_t>(kTokens / kGroupTokens * S::kExperts);
    route.first = allocate<int32_t>(S::kExperts + 1);
    route.rows = allocate<int32_t>(kTokens * kChoices);
    route.slots = allocate<int32_t>(kTokens * kChoices);
    route.tokens = kTokens;
    route.experts = S::kExperts;
    route.choices = kChoices;
    std::printf("{\"kernel\": \"route\", \"us\": %.1f}\n", microseconds([&] { return launch_route(route, 0); }));
    FinishArgs finish{};
    finish.residual = noise(int64_t{kTokens} * kHidden, 1.0f, 1);
    finish.projected = allocate<float>(int64_t{kTokens} * kHidden);
    finish.mlp = allocate<float>(int64_t{kTokens} * kChoices * kHidden);
    finish.slots = route.slots;
    finish.weights = route.weights;
    finish.norm = noise(kHidden, 1.0f, 2);
    finish.normed = allocate<uint16_t>(int64_t{kTokens} * kHidden);
    finish.hidden = kHidden;
    finish.choices = kChoices;
    finish.eps = 1e-6f;
    std::printf("{\"kernel\": \"finish\", \"us\": %.1f}\n",
                microseconds([&] { return launch_finish(finish, kTokens, 0); }));
  }

  int32_t positions;
  int32_t* page_table;
  uint8_t *pages, *unfolded;
  uint16_t *qkv, *output;
  float* turns;
};

}  // namespace
}  // namespace boreas::cuda::prefill

int main() {
  using boreas::cuda::prefill::Bench;
  const Bench short_one(8192), long_one(131072);
  for (bool sliding : {false, true}) {
    short_one.attention(8192, sliding);
    short_one.attention(512, sliding);
    long_one.attention(8192, sliding);
  }
  short_one.append(true);
  short_one.append(false);
  short_one.rows();
  return 0;
}
