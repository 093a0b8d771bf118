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
constexpr int32_t kLineElements = 32;  // bf16 in 64 bytes

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

  // One group of 16 elements of R rows and T tokens.
  template <int R, int T>
  static void add_group(Vec (&sums)[R][T], const bf16* const (&rows)[R], const float* const (&x)[T], int32_t k) {
    if constexpr (S::kHasHalves) {
      S::add_group(sums, rows, x, k);
    } else {
      for (int r = 0; r < R; ++r) {
        const Vec w = S::load_bf16(rows[r] + k);
        for (int t = 0; t < T; ++t) sums[r][t] = S::add_exact_product(sums[r][t], w, S::load(x[t] + k));
      }
    }
  }

  // R rows against T tokens, R * T accumulators in registers. The elements `ahead` of each row are asked for meanwhile
  // (also beyond the last row: asking reads nothing), 0: none are. What the processor asks for by itself ends with each
  // page of memory, at the latest after a row of 2,048.
  template <int R, int T>
  static void tile(const GemmArgs& a, int32_t row, int32_t token, int64_t ahead) {
    Vec sums[R][T];
    for (int r = 0; r < R; ++r)
      for (int t = 0; t < T; ++t) sums[r][t] = S::zero();
    const bf16* rows[R];
    const float* x[T];
    for (int r = 0; r < R; ++r) rows[r] = a.w + (row + r) * a.w_stride;
    for (int t = 0; t < T; ++t) x[t] = a.x[token + t];
    int32_t k = 0;
    for (; k + kGroup <= a.k; k += kGroup) {
      if (ahead != 0 && k % kLineElements == 0)
        for (int r = 0; r < R; ++r) __builtin_prefetch(rows[r] + k + ahead);
      add_group(sums, rows, x, k);
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

  // ahead: as in tile, for the first tokens; then the rows are in the first-level cache.
  template <int R>
  static void row_block(const GemmArgs& a, int32_t row, int32_t token_first, int32_t token_end, int64_t ahead) {
    int32_t token = token_first;
    for (; token + S::kTokenTile <= token_end; token += S::kTokenTile, ahead = 0)
      tile<R, S::kTokenTile>(a, row, token, ahead);
    if constexpr (S::kTokenTile > 2)
      for (; token + 2 <= token_end; token += 2, ahead = 0) tile<R, 2>(a, row, token, ahead);
    for (; token < token_end; ++token, ahead = 0) tile<R, 1>(a, row, token, ahead);
  }

  // Rows that stay in the second-level cache while panels of tokens that stay in the first pass over them, so that rows
  // come from memory once and tokens from the second level once for so many rows.
  static int32_t group_rows(const GemmArgs& a) {
    constexpr int64_t kBytes = 128 << 10;
    const int64_t fit = kBytes / (int64_t{a.k} * 2) / S::kRowTile * S::kRowTile;
    return static_cast<int32_t>(fit > S::kRowTile ? fit : S::kRowTile);
  }
  static int32_t token_panel(const GemmArgs& a) {
    constexpr int64_t kBytes = 16 << 10;
    const int64_t fit = kBytes / (int64_t{padded(a.k)} * 4) / S::kTokenTile * S::kTokenTile;
    return static_cast<int32_t>(fit > S::kTokenTile ? fit : S::kTokenTile);
  }

  // One token: four rows at once keep four streams of memory busy. More tokens: as many accumulators as the registers
  // hold.
  static void gemm(const GemmArgs& a) {
    if (a.tokens == 1) {
      int32_t row = 0;
      for (; row + 4 <= a.rows; row += 4) tile<4, 1>(a, row, 0, 4 * a.w_stride);
      for (; row < a.rows; ++row) tile<1, 1>(a, row, 0, 0);
      return;
    }
    const int32_t panel = token_panel(a), group = group_rows(a);
    for (int32_t row_first = 0; row_first < a.rows; row_first += group) {
      const int32_t row_end = a.rows - row_first < group ? a.rows : row_first + group;
      for (int32_t first = 0; first < a.tokens; first += panel) {
        const int32_t end = a.tokens - first < panel ? a.tokens : first + panel;
        const int64_t ahead = first == 0 ? S::kRowTile * a.w_stride : 0;
        int32_t row = row_first;
        for (; row + S::kRowTile <= row_end; row += S::kRowTile) row_block<S::kRowTile>(a, row, first, end, ahead);
        for (; row < row_end; ++row) row_block<1>(a, row, first, end, 0);
      }
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
