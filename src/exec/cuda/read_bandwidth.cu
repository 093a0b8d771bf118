// The yardsticks of cuda_executor.h. Two ways to read a large region once: plain 16-byte loads, and bulk copies into
// shared memory with several in flight on every SM, as the megakernel reads. What is read is added up and stored, so
// that nothing is left out.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/ptx.cuh"

namespace boreas {
namespace {

using namespace cuda;

constexpr int32_t kThreadsOf = 512;
constexpr uint32_t kChunk = 16 * 1024;
// Bulk copies: warps of an SM, and chunks that each has in flight.
struct BulkPattern {
  const char* name;
  int32_t warps, stages;
};
constexpr BulkPattern kBulkPatterns[] = {
    {"bulk copies, 64 KB in flight an SM", 4, 1},
    {"bulk copies, 96 KB in flight an SM", 3, 2},
    {"bulk copies, 128 KB in flight an SM", 4, 2},
    {"bulk copies, 192 KB in flight an SM", 4, 3},
};
constexpr int32_t kPasses = 5;

__global__ void read_plain(const uint4* from, int64_t vectors, uint32_t* sums) {
  uint32_t sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int32_t k = 0; k < 4; ++k) v[k] = __ldcs(from + i + k * stride);
#pragma unroll
    for (int32_t k = 0; k < 4; ++k) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  for (; i < vectors; i += stride) sum += from[i].x;
  sums[int64_t{blockIdx.x} * blockDim.x + threadIdx.x] = sum;
}

// Every warp copies chunks of its own into its own stages, `stages` of them in flight; chunks of all warps interleaved.
__global__ void read_bulk(const uint8_t* from, int64_t chunks, int32_t stages, uint32_t* sums) {
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32, warps = static_cast<int32_t>(blockDim.x) / 32;
  const uint32_t data = shared_base() + static_cast<uint32_t>(warp * stages) * kChunk;
  const uint32_t barriers = shared_base() + static_cast<uint32_t>(warps * stages) * kChunk +
                            static_cast<uint32_t>(warp * stages) * kBarrierBytes;
  if (threadIdx.x % 32 != 0) return;
  for (int32_t i = 0; i < stages; ++i) mbarrier_init(barriers + i * kBarrierBytes, 1);
  mbarrier_init_done();
  const uint64_t policy = evict_first_policy();
  const int64_t first = int64_t{warp} * gridDim.x + blockIdx.x, step = int64_t{warps} * gridDim.x;
  const int64_t mine = first < chunks ? (chunks - first - 1) / step + 1 : 0;
  const auto issue = [&](int64_t i) {
    const uint32_t stage = static_cast<uint32_t>(i % stages);
    mbarrier_arrive_expect(barriers + stage * kBarrierBytes, kChunk);
    bulk_copy(data + stage * kChunk, from + (first + i * step) * kChunk, kChunk, barriers + stage * kBarrierBytes,
              policy);
  };
  uint32_t sum = 0;
  for (int64_t i = 0; i < mine && i < stages; ++i) issue(i);
  for (int64_t i = 0; i < mine; ++i) {
    const uint32_t stage = static_cast<uint32_t>(i % stages);
    while (!mbarrier_try(barriers + stage * kBarrierBytes, static_cast<uint32_t>(i / stages) & 1)) {
    }
    sum += load_shared_32(data + stage * kChunk);
    fence_async_proxy();
    if (i + stages < mine) issue(i + stages);
  }
  sums[blockIdx.x * static_cast<uint32_t>(warps) + static_cast<uint32_t>(warp)] = sum;
}

Error error_of(cudaError_t error) { return Error{std::string("measuring the GPU: ") + cudaGetErrorString(error)}; }

#define RETURN_IF_CUDA_ERROR(call)                                \
  do {                                                            \
    const cudaError_t cuda_error_ = (call);                       \
    if (cuda_error_ != cudaSuccess) return error_of(cuda_error_); \
  } while (0)

struct Region {
  ~Region() {
    cudaFree(data);
    cudaFree(sums);
  }
  uint8_t* data = nullptr;
  uint32_t* sums = nullptr;
};

struct PinnedMemory {
  ~PinnedMemory() { cudaFreeHost(data); }
  void* data = nullptr;
};

template <class Launch>
Status best_of(const char* pattern, int64_t bytes, const Launch& launch, GpuReadBandwidth& best) {
  cudaEvent_t begin, end;
  RETURN_IF_CUDA_ERROR(cudaEventCreate(&begin));
  RETURN_IF_CUDA_ERROR(cudaEventCreate(&end));
  for (int32_t pass = 0; pass < kPasses; ++pass) {
    RETURN_IF_CUDA_ERROR(cudaEventRecord(begin));
    launch();
    RETURN_IF_CUDA_ERROR(cudaGetLastError());  // else what did not run would be measured, as very fast
    RETURN_IF_CUDA_ERROR(cudaEventRecord(end));
    RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end));
    float milliseconds = 0;
    RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin, end));
    const double gb_s = static_cast<double>(bytes) / milliseconds / 1e6;
    if (gb_s > best.gb_s) best = {gb_s, pattern};
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return Ok{};
}

}  // namespace

