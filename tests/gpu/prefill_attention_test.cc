// The prefill's attention on a GPU, with wgmma as it is there: against plain double arithmetic around page and window
// edges, and equal bits however a range is cut. Skipped, saying why, without a usable GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "base/prng.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/prefill/arguments.h"
#include "exec/cuda/prefill/launches.h"
#include "exec/cuda/prefill/operand.h"
#include "program/layout.h"

namespace boreas::cuda::prefill {
namespace {

constexpr int32_t kKvHeads = 2;

// Memory of the GPU with a host copy.
template <class T>
class Shared {
 public:
  explicit Shared(size_t count, T value = {}) : host(count, value) {
    EXPECT_EQ(cudaMalloc(&device_, count * sizeof(T) + 1), cudaSuccess);
    push();
  }
  explicit Shared(const std::vector<T>& values) : Shared(values.size()) {
    host = values;
    push();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { cudaFree(device_); }
  void push() { EXPECT_EQ(cudaMemcpy(device_, host.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess); }
  void pull() { EXPECT_EQ(cudaMemcpy(host.data(), device_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess); }
  T* device() const { return static_cast<T*>(device_); }
  std::vector<T> host;

 private:
  size_t bytes() const { return host.size() * sizeof(T); }
  void* device_ = nullptr;
};

// One sequence of one layer: q, k, v of every position, and pages in a scrambled order in memory full of NaN.
struct Attended {
  Attended(int32_t the_queries, int32_t the_length, bool the_sliding, int32_t the_window, uint64_t seed)
      : queries(the_queries),
        length(the_length),
        sliding(the_sliding),
        window(the_window),
        pages((the_length + 63) / 64),
        pool(static_cast<size_t>((pages + 9) * kKvHeads * kKvPageHeadBytes), 0xff),
        table(static_cast<size_t>(pages)),
        unfolded(static_cast<size_t>(pages * kKvHeads * kUnfoldedBytes), 0xff),
        qkv(static_cast<size_t>(the_length * width())),
        output(static_cast<size_t>(the_length * query_width()), 0xffff) {
    Prng prng(seed);
    for (uint16_t& value : qkv.host) value = float_to_bf16((prng.uniform() - 0.5f) * 4);
    for (int32_t page = 0; page < pages; ++page) table.host[static_cast<size_t>(page)] = pages - 1 - page;
    qkv.push();
    table.push();
    EXPECT_EQ(prepare_attention(queries), cudaSuccess);
  }
  int32_t width() const { return (queries + 2) * kKvHeads * kKvHeadDim; }
  int32_t query_width() const { return queries * kKvHeads * kKvHeadDim; }

  // Positions first .. first + count - 1 as one batch, into `output`.
  void run(int32_t first, int32_t count) {
    std::vector<TokenId> ids(static_cast<size_t>(count), 1);
    PrefillBatch batch;
    batch.tokens = count;
    const int32_t sliding_first = first_visible(first, true, window) / 64;
    batch.ranges.push_back({ids, first, {0, sliding_first, sliding_first}});
    const PrefillTables tables = make_prefill_tables(batch, kTileRows / queries, window);
    const Shared<PrefillToken> tokens(tables.tokens);
    const Shared<AttentionItem> items(tables.items);
    const Shared<UnfoldedPage> list(sliding ? tables.sliding : tables.full);
    AppendArgs append{};
    append.tokens = tokens.device();
    append.qkv = qkv.device() + int64_t{first} * width();
    append.page_tables = table.device();
    append.pages = pool.device();
    append.page_bytes = kKvHeads * kKvPageHeadBytes;
    append.token_count = count;
    append.query_heads = queries * kKvHeads;
    append.kv_heads = kKvHeads;
    append.sliding = sliding;
    EXPECT_EQ(launch_append(append, nullptr), cudaSuccess);
    const UnfoldArgs unfold{list.device(),     table.device(), pool.device(), append.page_bytes, 0,
                            unfolded.device(), kKvHeads};
    EXPECT_EQ(launch_unfold(unfold, static_cast<int32_t>(list.host.size()), nullptr), cudaSuccess);
    AttentionArgs args{};
    args.qkv = append.qkv;
    args.output = output.device() + int64_t{first} * query_width();
    args.items = items.device();
    args.unfolded = unfolded.device();
    args.query_heads = append.query_heads;
    args.kv_heads = kKvHeads;
    args.sliding = sliding;
    args.window = window;
    EXPECT_EQ(launch_attention(args, queries, static_cast<int32_t>(tables.items.size()), nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
  }

  float value(int32_t position, int32_t head, int32_t dim) const {
    return bf16_to_float(qkv.host[static_cast<size_t>(position * width() + head * kKvHeadDim + dim)]);
  }
  // Output of one query head at a position, plainly; dims in logical order.
  std::vector<double> wanted(int32_t position, int32_t head) const {
    const int32_t key_head = queries * kKvHeads + head / queries, value_head = key_head + kKvHeads;
    std::vector<double> scores, result(kKvHeadDim);
    double most = -1e300, sum = 0;
    const int32_t first = first_visible(position, sliding, window);
    for (int32_t key = first; key <= position; ++key) {
      double score = 0;
      for (int32_t dim = 0; dim < kKvHeadDim; ++dim)
        score += double{value(position, head, dim)} * value(key, key_head, dim);
      scores.push_back(score / std::sqrt(128.0));
      most = std::max(most, scores.back());
    }
    for (int32_t key = first; key <= position; ++key) {
      const double weight = std::exp(scores[static_cast<size_t>(key - first)] - most);
      sum += weight;
      for (int32_t dim = 0; dim < kKvHeadDim; ++dim)
        result[static_cast<size_t>(dim)] += weight * value(key, value_head, dim);
    }
    for (double& one : result) one /= sum;
    return result;
  }
  void compare(int32_t position) {
    for (int32_t head = 0; head < queries * kKvHeads; ++head) {
      const std::vector<double> right = wanted(position, head);
      double off = 0, size = 0;
      for (int32_t dim = 0; dim < kKvHeadDim; ++dim) {
        const size_t at = static_cast<size_t>(position * query_width() + operand_column(head * kKvHeadDim + dim));
        const double got = bf16_to_float(output.host[at]), is = right[static_cast<size_t>(dim)];
        off += (got - is) * (got - is);
        size += is * is;
      }
      // Weights and outputs are rounded to bf16 once each.
      ASSERT_LT(std::sqrt(off / size), 2 * std::ldexp(1.0, -8)) << "position " << position << ", head " << head;
    }
  }

  int32_t queries, length;
  bool sliding;
  int32_t window, pages;
  Shared<uint8_t> pool;
  Shared<int32_t> table;
  Shared<uint8_t> unfolded;
  Shared<uint16_t> qkv, output;
};

class PrefillAttentionOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const Status usable = check_gpu(0);
    if (!usable.ok()) GTEST_SKIP() << usable.error().message;
  }
};

TEST_F(PrefillAttentionOnGpu, AgreesWithPlainArithmetic) {
  for (int32_t queries : {2, 4, 8}) {
    for (bool sliding : {false, true}) {
      Attended all(queries, 4300, sliding, 4096, 3);
      all.run(0, 4300);
      all.output.pull();
      for (int32_t position :
           {0, 1, 62, 63, 64, 65, 127, 128, 191, 1000, 4094, 4095, 4096, 4097, 4159, 4160, 4161, 4299})
        all.compare(position);
    }
  }
}

TEST_F(PrefillAttentionOnGpu, AgreesAtWindowEdges) {
  for (int32_t window : {1, 63, 64, 65, 100}) {
    Attended all(8, 400, true, window, 4);
    all.run(0, 400);
    all.output.pull();
    for (int32_t position = 0; position < 400; position += 7) all.compare(position);
  }
}

// Whatever its own positions and pages: the first tokens of a range see other tokens beside them.
TEST_F(PrefillAttentionOnGpu, BitsDoNotDependOnCuts) {
  for (int32_t queries : {2, 8}) {
    for (bool sliding : {false, true}) {
      Attended whole(queries, 700, sliding, 130, 5);
      whole.run(0, 700);
      whole.output.pull();
      for (const std::vector<int32_t>& cuts : {std::vector<int32_t>{1},
                                               {2, 7},
                                               {63, 64},
                                               {65},
                                               {64, 128},
                                               {33, 100, 149},
                                               {3, 6, 9, 11, 250, 255, 500, 511, 513}}) {
        Attended cut(queries, 700, sliding, 130, 5);
        int32_t from = 0;
        for (int32_t to : cuts) {
          cut.run(from, to - from);
          from = to;
        }
        cut.run(from, 700 - from);
        cut.output.pull();
        ASSERT_EQ(cut.output.host, whole.output.host) << queries << " queries, cut at " << cuts[0];
      }
    }
  }
}

}  // namespace
}  // namespace boreas::cuda::prefill
