// AVX-512: a vector is one register, elements in natural order. Compiled with -mavx512f -mavx512bw -mavx512dq
// -mavx512vl; called only where the processor has them.
#include "exec/cpu/kernels_inl.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

namespace boreas::cpu {
namespace {

struct Avx512 {
  using Vec = __m512;
  static constexpr int kRowTile = 4;
  static constexpr int kTokenTile = 4;
  static constexpr bool kHasHalves = false;

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec broadcast(float v) { return _mm512_set1_ps(v); }
  static Vec load(const float* in) { return _mm512_loadu_ps(in); }
  static void store(float* out, Vec v) { _mm512_storeu_ps(out, v); }
  static void store_natural(float* out, Vec v) { _mm512_storeu_ps(out, v); }
  static Vec load_bf16(const bf16* in) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec add_exact_product(Vec sum, Vec a, Vec b) { return _mm512_fmadd_ps(a, b, sum); }
  static Vec round_bf16(Vec v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), lsb);
    return _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static Vec zero_where_infinite(Vec v, Vec test) {
    const __mmask16 infinite =
        _mm512_cmpeq_epi32_mask(_mm512_castps_si512(test), _mm512_set1_epi32(static_cast<int>(0xff800000u)));
    return _mm512_mask_mov_ps(v, infinite, _mm512_setzero_ps());
  }
  static Vec exponent_from_shifted(Vec shifted) {
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23), _mm512_set1_epi32(0x3f800000)));
  }
  static float reduce_add(Vec v) {
    // Neighbours: pair i ends up in even lane 2i; then gather the eight pairs into one 256-bit register.
    const __m512 swapped = _mm512_permute_ps(v, 0xb1);
    const __m512 sums = _mm512_add_ps(v, swapped);
    const __m512i even = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m256 pair = _mm512_castps512_ps256(_mm512_permutexvar_ps(even, sums));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(pair), _mm256_extractf128_ps(pair, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static void reduce_add4(const Vec* v, float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_add(v[i]);
  }
  static float reduce_max(Vec v) { return _mm512_reduce_max_ps(v); }
};

}  // namespace

const Kernels& avx512_kernels() {
  static const Kernels table = KernelSet<Avx512>::table("avx512");
  return table;
}

}  // namespace boreas::cpu
#else
namespace boreas::cpu {
const Kernels& avx512_kernels() {
  return portable_kernels();
}  // another architecture: never chosen, see simd_supported
}  // namespace boreas::cpu
#endif