Result<GpuReadBandwidth> measure_gpu_read_bandwidth(int32_t device_index, int64_t bytes) {
  RETURN_IF_CUDA_ERROR(cudaSetDevice(device_index));
  cudaDeviceProp properties{};
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, device_index));
  const unsigned blocks = static_cast<unsigned>(properties.multiProcessorCount);
  const unsigned plain_blocks = 4 * blocks;
  constexpr int64_t kUnit = kChunk;
  bytes = bytes / kUnit * kUnit;
  Region region;
  RETURN_IF_CUDA_ERROR(cudaMalloc(&region.data, static_cast<size_t>(bytes)));
  RETURN_IF_CUDA_ERROR(cudaMalloc(&region.sums, sizeof(uint32_t) * plain_blocks * kThreadsOf));
  RETURN_IF_CUDA_ERROR(cudaMemset(region.data, 0x5a, static_cast<size_t>(bytes)));
  GpuReadBandwidth best;
  RETURN_IF_ERROR(best_of(
      "16-byte loads", bytes,
      [&] {
        read_plain<<<plain_blocks, kThreadsOf>>>(reinterpret_cast<const uint4*>(region.data), bytes / 16, region.sums);
      },
      best));
  for (const BulkPattern& pattern : kBulkPatterns) {
    const int shared = pattern.warps * pattern.stages * static_cast<int>(kChunk + kBarrierBytes);
    RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(read_bulk, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    const auto launch = [&] {
      read_bulk<<<blocks, static_cast<unsigned>(32 * pattern.warps), static_cast<size_t>(shared)>>>(
          region.data, bytes / kUnit, pattern.stages, region.sums);
    };
    RETURN_IF_ERROR(best_of(pattern.name, bytes, launch, best));
  }
  return best;
}

Result<double> measure_gpu_copy_bandwidth(int32_t device_index) {
  RETURN_IF_CUDA_ERROR(cudaSetDevice(device_index));
  constexpr size_t kBytes = size_t{256} << 20;
  Region region;
  PinnedMemory host;
  RETURN_IF_CUDA_ERROR(cudaMalloc(&region.data, kBytes));
  RETURN_IF_CUDA_ERROR(cudaMallocHost(&host.data, kBytes));
  std::memset(host.data, 0x5a, kBytes);
  GpuReadBandwidth best;
  RETURN_IF_ERROR(best_of(
      "copy", static_cast<int64_t>(kBytes),
      [&] { cudaMemcpyAsync(region.data, host.data, kBytes, cudaMemcpyHostToDevice); }, best));
  return best.gb_s;
}

}  // namespace boreas
