// AVX2 with FMA: a vector is two registers, even elements and odd elements, because a shift and a mask unpack bf16 that
// way. Compiled with -mavx2 -mfma; called only where the processor has them.
#include "exec/cpu/kernels_inl.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

namespace boreas::cpu {
namespace {

struct Avx2 {
  struct Vec {
    __m256 even, odd;
  };
  static constexpr int kRowTile = 3;
  static constexpr int kTokenTile = 2;  // 3 x 2 x 2 accumulators, a half of each token, of a row: 15 of 16 registers
  static constexpr bool kHasHalves = true;

  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec broadcast(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
  static Vec load(const float* in) { return {_mm256_loadu_ps(in), _mm256_loadu_ps(in + 8)}; }
  static void store(float* out, Vec v) {
    _mm256_storeu_ps(out, v.even);
    _mm256_storeu_ps(out + 8, v.odd);
  }
  static void store_natural(float* out, Vec v) {
    const __m256 low = _mm256_unpacklo_ps(v.even, v.odd);   // 0 1 2 3 8 9 10 11
    const __m256 high = _mm256_unpackhi_ps(v.even, v.odd);  // 4 5 6 7 12 13 14 15
    _mm256_storeu_ps(out, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(out + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  static Vec load_bf16(const bf16* in) { return {even_of(in), odd_of(in)}; }
  static Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.even, b.even), _mm256_add_ps(a.odd, b.odd)}; }
  static Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.even, b.even), _mm256_sub_ps(a.odd, b.odd)}; }
  static Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.even, b.even), _mm256_mul_ps(a.odd, b.odd)}; }
  // If either is NaN the result is b, as in the portable comparison.
  static Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.even, b.even), _mm256_max_ps(a.odd, b.odd)}; }
  static Vec add_exact_product(Vec sum, Vec a, Vec b) {
    return {_mm256_fmadd_ps(a.even, b.even, sum.even), _mm256_fmadd_ps(a.odd, b.odd, sum.odd)};
  }
  static __m256 even_of(const bf16* in) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)), 16));
  }
  static __m256 odd_of(const bf16* in) {
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)),
                                                _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  // First the even, then the odd elements, so that those of a token stay in a register for all rows.
  template <int R, int T>
  static void add_group(Vec (&sums)[R][T], const bf16* const (&rows)[R], const float* const (&x)[T], int32_t k) {
    __m256 half[T];
    for (int t = 0; t < T; ++t) half[t] = _mm256_loadu_ps(x[t] + k);
    for (int r = 0; r < R; ++r) {
      const __m256 w = even_of(rows[r] + k);
      for (int t = 0; t < T; ++t) sums[r][t].even = _mm256_fmadd_ps(w, half[t], sums[r][t].even);
    }
    for (int t = 0; t < T; ++t) half[t] = _mm256_loadu_ps(x[t] + k + 8);
    for (int r = 0; r < R; ++r) {
      const __m256 w = odd_of(rows[r] + k);
      for (int t = 0; t < T; ++t) sums[r][t].odd = _mm256_fmadd_ps(w, half[t], sums[r][t].odd);
    }
  }
  static __m256 round_half(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i lsb = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), lsb);
    return _mm256_castsi256_ps(_mm256_and_si256(rounded, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static Vec round_bf16(Vec v) { return {round_half(v.even), round_half(v.odd)}; }
  static __m256 zero_half(__m256 v, __m256 test) {
    const __m256i infinite =
        _mm256_cmpeq_epi32(_mm256_castps_si256(test), _mm256_set1_epi32(static_cast<int>(0xff800000u)));
    return _mm256_andnot_ps(_mm256_castsi256_ps(infinite), v);
  }
  static Vec zero_where_infinite(Vec v, Vec test) { return {zero_half(v.even, test.even), zero_half(v.odd, test.odd)}; }
  static __m256 exponent_half(__m256 shifted) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23), _mm256_set1_epi32(0x3f800000)));
  }
  static Vec exponent_from_shifted(Vec shifted) { return {exponent_half(shifted.even), exponent_half(shifted.odd)}; }
  static float reduce_add(Vec v) {
    const __m256 pair = _mm256_add_ps(v.even, v.odd);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(pair), _mm256_extractf128_ps(pair, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // Four sums at once, each by the same tree as reduce_add.
  static void reduce_add4(const Vec* v, float* out) {
    __m128 four[4];
    for (int i = 0; i < 4; ++i) {
      const __m256 pair = _mm256_add_ps(v[i].even, v[i].odd);
      four[i] = _mm_add_ps(_mm256_castps256_ps128(pair), _mm256_extractf128_ps(pair, 1));
    }
    const __m128 low = _mm_add_ps(_mm_unpacklo_ps(four[0], four[1]), _mm_unpackhi_ps(four[0], four[1]));
    const __m128 high = _mm_add_ps(_mm_unpacklo_ps(four[2], four[3]), _mm_unpackhi_ps(four[2], four[3]));
    _mm_storeu_ps(out, _mm_add_ps(_mm_movelh_ps(low, high), _mm_movehl_ps(high, low)));
  }
  static float reduce_max(Vec v) {
    const __m256 pair = _mm256_max_ps(v.even, v.odd);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(pair), _mm256_extractf128_ps(pair, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace

const Kernels& avx2_kernels() {
  static const Kernels table = KernelSet<Avx2>::table("avx2");
  return table;
}

}  // namespace boreas::cpu
#else
namespace boreas::cpu {
const Kernels& avx2_kernels() { return portable_kernels(); }  // another architecture: never chosen, see simd_supported
}  // namespace boreas::cpu
#endif
