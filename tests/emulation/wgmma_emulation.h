// wgmma on the emulated device (see device_emulation.h), as exec/cuda/prefill/gemm_ptx.cuh has it: every warp
// multiplies its own 16 rows at once, B read from shared memory through the 128-byte swizzle.
#pragma once

#include <cstdint>

#include "exec/cuda/ptx.cuh"

namespace boreas::cuda {

inline void wgmma_fence(Where where = Where::here()) { warp_sync(where); }
inline void wgmma_commit(Where where = Where::here()) { warp_sync(where); }
template <int kPending>
inline void wgmma_wait(Where where = Where::here()) {
  warp_sync(where);
}
inline void opaque(float&) {}

// In units of 16 bytes; a step of 16 of K is kDescriptorK of them, within a row's 128 bytes.
inline uint64_t descriptor_of(uint32_t address) { return address >> 4; }
constexpr uint64_t kDescriptorK = 32 >> 4;

// 4 bytes from `byte` on of a row that begins 128 * row behind a slab's start. The swizzle is one of addresses: bits
// 4..6 are turned by bits 7..9.
inline uint32_t load_swizzled(uint64_t descriptor, int32_t row, int32_t byte, const Where& where) {
  const uint32_t start = static_cast<uint32_t>(descriptor) * 16, base = start / 1024 * 1024;
  const uint32_t plain = static_cast<uint32_t>(row * 128 + byte) + start % 1024;
  return load_shared_32(base + (plain ^ (plain >> 7 & 7) << 4), where);
}

template <int kSums>
inline void wgmma(float (&d)[kSums], const uint32_t* a, uint64_t b, Where where = Where::here()) {
  const int32_t g = thread_index() % 32 / 4, c = thread_index() % 4;
  for (int32_t n = 0; n < kSums / 4; ++n) {
    const uint32_t b0 = load_swizzled(b, n * 8 + g, c * 4, where);
    const uint32_t b1 = load_swizzled(b, n * 8 + g, c * 4 + 16, where);
    float sums[4] = {d[4 * n], d[4 * n + 1], d[4 * n + 2], d[4 * n + 3]};
    mma_bf16(sums, a[0], a[1], a[2], a[3], b0, b1, where);
    for (int32_t i = 0; i < 4; ++i) d[4 * n + i] = sums[i];
  }
}

inline void wgmma_shared(float (&d)[32], uint64_t a, uint64_t b, Where where = Where::here()) {
  const int32_t row = thread_index() / 32 % 4 * 16 + thread_index() % 32 / 4, c = thread_index() % 4;
  const uint32_t own[4] = {load_swizzled(a, row, c * 4, where), load_swizzled(a, row + 8, c * 4, where),
                           load_swizzled(a, row, c * 4 + 16, where), load_swizzled(a, row + 8, c * 4 + 16, where)};
  wgmma(d, own, b, where);
}

}  // namespace boreas::cuda
