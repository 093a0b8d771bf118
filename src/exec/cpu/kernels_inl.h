// The kernels, written once over a 16-lane vector type S::Vec that each SIMD level provides; included by
// simd_<level>.cc only. See kernels.h for the canonical order that makes all levels equal to the bit. S has internal
// linkage, and so must have everything called here: an inline function of the library would be compiled once for each
// instruction set, and the linker could pick the widest for all (a test looks at the symbols).
#pragma once

#include <cstring>

#include "exec/cpu/exp2.h"
#include "exec/cpu/kernels.h"

namespace boreas::cpu {

constexpr float kInfinity = __builtin_inff();

template <class S>
struct KernelSet {
  using Vec = typename S::Vec;

  // n < 16 elements, zero-extended.
  static Vec load_bf16_tail(const bf16* in, int32_t n) {
    bf16 buffer[kGroup] = {};
    std::memcpy(buffer, in, static_cast<size_t>(n) * sizeof(bf16));
    return S::load_bf16(buffer);
  }

  static void pack(const bf16* in, int32_t n, float* out) {
    int32_t i = 0;
    for (; i + kGroup <= n; i += kGroup) S::store(out + i, S::load_bf16(in + i));
    if (i < n) S::store(out + i, load_bf16_tail(in + i, n - i));
  }

  static void unpack(const float* in, int32_t n, float* out) {
    float natural[kGroup];
    for (int32_t i = 0; i < n; i += kGroup) {
      S::store_natural(natural, S::load(in + i));
      const int32_t left = n - i < kGroup ? n - i : kGroup;
      std::memcpy(out + i, natural, static_cast<size_t>(left) * sizeof(float));
    }
  }

  // R rows against T tokens, R * T accumulators in registers.
  template <int R, int T>
  static void tile(const GemmArgs& a, int32_t row, int32_t token) {
    Vec sums[R][T];
    for (int r = 0; r < R; ++r)
      for (int t = 0; t < T; ++t) sums[r][t] = S::zero();
    const bf16* rows[R];
    const float* x[T];
    for (int r = 0; r < R; ++r) rows[r] = a.w + (row + r) * a.w_stride;
    for (int t = 0; t < T; ++t) x[t] = a.x[token + t];
    int32_t k = 0;
    for (; k + kGroup <= a.k; k += kGroup) {
      for (int r = 0; r < R; ++r) {
        const Vec w = S::load_bf16(rows[r] + k);
        for (int t = 0; t < T; ++t) sums[r][t] = S::add_exact_product(sums[r][t], w, S::load(x[t] + k));
      }
    }
    if (k < a.k) {
      for (int r = 0; r < R; ++r) {
        const Vec w = load_bf16_tail(rows[r] + k, a.k - k);
        for (int t = 0; t < T; ++t) sums[r][t] = S::add_exact_product(sums[r][t], w, S::load(x[t] + k));
      }
    }
    float results[R * T];
    int done = 0;
    for (; done + 4 <= R * T; done += 4) S::reduce_add4(&sums[0][0] + done, results + done);
    for (; done < R * T; ++done) results[done] = S::reduce_add((&sums[0][0])[done]);
    for (int r = 0; r < R; ++r)
      for (int t = 0; t < T; ++t) a.y[(token + t) * a.y_stride + row + r] = results[r * T + t];
  }

  template <int R>
  static void row_block(const GemmArgs& a, int32_t row, int32_t token_first, int32_t token_end) {
    int32_t token = token_first;
    for (; token + S::kTokenTile <= token_end; token += S::kTokenTile) tile<R, S::kTokenTile>(a, row, token);
    if constexpr (S::kTokenTile > 2)
      for (; token + 2 <= token_end; token += 2) tile<R, 2>(a, row, token);
    for (; token < token_end; ++token) tile<R, 1>(a, row, token);
  }

  // Tokens per pass over the rows. Where the rows stay in the second-level cache, a panel of tokens that stays in the
  // first; else all tokens, so that the rows come from memory once.
  static int32_t token_panel(const GemmArgs& a) {
    constexpr int64_t kFirstLevelBytes = 16 << 10, kSecondLevelBytes = 128 << 10;
    if (int64_t{a.rows} * a.k * 2 > kSecondLevelBytes) return a.tokens;
    const int64_t fit = kFirstLevelBytes / (int64_t{padded(a.k)} * 4) / S::kTokenTile * S::kTokenTile;
    return fit > S::kTokenTile ? static_cast<int32_t>(fit) : S::kTokenTile;
  }

  // One token: four rows at once keep four streams of memory busy. More tokens: as many accumulators as the registers
  // hold.
  static void gemm(const GemmArgs& a) {
    if (a.tokens == 1) {
      int32_t row = 0;
      for (; row + 4 <= a.rows; row += 4) tile<4, 1>(a, row, 0);
      for (; row < a.rows; ++row) tile<1, 1>(a, row, 0);
      return;
    }
    const int32_t panel = token_panel(a);
    for (int32_t first = 0; first < a.tokens; first += panel) {
      const int32_t end = a.tokens - first < panel ? a.tokens : first + panel;
      int32_t row = 0;
      for (; row + S::kRowTile <= a.rows; row += S::kRowTile) row_block<S::kRowTile>(a, row, first, end);
      for (; row < a.rows; ++row) row_block<1>(a, row, first, end);
    }
  }

