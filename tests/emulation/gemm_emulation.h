// What exec/cuda/prefill/gemm_ptx.cuh has beside wgmma, on the emulated device (see device_emulation.h). A tensor map
// is an EmulatedTensorMap here; copies of 16 bytes by threads are done at once.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <wgmma_emulation.h>

#include "base/dtype.h"
#include "exec/cuda/ptx.cuh"

namespace boreas::cuda {

// Boxes of 64 columns by 64 rows, 128-byte swizzle.
struct EmulatedTensorMap {
  const bf16* device;
  int32_t rows, columns;
};

inline void bulk_copy(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier, Where where = Where::here()) {
  bulk_copy(to, from, bytes, barrier, 0, where);
}
inline void tensor_copy(uint32_t to, const void* map, int32_t column, int32_t row, uint32_t barrier,
                        Where where = Where::here()) {
  static const std::array<std::byte, 16> kZeros{};
  EmulatedTensorMap x;
  std::memcpy(&x, map, sizeof(x));
  for (int32_t i = 0; i < 64 * 8; ++i) {
    const int32_t at = row + i / 8, unit = i % 8;
    const void* from =
        at < x.rows ? static_cast<const void*>(x.device + int64_t{at} * x.columns + column + unit * 8) : kZeros.data();
    bulk_copy(to + static_cast<uint32_t>(i / 8 * 128 + (unit ^ i / 8 % 8) * 16), from, 16, barrier, where);
  }
}
inline void copy_16_or_zeros(uint32_t to, const void* from, int32_t bytes, Where where = Where::here()) {
  uint32_t words[4] = {};
  if (bytes > 0) std::memcpy(words, from, sizeof(words));
  for (uint32_t i = 0; i < 4; ++i) store_shared_32(to + 4 * i, words[i], where);
}
inline void copies_arrive(uint32_t barrier, Where where = Where::here()) { mbarrier_arrive(barrier, where); }

// fp32, boxes of 32 columns by 32 rows, stored at once.
struct EmulatedStoreMap {
  float* device;
  int32_t rows, columns;
};
inline void tensor_store(const void* map, int32_t column, int32_t row, uint32_t from, Where where = Where::here()) {
  EmulatedStoreMap y;
  std::memcpy(&y, map, sizeof(y));
  for (uint32_t i = 0; i < 32; ++i)
    for (uint32_t unit = 0; unit < 8; ++unit) {
      const Vec4 v = load_shared_128(from + i * 128 + (unit ^ i % 8) * 16, where);
      if (row + static_cast<int32_t>(i) >= y.rows) emulation::fail("a box is stored beyond its tensor", where);
      std::memcpy(y.device + int64_t{row + static_cast<int32_t>(i)} * y.columns + column + unit * 4, &v, sizeof(v));
    }
}
inline void store_shared_sum(uint32_t address, float sum, Where where = Where::here()) {
  store_shared_float(address, sum, where);
}
inline void stores_commit() {}
template <int kPending>
inline void stores_wait_read() {}
inline void stores_wait() {}

inline void store_transposed(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3,
                             Where where = Where::here()) {
  const uint32_t words[4] = {m0, m1, m2, m3};
  const int32_t lane = thread_index() % 32, g = lane / 4, c = lane % 4;
  for (int32_t i = 0; i < 4; ++i)
    for (int32_t half = 0; half < 2; ++half) {
      const uint32_t row = shuffle(address, 8 * i + 2 * c + half, where);
      store_shared_16(row + static_cast<uint32_t>(2 * g), words[i] >> (16 * half) & 0xffff, where);
    }
}
inline void* shared_pointer(uint32_t address) { return emulation::current->block->shared + address; }
inline void store_global_128(void* to, const Vec4& v) { std::memcpy(to, &v, sizeof(v)); }
inline float reciprocal_approximate(float x) { return 1 / x; }
inline void opaque(const std::byte*&) {}

}  // namespace boreas::cuda
