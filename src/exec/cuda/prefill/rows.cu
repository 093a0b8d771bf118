// The kernels of rows.cuh and their launches; see launches.h.
#include <cuda_runtime.h>

#include "exec/cuda/prefill/launches.h"
#include "exec/cuda/prefill/rows.cuh"

namespace boreas::cuda::prefill {
namespace {

constexpr int32_t kThreadsOfMany = 256;  // where a thread's work is its own

__global__ void __launch_bounds__(kRowWarpsMax * 32) embed(const __grid_constant__ EmbedArgs args) {
  embed_token(args);
}
__global__ void __launch_bounds__(kThreadsOfMany) rope(const __grid_constant__ RopeArgs args) {
  fill_turn(args, block_index() * kThreadsOfMany + thread_index());
}
__global__ void __launch_bounds__(kThreadsOfMany) keys(const __grid_constant__ AppendArgs args) {
  append_keys(args, block_index() * kThreadsOfMany + thread_index());
}
__global__ void __launch_bounds__(kThreadsOfMany) values(const __grid_constant__ AppendArgs args) {
  append_values(args, block_index() * kThreadsOfMany + thread_index());
}
__global__ void __launch_bounds__(kRowWarpsMax * 32) finish(const __grid_constant__ FinishArgs args) {
  finish_token(args);
}

unsigned blocks_for(int64_t threads) { return static_cast<unsigned>(ceil_div(threads, kThreadsOfMany)); }
unsigned row_threads(int32_t hidden) { return static_cast<unsigned>(hidden / kVector); }

}  // namespace

cudaError_t launch_embed(const EmbedArgs& args, int32_t tokens, cudaStream_t stream) {
  embed<<<static_cast<unsigned>(tokens), row_threads(args.hidden), 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_rope(const RopeArgs& args, cudaStream_t stream) {
  rope<<<blocks_for(int64_t{args.token_count} * kKvHeadDim / 2), kThreadsOfMany, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_append(const AppendArgs& args, cudaStream_t stream) {
  constexpr int32_t kPerHead = kKvHeadDim / kVector;
  const int32_t heads = args.kv_heads + (args.turns != nullptr ? args.query_heads : 0);
  keys<<<blocks_for(int64_t{args.token_count} * heads * kPerHead), kThreadsOfMany, 0, stream>>>(args);
  const int64_t whole = ceil_div(args.token_count, 32) * 32;
  values<<<blocks_for(whole * args.kv_heads * kPerHead), kThreadsOfMany, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_finish(const FinishArgs& args, int32_t tokens, cudaStream_t stream) {
  finish<<<static_cast<unsigned>(tokens), row_threads(args.hidden), kFinishSharedBytes, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace boreas::cuda::prefill