  static Vec exp2(Vec x) {
    x = S::max(S::broadcast(kExp2Lowest), x);  // in this order NaN stays NaN
    const Vec magic = S::broadcast(kExp2RoundMagic);
    const Vec shifted = S::add(x, magic);
    const Vec fraction = S::sub(x, S::sub(shifted, magic));
    Vec power = S::broadcast(kExp2Coefficients[7]);
    for (int i = 6; i >= 0; --i) power = S::add(S::mul(power, fraction), S::broadcast(kExp2Coefficients[i]));
    return S::mul(power, S::exponent_from_shifted(shifted));
  }

  // Softmax weights of one query over one page: new maximum, probabilities rounded to bf16 in scores[0, 64), their sum;
  // returns the factor by which earlier sums and outputs shrink. Keys outside [first, end) get probability 0. A score
  // that is NaN or +infinity makes the sum NaN; then the maximum means nothing.
  static float probabilities(float* scores, int32_t first, int32_t end, float scale_log2, float& maximum, float& sum) {
    constexpr int32_t kKeys = 64;
    for (int32_t i = 0; i < first; ++i) scores[i] = -kInfinity;
    for (int32_t i = end; i < kKeys; ++i) scores[i] = -kInfinity;
    Vec top = S::load(scores);
    for (int32_t i = kGroup; i < kKeys; i += kGroup) top = S::max(top, S::load(scores + i));
    const float page_maximum = S::reduce_max(top);
    const float updated = page_maximum > maximum ? page_maximum : maximum;
    const float shrink = exp2_exact_order((maximum - updated) * scale_log2);
    Vec total = S::zero();
    for (int32_t i = 0; i < kKeys; i += kGroup) {
      const Vec raw = S::load(scores + i);
      const Vec p = exp2(S::mul(S::sub(raw, S::broadcast(updated)), S::broadcast(scale_log2)));
      const Vec rounded = S::round_bf16(S::zero_where_infinite(p, raw));
      S::store(scores + i, rounded);
      total = S::add(total, rounded);
    }
    maximum = updated;
    sum = sum * shrink + S::reduce_add(total);
    return shrink;
  }

  // output = output * shrink + sum over keys of p[key] * value[key], keys ascending, 64 dims at a time so that
  // accumulators stay in registers.
  static void add_values(const float* p, int32_t first, int32_t end, const float* values, int32_t width, float shrink,
                         float* output) {
    constexpr int kStrip = 4;
    int32_t d = 0;
    for (; d + kStrip * kGroup <= width; d += kStrip * kGroup)
      add_strip<kStrip>(p, first, end, values, width, shrink, output, d);
    for (; d < width; d += kGroup) add_strip<1>(p, first, end, values, width, shrink, output, d);
  }

  template <int N>
  static void add_strip(const float* p, int32_t first, int32_t end, const float* values, int32_t width, float shrink,
                        float* output, int32_t d) {
    Vec sums[N];
    const Vec factor = S::broadcast(shrink);
    for (int i = 0; i < N; ++i) sums[i] = S::mul(S::load(output + d + i * kGroup), factor);
    for (int32_t key = first; key < end; ++key) {
      const Vec weight = S::broadcast(p[key]);
      const float* value = values + int64_t{key} * width + d;
      for (int i = 0; i < N; ++i) sums[i] = S::add_exact_product(sums[i], weight, S::load(value + i * kGroup));
    }
    for (int i = 0; i < N; ++i) S::store(output + d + i * kGroup, sums[i]);
  }

  static void attend(const AttendArgs& a) {
    constexpr int32_t kKeys = 64;
    const int32_t width = padded(a.head_dim);
    gemm({a.keys, a.head_dim, kKeys, a.head_dim, a.q, a.queries, a.scores, kKeys});
    for (int32_t q = 0; q < a.queries; ++q) {
      if (a.key_first[q] >= a.key_end[q]) continue;
      float* scores = a.scores + int64_t{q} * kKeys;
      const float shrink = probabilities(scores, a.key_first[q], a.key_end[q], a.scale_log2, a.maximum[q], a.sum[q]);
      add_values(scores, a.key_first[q], a.key_end[q], a.values, width, shrink, a.output + int64_t{q} * width);
    }
  }

  static float sum_squares(const bf16* in, int32_t n) {
    Vec sums = S::zero();
    int32_t i = 0;
    for (; i + kGroup <= n; i += kGroup) {
      const Vec x = S::load_bf16(in + i);
      sums = S::add_exact_product(sums, x, x);
    }
    if (i < n) {
      const Vec x = load_bf16_tail(in + i, n - i);
      sums = S::add_exact_product(sums, x, x);
    }
    return S::reduce_add(sums);
  }

  static Kernels table(const char* name) { return {name, pack, unpack, gemm, attend, sum_squares}; }
};

}  // namespace boreas::cpu
