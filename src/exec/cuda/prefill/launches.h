// Everything of a prefill but the matrix products, as launches: cuda_kernels.cu calls them. Calls
// only enqueue. What each computes says its .cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/cuda/prefill/arguments.h"

namespace boreas::cuda::prefill {

// Once, before launches for so many queries of a KV head. Error: there is no kernel for that number.
cudaError_t prepare_attention(int32_t queries);
cudaError_t launch_unfold(const UnfoldArgs& args, int32_t pages, cudaStream_t stream);
cudaError_t launch_attention(const AttentionArgs& args, int32_t queries, int32_t items, cudaStream_t stream);

cudaError_t launch_embed(const EmbedArgs& args, int32_t tokens, cudaStream_t stream);
cudaError_t launch_rope(const RopeArgs& args, cudaStream_t stream);
cudaError_t launch_append(const AppendArgs& args, cudaStream_t stream);
cudaError_t launch_finish(const FinishArgs& args, int32_t tokens, cudaStream_t stream);
cudaError_t launch_route(const RouteArgs& args, cudaStream_t stream);

}  // namespace boreas::cuda::prefill
