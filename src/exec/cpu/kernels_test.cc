#include "exec/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/prng.h"
#include "exec/cpu/exp2.h"

namespace boreas::cpu {
namespace {

std::vector<bf16> random_bf16(Prng& prng, size_t n, float scale = 1) {
  std::vector<bf16> values(n);
  for (bf16& value : values) value = float_to_bf16((prng.uniform() - 0.5f) * 2 * scale);
  return values;
}

std::vector<SimdLevel> other_levels() {
  std::vector<SimdLevel> levels;
  for (SimdLevel level : {SimdLevel::kAvx2, SimdLevel::kAvx512})
    if (simd_supported(level)) levels.push_back(level);
  return levels;
}

struct Gemm {
  int32_t rows, k, tokens;
};

std::vector<float> run_gemm(SimdLevel level, const Gemm& shape, const std::vector<bf16>& w,
                            const std::vector<bf16>& x) {
  const Kernels& table = kernels(level);
  std::vector<float> packed(static_cast<size_t>(padded(shape.k)) * static_cast<size_t>(shape.tokens));
  std::vector<const float*> pointers;
  for (int32_t t = 0; t < shape.tokens; ++t) {
    float* out = packed.data() + static_cast<size_t>(t) * static_cast<size_t>(padded(shape.k));
    table.pack(x.data() + static_cast<size_t>(t) * static_cast<size_t>(shape.k), shape.k, out);
    pointers.push_back(out);
  }
  std::vector<float> y(static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.tokens));
  table.gemm({w.data(), shape.k, shape.rows, shape.k, pointers.data(), shape.tokens, y.data(), shape.rows});
  return y;
}

TEST(Kernels, GemmEqualBitsAtEveryLevelAndNearDouble) {
  Prng prng(1);
  // The last two: several groups of rows, each with several panels of tokens, neither in whole tiles.
  for (const Gemm& shape : {Gemm{1, 1, 1},
                            {5, 16, 1},
                            {7, 33, 2},
                            {9, 128, 3},
                            {4, 250, 5},
                            {13, 64, 8},
                            {3, 4096, 4},
                            {2, 15, 7},
                            {150, 1024, 11},
                            {70, 2056, 5}}) {
    const auto w = random_bf16(prng, static_cast<size_t>(shape.rows * shape.k));
    const auto x = random_bf16(prng, static_cast<size_t>(shape.tokens * shape.k));
    const auto expected = run_gemm(SimdLevel::kPortable, shape, w, x);
    for (SimdLevel level : other_levels()) {
      const auto got = run_gemm(level, shape, w, x);
      ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
          << kernels(level).name << " k " << shape.k;
    }
    for (int32_t t = 0; t < shape.tokens; ++t) {
      for (int32_t r = 0; r < shape.rows; ++r) {
        double sum = 0, magnitude = 0;
        for (int32_t k = 0; k < shape.k; ++k) {
          const double product = double{bf16_to_float(w[static_cast<size_t>(r * shape.k + k)])} *
                                 double{bf16_to_float(x[static_cast<size_t>(t * shape.k + k)])};
          sum += product;
          magnitude += std::abs(product);
        }
        // Each partial sum takes k/16 additions and the tree 4 more, each with relative error 2^-24 of the magnitude so
        // far.
        const double bound = magnitude * (shape.k / 16 + 5) * 0x1p-24;
        ASSERT_NEAR(expected[static_cast<size_t>(t * shape.rows + r)], sum, bound);
      }
    }
  }
}

TEST(Kernels, ATokensBitsDoNotDependOnItsNeighbours) {
  Prng prng(2);
  const Gemm all{37, 200, 11};
  const auto w = random_bf16(prng, static_cast<size_t>(all.rows * all.k));
  const auto x = random_bf16(prng, static_cast<size_t>(all.tokens * all.k));
  const auto together = run_gemm(best_simd_level(), all, w, x);
  for (int32_t t = 0; t < all.tokens; ++t) {
    const std::vector<bf16> one(x.begin() + t * all.k, x.begin() + (t + 1) * all.k);
    const auto alone = run_gemm(best_simd_level(), {all.rows, all.k, 1}, w, one);
    ASSERT_EQ(std::memcmp(alone.data(), together.data() + t * all.rows, alone.size() * sizeof(float)), 0);
  }
}

TEST(Kernels, PackAndUnpackAreInverse) {
  Prng prng(3);
  for (int32_t n : {1, 15, 16, 17, 100}) {
    const auto values = random_bf16(prng, static_cast<size_t>(n));
    for (SimdLevel level : {SimdLevel::kPortable, best_simd_level()}) {
      std::vector<float> packed(static_cast<size_t>(padded(n)), 99.0f), natural(static_cast<size_t>(n));
      kernels(level).pack(values.data(), n, packed.data());
      kernels(level).unpack(packed.data(), n, natural.data());
      for (int32_t i = 0; i < n; ++i)
        ASSERT_EQ(natural[static_cast<size_t>(i)], bf16_to_float(values[static_cast<size_t>(i)]));
    }
  }
}

TEST(Kernels, Exp2IsAccurateToAFewUlp) {
  for (float x = -125.9f; x < 20; x += 0.0137f)
    ASSERT_NEAR(exp2_exact_order(x) / std::exp2(double{x}), 1.0, 4 * 0x1p-24) << x;
  EXPECT_EQ(exp2_exact_order(0), 1.0f);
  EXPECT_LT(exp2_exact_order(-std::numeric_limits<float>::infinity()), 1e-37f);
  // The exponent x log2(e) is rounded twice (2^-24 relative each), which the power magnifies by |x|.
  for (float x = -30; x < 30; x += 0.11f)
    ASSERT_NEAR(sigmoid(x) * (1 + std::exp(-double{x})), 1.0, (2 * std::abs(x) + 8) * 0x1p-24);
}

struct State {
  std::vector<float> maximum, sum, output;
};

// Two pages, three queries with different visible keys.
State run_attend(SimdLevel level, int32_t dim, const std::vector<bf16>& keys, const std::vector<bf16>& values,
                 const std::vector<bf16>& queries) {
  const Kernels& table = kernels(level);
  const int32_t count = 3, width = padded(dim);
  State state;
  state.maximum.assign(count, -std::numeric_limits<float>::infinity());
  state.sum.assign(count, 0);
  state.output.assign(static_cast<size_t>(count * width), 0);
  std::vector<float> packed_q(static_cast<size_t>(count * width)), packed_v(static_cast<size_t>(64 * width)),
      scores(count * 64);
  std::vector<const float*> q;
  for (int32_t i = 0; i < count; ++i) {
    table.pack(queries.data() + i * dim, dim, packed_q.data() + i * width);
    q.push_back(packed_q.data() + i * width);
  }
  const int32_t first[2][3] = {{0, 13, 64}, {0, 0, 5}};
  const int32_t end[2][3] = {{64, 64, 64}, {1, 40, 64}};
  for (int page = 0; page < 2; ++page) {
    for (int32_t i = 0; i < 64; ++i)
      table.pack(values.data() + (page * 64 + i) * dim, dim, packed_v.data() + i * width);
    table.attend({keys.data() + page * 64 * dim, packed_v.data(), dim, q.data(), count, first[page], end[page],
                  kLog2E / std::sqrt(float(dim)), scores.data(), state.maximum.data(), state.sum.data(),
                  state.output.data()});
  }
  for (int32_t i = 0; i < count; ++i) {
    std::vector<float> natural(static_cast<size_t>(width));
    table.unpack(state.output.data() + i * width, dim, natural.data());
    std::copy_n(natural.data(), width, state.output.data() + i * width);
  }
  return state;
}

TEST(Kernels, AttendEqualBitsAndNearPlainSoftmax) {
  Prng prng(4);
  for (int32_t dim : {16, 40, 128}) {
    const auto keys = random_bf16(prng, static_cast<size_t>(128 * dim), 2);
    const auto values = random_bf16(prng, static_cast<size_t>(128 * dim));
    const auto queries = random_bf16(prng, static_cast<size_t>(3 * dim), 2);
    const State expected = run_attend(SimdLevel::kPortable, dim, keys, values, queries);
    for (SimdLevel level : other_levels()) {
      const State got = run_attend(level, dim, keys, values, queries);
      ASSERT_EQ(got.maximum, expected.maximum);
      ASSERT_EQ(got.sum, expected.sum);
      ASSERT_EQ(got.output, expected.output);
    }
    const int32_t first[3] = {0, 13, 64 + 5}, end[3] = {65, 104, 128};
    for (int32_t i = 0; i < 3; ++i) {
      std::vector<double> p;
      double top = -1e300, total = 0;
      for (int32_t key = first[i]; key < end[i]; ++key) {
        double s = 0;
        for (int32_t d = 0; d < dim; ++d)
          s += double{bf16_to_float(queries[static_cast<size_t>(i * dim + d)])} *
               double{bf16_to_float(keys[static_cast<size_t>(key * dim + d)])};
        p.push_back(s / std::sqrt(double(dim)));
        top = std::max(top, p.back());
      }
      for (double& value : p) total += value = std::exp(value - top);
      for (int32_t d = 0; d < dim; ++d) {
        double o = 0;
        for (size_t k = 0; k < p.size(); ++k)
          o += p[k] / total *
               double{bf16_to_float(
                   values[(static_cast<size_t>(first[i]) + k) * static_cast<size_t>(dim) + static_cast<size_t>(d)])};
        // Probabilities are rounded to bf16 (2^-9 relative), numerator and denominator alike; |value| <= 1.
        ASSERT_NEAR(expected.output[static_cast<size_t>(i * padded(dim) + d)] / expected.sum[static_cast<size_t>(i)], o,
                    2 * 0x1p-9);
      }
    }
  }
}

// Broken values must not vanish on the way to the logits.
TEST(Kernels, NanAndInfinityDoNotVanish) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(exp2_exact_order(nan)));
  EXPECT_TRUE(std::isnan(sigmoid(nan)));
  EXPECT_EQ(sigmoid(infinity), 1.0f);
  EXPECT_LT(sigmoid(-infinity), 1e-37f);
  Prng prng(5);
  const int32_t dim = 40;
  for (float broken : {nan, infinity}) {
    std::vector<SimdLevel> levels = other_levels();
    levels.push_back(SimdLevel::kPortable);
    for (SimdLevel level : levels) {
      auto keys = random_bf16(prng, static_cast<size_t>(128 * dim), 2);
      const auto values = random_bf16(prng, static_cast<size_t>(128 * dim));
      auto queries = random_bf16(prng, static_cast<size_t>(3 * dim), 2);
      queries[dim + 7] = float_to_bf16(1);  // so that infinity times it is a score of +infinity
      keys[20 * dim + 7] = float_to_bf16(broken);
      keys[127 * dim + 7] = float_to_bf16(broken);
      const State state = run_attend(level, dim, keys, values, queries);
      // Query 1 sees keys 13 to 63 of the first page, and of the second none that is broken.
      EXPECT_TRUE(std::isnan(state.sum[1])) << kernels(level).name;
      for (int32_t d = 0; d < dim; ++d)
        EXPECT_TRUE(std::isnan(state.output[static_cast<size_t>(padded(dim) + d)])) << kernels(level).name;
    }
  }
}

}  // namespace
}  // namespace boreas::cpu
