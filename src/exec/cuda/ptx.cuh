// The only file with PTX: what the kernel needs of a Hopper SM beyond C++. Every function exists twice: here for nvcc,
// and in tests/emulation/device_emulation.h for a CPU, where the same kernel source runs thread by thread under a host
// compiler (BOREAS_EMULATE_DEVICE). Addresses in shared memory are 32-bit offsets into the block's shared window.
#pragma once

#include <cstdint>

#include "exec/cuda/step_params.h"

#ifdef BOREAS_EMULATE_DEVICE
#include <device_emulation.h>
#else

#define BOREAS_DEVICE __device__ __forceinline__
#define BOREAS_DEVICE_COLD static __device__ __noinline__
#define BOREAS_UNROLL _Pragma("unroll")
#define BOREAS_NO_UNROLL _Pragma("unroll 1")

namespace boreas::cuda {

struct Vec2 {
  uint32_t x, y;
};
struct Vec4 {
  uint32_t x, y, z, w;
};

BOREAS_DEVICE int32_t thread_index() { return static_cast<int32_t>(threadIdx.x); }
BOREAS_DEVICE int32_t block_index() { return static_cast<int32_t>(blockIdx.x); }
BOREAS_DEVICE void block_sync() { __syncthreads(); }
BOREAS_DEVICE void warp_sync() { __syncwarp(); }

// Threads of a block that meet at barrier `id` (1..15; 0 is block_sync).
BOREAS_DEVICE void named_barrier(int32_t id, int32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Shares of the register file by warpgroup; every warp of it executes the same call.
template <int N>
BOREAS_DEVICE void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
BOREAS_DEVICE void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
// Keeps the compiler from hoisting what depends on `value` out of the loop, where it would only cost registers.
BOREAS_DEVICE void opaque(int32_t& value) { asm volatile("" : "+r"(value)); }

// ---- shared memory
extern __shared__ uint8_t dynamic_shared_memory[];
BOREAS_DEVICE uint32_t shared_base() { return static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared_memory)); }
BOREAS_DEVICE Vec4 load_shared_128(uint32_t address) {
  Vec4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
BOREAS_DEVICE Vec2 load_shared_64(uint32_t address) {
  Vec2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
BOREAS_DEVICE uint32_t load_shared_32(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
BOREAS_DEVICE void store_shared_32(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
BOREAS_DEVICE void store_shared_16(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<uint16_t>(value)) : "memory");
}
BOREAS_DEVICE void store_byte(uint32_t address, int32_t value) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "h"(static_cast<uint16_t>(value)) : "memory");
}
// The same under a predicate, where a branch would part the warp and bring it together again: some 60 clocks each.
// What is not loaded stays as it was.
BOREAS_DEVICE void load_shared_128_if(bool wanted, uint32_t address, Vec4& v) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; @p ld.shared.v4.u32 {%0, %1, %2, %3}, [%5];}"
               : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
               : "r"(static_cast<int32_t>(wanted)), "r"(address)
               : "memory");
}
BOREAS_DEVICE void load_shared_64_if(bool wanted, uint32_t address, uint32_t& x, uint32_t& y) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; @p ld.shared.v2.u32 {%0, %1}, [%3];}"
               : "+r"(x), "+r"(y)
               : "r"(static_cast<int32_t>(wanted)), "r"(address)
               : "memory");
}
// Four at once, `step` bytes apart.
BOREAS_DEVICE void load_shared_128_if(bool wanted, uint32_t address, uint32_t step, Vec4 (&v)[4]) {
  asm volatile(
      "{.reg .pred p; .reg .b32 a, b, c; setp.ne.b32 p, %16, 0; add.u32 a, %17, %18; add.u32 b, a, %18; add.u32 c, b, "
      "%18; @p ld.shared.v4.u32 {%0, %1, %2, %3}, [%17]; @p ld.shared.v4.u32 {%4, %5, %6, %7}, [a]; @p "
      "ld.shared.v4.u32 {%8, %9, %10, %11}, [b]; @p ld.shared.v4.u32 {%12, %13, %14, %15}, [c];}"
      : "+r"(v[0].x), "+r"(v[0].y), "+r"(v[0].z), "+r"(v[0].w), "+r"(v[1].x), "+r"(v[1].y), "+r"(v[1].z), "+r"(v[1].w),
        "+r"(v[2].x), "+r"(v[2].y), "+r"(v[2].z), "+r"(v[2].w), "+r"(v[3].x), "+r"(v[3].y), "+r"(v[3].z), "+r"(v[3].w)
      : "r"(static_cast<int32_t>(wanted)), "r"(address), "r"(step)
      : "memory");
}
BOREAS_DEVICE void store_shared_32_if(bool wanted, uint32_t address, uint32_t value) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.shared.u32 [%1], %2;}" ::"r"(static_cast<int32_t>(wanted)),
               "r"(address), "r"(value)
               : "memory");
}
BOREAS_DEVICE uint32_t load_shared_8(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
BOREAS_DEVICE float load_shared_float(uint32_t address) { return __uint_as_float(load_shared_32(address)); }
BOREAS_DEVICE void load_shared_float_if(bool wanted, uint32_t address, float& v) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %1, 0; @p ld.shared.f32 %0, [%2];}"
               : "+f"(v)
               : "r"(static_cast<int32_t>(wanted)), "r"(address)
               : "memory");
}
BOREAS_DEVICE void store_shared_float(uint32_t address, float value) {
  store_shared_32(address, __float_as_uint(value));
}

