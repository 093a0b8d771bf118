// The portable level: plain C++ over arrays of 16, which any compiler for any processor understands. The other levels
// must equal it to the bit.
#include <bit>

#include "exec/cpu/kernels_inl.h"

namespace boreas::cpu {
namespace {

struct Portable {
  struct Vec {
    float lane[kGroup];
  };
  static constexpr int kRowTile = 2;
  static constexpr int kTokenTile = 2;
  static constexpr bool kHasHalves = false;

  template <class F>
  static Vec each(F&& f) {
    Vec out;
    for (int i = 0; i < kGroup; ++i) out.lane[i] = f(i);
    return out;
  }
  static Vec zero() {
    return each([](int) { return 0.0f; });
  }
  static Vec broadcast(float v) {
    return each([=](int) { return v; });
  }
  static Vec load(const float* in) {
    return each([=](int i) { return in[i]; });
  }
  static void store(float* out, const Vec& v) {
    for (int i = 0; i < kGroup; ++i) out[i] = v.lane[i];
  }
  static void store_natural(float* out, const Vec& v) { store(out, v); }
  static Vec load_bf16(const bf16* in) {
    return each([=](int i) { return bf16_to_float(in[i]); });
  }
  static Vec add(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Vec sub(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static Vec mul(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Vec max(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vec add_exact_product(const Vec& sum, const Vec& a, const Vec& b) {
    return each([&](int i) { return sum.lane[i] + a.lane[i] * b.lane[i]; });
  }
  static Vec round_bf16(const Vec& v) {
    return each([&](int i) { return round_to_bf16(v.lane[i]); });
  }
  static Vec zero_where_infinite(const Vec& v, const Vec& test) {
    return each([&](int i) { return std::bit_cast<uint32_t>(test.lane[i]) == 0xff800000u ? 0.0f : v.lane[i]; });
  }
  static Vec exponent_from_shifted(const Vec& shifted) {
    return each(
        [&](int i) { return std::bit_cast<float>((std::bit_cast<uint32_t>(shifted.lane[i]) << 23) + 0x3f800000u); });
  }
  static float reduce_add(const Vec& v) {
    float pair[8];
    for (int i = 0; i < 8; ++i) pair[i] = v.lane[2 * i] + v.lane[2 * i + 1];
    for (int i = 0; i < 4; ++i) pair[i] = pair[i] + pair[i + 4];
    return (pair[0] + pair[2]) + (pair[1] + pair[3]);
  }
  static void reduce_add4(const Vec* v, float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_add(v[i]);
  }
  static float reduce_max(const Vec& v) {
    float top = v.lane[0];
    for (int i = 1; i < kGroup; ++i) top = v.lane[i] > top ? v.lane[i] : top;
    return top;
  }
};

}  // namespace

const Kernels& portable_kernels() {
  static const Kernels table = KernelSet<Portable>::table("portable");
  return table;
}

}  // namespace boreas::cpu
