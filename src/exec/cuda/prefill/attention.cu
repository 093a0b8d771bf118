// The attention kernels and their launches; see attention.cuh, unfold.cuh and launches.h.
#include "exec/cuda/prefill/attention.cuh"

#include <cuda_runtime.h>

#include "exec/cuda/prefill/launches.h"
#include "exec/cuda/prefill/unfold.cuh"

namespace boreas::cuda::prefill {
namespace {

template <int32_t kQueries>
__global__ void __launch_bounds__(kAttentionThreads, 1) attention(const __grid_constant__ AttentionArgs args) {
  AttentionBlock<kQueries>(args).run();
}
__global__ void __launch_bounds__(kUnfoldThreads) unfold(const __grid_constant__ UnfoldArgs args) { unfold_page(args); }

using AttentionKernel = void (*)(AttentionArgs);
AttentionKernel kernel_for(int32_t queries) {
  return queries == 8 ? &attention<8> : queries == 4 ? &attention<4> : queries == 2 ? &attention<2> : nullptr;
}

}  // namespace

cudaError_t prepare_attention(int32_t queries) {
  const AttentionKernel kernel = kernel_for(queries);
  if (kernel == nullptr) return cudaErrorNotSupported;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kAttentionSharedBytes);
}

cudaError_t launch_unfold(const UnfoldArgs& args, int32_t pages, cudaStream_t stream) {
  unfold<<<static_cast<unsigned>(pages * args.kv_heads), kUnfoldThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_attention(const AttentionArgs& args, int32_t queries, int32_t items, cudaStream_t stream) {
  kernel_for(
      queries)<<<static_cast<unsigned>(items * args.kv_heads), kAttentionThreads, kAttentionSharedBytes, stream>>>(
      args);
  return cudaGetLastError();
}

}  // namespace boreas::cuda::prefill