// ---- mbarriers: 8 bytes of shared memory each
BOREAS_DEVICE void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
BOREAS_DEVICE void mbarrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// One arrival, and `bytes` that copies will bring before the phase completes.
BOREAS_DEVICE void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
BOREAS_DEVICE void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
BOREAS_DEVICE void mbarrier_arrive_if(bool wanted, uint32_t barrier) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p mbarrier.arrive.shared::cta.b64 _, [%1];}" ::"r"(
                   static_cast<int32_t>(wanted)),
               "r"(barrier)
               : "memory");
}
// Whether the phase of this parity has completed; may suspend the thread for a while. Acquires what arrivals released.
BOREAS_DEVICE bool mbarrier_try(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}
// The same without a pause: try_wait comes back as soon as the phase is over, and may wait for that.
BOREAS_DEVICE bool mbarrier_is_past(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}

// ---- bulk copies
BOREAS_DEVICE uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// `bytes` and both addresses are multiples of 16. The barrier's phase gets the bytes when they have landed.
BOREAS_DEVICE void bulk_copy(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
// Orders earlier reads and writes of shared memory before later bulk copies into it.
BOREAS_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- from kernel to kernel of a step cut into several (sliced.cuh)
// Lets the next kernel begin where this one leaves room; only what it does after its dependency_wait() comes later.
BOREAS_DEVICE void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Until the kernels before are done and what they wrote is there; at once unless this one began early.
BOREAS_DEVICE void dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// 16 bytes to shared memory, not waited for; copies_done() waits for all of this thread's.
BOREAS_DEVICE void copy_16_to_shared(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
BOREAS_DEVICE void copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }
BOREAS_DEVICE void copy_4_to_shared(uint32_t to, const void* from) {
  uint32_t value;
  // Not relaxed.gpu: check_word_access.py takes what is for a part of a hop word.
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  store_shared_32(to, value);
}
// Bytes as they are, also such as nobody has written.
BOREAS_DEVICE void copy_16_from_shared(void* to, uint32_t from) {
  const Vec4 v = load_shared_128(from);
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
BOREAS_DEVICE void copy_4_from_shared(void* to, uint32_t from) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(load_shared_32(from)) : "memory");
}
// Into L2, if it is not there yet.
BOREAS_DEVICE void prefetch_l2(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// ---- hop words: one access of 16 bytes, not torn (measured; checked at start-up)
BOREAS_DEVICE void store_word(Word* to, uint32_t a, uint32_t b, uint32_t c, uint32_t epoch) {
  const uint64_t low = a | static_cast<uint64_t>(b) << 32, high = c | static_cast<uint64_t>(epoch) << 32;
  asm volatile("{.reg .b128 r; mov.b128 r, {%1, %2}; st.relaxed.gpu.global.b128 [%0], r;}" ::"l"(to), "l"(low),
               "l"(high)
               : "memory");
}
BOREAS_DEVICE Word load_word(const Word* from) {
  uint64_t low, high;
  asm volatile("{.reg .b128 r; ld.relaxed.gpu.global.b128 r, [%2]; mov.b128 {%0, %1}, r;}"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  Word word;
  word.payload[0] = static_cast<uint32_t>(low);
  word.payload[1] = static_cast<uint32_t>(low >> 32);
  word.payload[2] = static_cast<uint32_t>(high);
  word.epoch = static_cast<uint32_t>(high >> 32);
  return word;
}
BOREAS_DEVICE void load_word_if(bool wanted, const Word* from, Word& word) {
  uint64_t low = word.payload[0] | static_cast<uint64_t>(word.payload[1]) << 32;
  uint64_t high = word.payload[2] | static_cast<uint64_t>(word.epoch) << 32;
  asm volatile(
      "{.reg .pred p; .reg .b128 r; setp.ne.b32 p, %2, 0; mov.b128 r, {%0, %1}; @p ld.relaxed.gpu.global.b128 r, [%3]; "
      "mov.b128 {%0, %1}, r;}"
      : "+l"(low), "+l"(high)
      : "r"(static_cast<int32_t>(wanted)), "l"(from)
      : "memory");
  word.payload[0] = static_cast<uint32_t>(low);
  word.payload[1] = static_cast<uint32_t>(low >> 32);
  word.payload[2] = static_cast<uint32_t>(high);
  word.epoch = static_cast<uint32_t>(high >> 32);
}
// What a fence has ordered.
BOREAS_DEVICE float load_float(const float* from) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}
BOREAS_DEVICE void load_floats(const float* from, float (&values)[4]) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "l"(from)
               : "memory");
}
BOREAS_DEVICE void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
BOREAS_DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
// True for exactly one caller of a word that was 0.
BOREAS_DEVICE bool claim(uint32_t* word) { return atomicCAS_system(word, 0u, 1u) == 0; }
// To `value`, where less was there.
BOREAS_DEVICE void raise_to(uint32_t* word, uint32_t value) { atomicMax_system(word, value); }
BOREAS_DEVICE void store_release_system(uint32_t* to, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
BOREAS_DEVICE uint32_t load_acquire_system(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

// ---- within a warp; every lane takes part
BOREAS_DEVICE uint32_t shuffle(uint32_t value, int32_t lane) { return __shfl_sync(~0u, value, lane); }
BOREAS_DEVICE uint32_t shuffle_xor(uint32_t value, int32_t mask) { return __shfl_xor_sync(~0u, value, mask); }
BOREAS_DEVICE float shuffle_xor(float value, int32_t mask) { return __shfl_xor_sync(~0u, value, mask); }
BOREAS_DEVICE uint32_t shuffle_down(uint32_t value, int32_t distance) { return __shfl_down_sync(~0u, value, distance); }
BOREAS_DEVICE float shuffle_down(float value, int32_t distance) { return __shfl_down_sync(~0u, value, distance); }
BOREAS_DEVICE uint32_t reduce_max(uint32_t value) { return __reduce_max_sync(~0u, value); }
BOREAS_DEVICE bool all_lanes(bool value) { return __all_sync(~0u, value); }
BOREAS_DEVICE uint32_t ballot(bool value) { return __ballot_sync(~0u, value); }
BOREAS_DEVICE int32_t bits_set(uint32_t value) { return __popc(value); }
BOREAS_DEVICE int32_t lowest_bit(uint32_t value) { return __ffs(static_cast<int>(value)) - 1; }
// D += A * B, m16n8k16, bf16 in, fp32 sums. Lane 4 g + c holds of A: row g in a0 (columns 2c, 2c + 1) and a2 (+ 8), row
// g + 8 in a1 and a3; of B column g; of D rows g (0, 1) and g + 8 (2, 3), columns 2c and 2c + 1.
BOREAS_DEVICE void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                            uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// An 8 x 8 matrix of 16-bit values, lane 4 g + c holding row g, columns 2c and 2c + 1, becomes its transpose.
BOREAS_DEVICE uint32_t transpose_8x8(uint32_t value) {
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(value));
  return result;
}

// ---- numbers
BOREAS_DEVICE uint32_t bits_of(float value) { return __float_as_uint(value); }
BOREAS_DEVICE float float_of(uint32_t bits) { return __uint_as_float(bits); }
BOREAS_DEVICE float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Of x > 0, not tiny: the approximation (2^-22.9) and a step of Newton's, without the detours of exact division.
BOREAS_DEVICE float reciprocal_square_root(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y * __fmaf_rn(-0.5f * x * y, y, 1.5f);
}
BOREAS_DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// Two floats rounded to bf16 (nearest even); `low` in the low half.
BOREAS_DEVICE uint32_t pack_bf16(float low, float high) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// ---- time, faults
// In units of kCoarseClocks.
BOREAS_DEVICE uint32_t clock_coarse() { return static_cast<uint32_t>(clock64() / kCoarseClocks); }
BOREAS_DEVICE uint32_t clock_low() { return static_cast<uint32_t>(clock()); }
BOREAS_DEVICE uint64_t clock_now() { return static_cast<uint64_t>(clock64()); }
BOREAS_DEVICE uint32_t processor_index() {
  uint32_t sm;
  asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  return sm;
}
BOREAS_DEVICE uint64_t global_nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
BOREAS_DEVICE void spin_hint() {}
[[noreturn]] BOREAS_DEVICE void stop_kernel() {
  __trap();
  while (true) {
  }
}

// A value that does not change while the kernel runs, read through the read-only cache.
BOREAS_DEVICE uint32_t load_constant_32(const void* from) {
  uint32_t value;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}

}  // namespace boreas::cuda
#endif
