// The kernels of routing.cuh and their launch; see launches.h.
#include <cuda_runtime.h>

#include "exec/cuda/prefill/launches.h"
#include "exec/cuda/prefill/routing.cuh"

namespace boreas::cuda::prefill {
namespace {

__global__ void __launch_bounds__(kSelectTokens * 32) select(const __grid_constant__ RouteArgs args) {
  select_experts(args);
}
__global__ void __launch_bounds__(kGroupTokens) count(const __grid_constant__ RouteArgs args) { count_chosen(args); }
__global__ void __launch_bounds__(kGroupTokens) group(const __grid_constant__ RouteArgs args) { group_chosen(args); }

unsigned blocks_of(int32_t tokens, int32_t each) { return static_cast<unsigned>((tokens + each - 1) / each); }

}  // namespace

cudaError_t launch_route(const RouteArgs& args, cudaStream_t stream) {
  select<<<blocks_of(args.tokens, kSelectTokens), kSelectTokens * 32, 0, stream>>>(args);
  count<<<blocks_of(args.tokens, kGroupTokens), kGroupTokens, kGroupSharedBytes, stream>>>(args);
  group<<<blocks_of(args.tokens, kGroupTokens), kGroupTokens, kGroupSharedBytes, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace boreas::cuda::prefill
