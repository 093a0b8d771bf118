// Small things that all prefill kernels share. Device code over ptx.cuh alone, so that it also runs on the emulated
// device (tests/emulation).
#pragma once

#include <cmath>
#include <cstdint>

#include "exec/cuda/ptx.cuh"

namespace boreas::cuda::prefill {

constexpr float kLog2Of2e = 1.44269504088896341f;  // log2(e)

// 16 bytes that one access moves.
struct alignas(16) Quad {
  uint32_t x, y, z, w;
};
BOREAS_DEVICE Quad load_quad(const void* from) { return *static_cast<const Quad*>(from); }
BOREAS_DEVICE void store_quad(void* to, const Quad& value) { *static_cast<Quad*>(to) = value; }
struct alignas(16) Floats {
  float x, y, z, w;
};
BOREAS_DEVICE Floats load_floats(const float* from) { return *reinterpret_cast<const Floats*>(from); }

BOREAS_DEVICE float low_half_of(uint32_t pair) { return float_of(pair << 16); }
BOREAS_DEVICE float high_half_of(uint32_t pair) { return float_of(pair & 0xffff0000u); }

// Prefill's blocks wait for their own copies and warps only, for microseconds; about a second is a fault, not a hang.
constexpr uint64_t kWaitClocksMax = uint64_t{1} << 31;
BOREAS_DEVICE void wait_mbarrier(uint32_t barrier, uint32_t parity) {
  if (mbarrier_try(barrier, parity)) return;
  const uint64_t begin = clock_now();
  while (!mbarrier_try(barrier, parity))
    if (clock_now() - begin > kWaitClocksMax) stop_kernel();
}

}  // namespace boreas::cuda::prefill
