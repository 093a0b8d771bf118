// See relay.h. Both kernels write blocks of 32 columns (64 bytes) to where the megakernel's stream expects them; a
// thread moves 16 bytes, or makes the 32 bytes of one Philox call.
#include "exec/cuda/dummy_values.h"
#include "exec/cuda/relay.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kVectorBytes = 16;
constexpr int32_t kVectorsPerBlock = kBlockRowBytes / kVectorBytes;
constexpr int32_t kThreadsPerBlock = 256;

__device__ std::byte* block_at(std::byte* base, const RowPlace& place, int32_t block) {
  return base + place.offset + int64_t{block} * place.block_stride;
}

__global__ void scatter(std::byte* base, const RowPlace* places, int64_t vectors, int32_t vectors_per_row,
                        const uint4* tensor) {
  const int64_t index = int64_t{blockIdx.x} * kThreadsPerBlock + threadIdx.x;
  if (index >= vectors) return;
  const int64_t row = index / vectors_per_row;
  const int32_t vector = static_cast<int32_t>(index % vectors_per_row);
  std::byte* to = block_at(base, places[row], vector / kVectorsPerBlock);
  reinterpret_cast<uint4*>(to)[vector % kVectorsPerBlock] = tensor[index];
}

__global__ void generate(std::byte* base, const RowPlace* places, int64_t first_block, int64_t blocks,
                         int32_t blocks_per_row, uint64_t name_hash, int32_t exponent) {
  const int64_t index = int64_t{blockIdx.x} * kThreadsPerBlock + threadIdx.x;
  if (index >= blocks) return;
  const std::array<uint32_t, 4> words = dummy_bytes(name_hash, static_cast<uint64_t>(first_block + index));
  uint4 out[2];
  uint32_t* values = reinterpret_cast<uint32_t*>(out);
  for (int32_t pair = 0; pair < kDummyBlock / 2; ++pair)
    values[pair] = dummy_pair(exponent, words[static_cast<size_t>(pair / 2)], pair % 2);
  const int64_t row = index / blocks_per_row;
  const int32_t column = static_cast<int32_t>(index % blocks_per_row) * kDummyBlock;
  std::byte* to = block_at(base, places[row], column / kBlockColumns) + column % kBlockColumns * 2;
  reinterpret_cast<uint4*>(to)[0] = out[0];
  reinterpret_cast<uint4*>(to)[1] = out[1];
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
