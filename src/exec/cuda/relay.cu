// See relay.h. Both kernels write pairs of columns to where the megakernel's stream expects them; a thread moves four
// pairs, or makes the eight of one Philox call.
#include "exec/cuda/dummy_values.h"
#include "exec/cuda/relay.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kVectorBytes = 16;
constexpr int32_t kVectorPairs = kVectorBytes / 4;
constexpr int32_t kThreadsPerBlock = 256;

__device__ void put_pair(std::byte* base, const RowPlace& place, int32_t pair, uint32_t value) {
  *reinterpret_cast<uint32_t*>(base + pair_offset(place, pair)) = value;
}

__global__ void scatter(std::byte* base, const RowPlace* places, int64_t vectors, int32_t vectors_per_row,
                        const uint4* tensor) {
  const int64_t index = int64_t{blockIdx.x} * kThreadsPerBlock + threadIdx.x;
  if (index >= vectors) return;
  const RowPlace place = places[index / vectors_per_row];
  const int32_t pair = static_cast<int32_t>(index % vectors_per_row) * kVectorPairs;
  const uint4 values = tensor[index];
  put_pair(base, place, pair, values.x);
  put_pair(base, place, pair + 1, values.y);
  put_pair(base, place, pair + 2, values.z);
  put_pair(base, place, pair + 3, values.w);
}

__global__ void generate(std::byte* base, const RowPlace* places, int64_t first_block, int64_t blocks,
                         int32_t blocks_per_row, uint64_t name_hash, int32_t exponent) {
  const int64_t index = int64_t{blockIdx.x} * kThreadsPerBlock + threadIdx.x;
  if (index >= blocks) return;
  const std::array<uint32_t, 4> words = dummy_bytes(name_hash, static_cast<uint64_t>(first_block + index));
  const RowPlace place = places[index / blocks_per_row];
  const int32_t first = static_cast<int32_t>(index % blocks_per_row) * (kDummyBlock / 2);
  for (int32_t pair = 0; pair < kDummyBlock / 2; ++pair)
    put_pair(base, place, first + pair, dummy_pair(exponent, words[static_cast<size_t>(pair / 2)], pair % 2));
}

uint32_t grid_for(int64_t threads) { return static_cast<uint32_t>(ceil_div(threads, kThreadsPerBlock)); }

}  // namespace

cudaError_t launch_scatter(std::byte* base, const RowPlace* places, int32_t rows, int32_t columns,
                           const std::byte* tensor, cudaStream_t stream) {
  const int32_t vectors_per_row = columns * 2 / kVectorBytes;
  const int64_t vectors = int64_t{rows} * vectors_per_row;
  if (vectors == 0) return cudaSuccess;
  scatter<<<grid_for(vectors), kThreadsPerBlock, 0, stream>>>(base, places, vectors, vectors_per_row,
                                                              reinterpret_cast<const uint4*>(tensor));
  return cudaGetLastError();
}

cudaError_t launch_dummy(std::byte* base, const RowPlace* places, int32_t first_row, int32_t rows, int32_t columns,
                         uint64_t name_hash, int32_t exponent, cudaStream_t stream) {
  const int32_t blocks_per_row = columns / kDummyBlock;
  const int64_t blocks = int64_t{rows} * blocks_per_row;
  if (blocks == 0) return cudaSuccess;
  generate<<<grid_for(blocks), kThreadsPerBlock, 0, stream>>>(base, places, int64_t{first_row} * blocks_per_row, blocks,
                                                              blocks_per_row, name_hash, exponent);
  return cudaGetLastError();
}

}  // namespace boreas::cuda
