// PTX that only the products of prefill need, beside exec/cuda/ptx.cuh: wgmma, tensor copies, copies of 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/ptx.cuh"

namespace boreas::cuda {

// ---- copies into shared memory
// `bytes` and both addresses are multiples of 16. The barrier's phase gets the bytes when they have landed.
BOREAS_DEVICE void bulk_copy(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// The map's box at (column, row); what lies outside the tensor arrives as zeros and counts.
BOREAS_DEVICE void tensor_copy(uint32_t to, const void* map, int32_t column, int32_t row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
BOREAS_DEVICE void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// 16 bytes past L1, of which `bytes` are read and the others become 0.
BOREAS_DEVICE void copy_16_or_zeros(uint32_t to, const void* from, int32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// The barrier gets one of its arrivals when all copies of 16 bytes that this thread has issued have landed.
BOREAS_DEVICE void copies_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// ---- tensor copies out of shared memory: they read it like the copy engine, so after fence_async_proxy() by who wrote
// it. The thread that issued them waits until all but its last kPending groups have been read, or are done.
BOREAS_DEVICE void tensor_store(const void* map, int32_t column, int32_t row, uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column),
               "r"(row), "r"(from)
               : "memory");
}
BOREAS_DEVICE void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kPending>
BOREAS_DEVICE void stores_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
BOREAS_DEVICE void stores_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// ---- transposes of 8 x 8 16-bit matrices on their way to shared memory: lane l gives the address of 16 bytes, row
// l % 8 of matrix l / 8; register i of lane 4 g + c holds column g, rows 2 c and 2 c + 1 of matrix i.
BOREAS_DEVICE void store_transposed(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0),
               "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}
// Of an address that shared_base() counts from.
BOREAS_DEVICE void* shared_pointer(uint32_t address) { return __cvta_shared_to_generic(address); }
BOREAS_DEVICE void store_global_128(void* to, const Vec4& v) {
  *static_cast<uint4*>(to) = make_uint4(v.x, v.y, v.z, v.w);
}
BOREAS_DEVICE float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// ---- wgmma: D [64, N] += A [64, 16] B [16, N], bf16 in, fp32 sums, by the 128 threads of a warpgroup. Warp w has rows
// 16 w .. 16 w + 15; its lanes hold A and D as in mma_bf16: d[4 j + i] belongs to columns 8 j + 2 c and + 1.
// Registers of an MMA that was issued must not be touched until it has been waited for.
BOREAS_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
BOREAS_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
BOREAS_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// After the wait: keeps the compiler from reading a sum before it.
BOREAS_DEVICE void opaque(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
// Keeps the compiler from computing ahead what depends on `pointer`.
BOREAS_DEVICE void opaque(const std::byte*& pointer) { asm volatile("" : "+l"(pointer)); }
// A sum as it is: through an integer register all of them would be copied at once, and MMAs would have too few.
BOREAS_DEVICE void store_shared_sum(uint32_t address, float sum) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(sum) : "memory");
}
// B in shared memory: rows of 128 bytes (64 of K), groups of 8 rows with the 128-byte swizzle, one behind the other;
// address a multiple of 1024. The next 16 of K: + kDescriptorK.
BOREAS_DEVICE uint64_t descriptor_of(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kGroupBytes = uint64_t{1024 >> 4} << 32, kUnused = 1 << 16;
  return kSwizzle128 | kGroupBytes | kUnused | (address & 0x3ffff) >> 4;
}
constexpr uint64_t kDescriptorK = 32 >> 4;

// clang-format off
#define BOREAS_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define BOREAS_D8(i) BOREAS_D4(i), BOREAS_D4(i + 4)
#define BOREAS_D32(i) BOREAS_D8(i), BOREAS_D8(i + 8), BOREAS_D8(i + 16), BOREAS_D8(i + 24)
#define BOREAS_R32_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define BOREAS_R32_1 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define BOREAS_R32_2 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define BOREAS_R32_3 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define BOREAS_WGMMA(N, REGISTERS, A0, A1, A2, A3, B, ...)                                                            \
  BOREAS_DEVICE void wgmma(float (&d)[N / 2], const uint32_t* a, uint64_t b) {                                        \
    asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0; "                                                               \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" REGISTERS "}, "                         \
                 "{" A0 ", " A1 ", " A2 ", " A3 "}, " B ", p, 1, 1, 0;}"                                              \
                 : __VA_ARGS__                                                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                                                 \
                 : "memory");                                                                                         \
  }
BOREAS_WGMMA(64, BOREAS_R32_0, "%32", "%33", "%34", "%35", "%36", BOREAS_D32(0))
BOREAS_WGMMA(128, BOREAS_R32_0 ", " BOREAS_R32_1, "%64", "%65", "%66", "%67", "%68", BOREAS_D32(0), BOREAS_D32(32))
BOREAS_WGMMA(192, BOREAS_R32_0 ", " BOREAS_R32_1 ", " BOREAS_R32_2, "%96", "%97", "%98", "%99", "%100",
             BOREAS_D32(0), BOREAS_D32(32), BOREAS_D32(64))
BOREAS_WGMMA(256, BOREAS_R32_0 ", " BOREAS_R32_1 ", " BOREAS_R32_2 ", " BOREAS_R32_3, "%128", "%129", "%130", "%131",
             "%132", BOREAS_D32(0), BOREAS_D32(32), BOREAS_D32(64), BOREAS_D32(96))
#undef BOREAS_WGMMA
#undef BOREAS_D4
#undef BOREAS_D8
#undef BOREAS_D32
#undef BOREAS_R32_0
#undef BOREAS_R32_1
#undef BOREAS_R32_2
#undef BOREAS_R32_3
// clang-format on

}  // namespace boreas::cuda
