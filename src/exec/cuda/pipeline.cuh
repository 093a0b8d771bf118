// The weight ring on the device: program/pipeline.h decides which warp handles which chunk in which stage and by which
// parity it waits; here are the mbarriers and copies behind it. ops/load.cuh fills it, StreamTaker empties it.
#pragma once

#include "exec/cuda/shared_memory.h"
#include "exec/cuda/signal.cuh"
#include "program/pipeline.h"

namespace boreas::cuda {

BOREAS_DEVICE PipelineShape ring_shape(const StepParams& params) {
  return {params.ring_chunks, params.producers, 1, 1, params.ring_chunks};
}

// A consumer warp's walk over the pieces of the stream, item after item. Every warp of the block takes every chunk.
class StreamTaker {
 public:
  BOREAS_DEVICE explicit StreamTaker(const StepParams& params) : turn_(ring_shape(params), 0) {}

  // Address of the next piece of the item; waits for its chunk where one begins.
  template <class At>
  BOREAS_DEVICE uint32_t begin_piece(const StepParams& params, const At& at) {
    return taken_ == 0 ? begin_chunk(params, at) : second_piece_;
  }
  BOREAS_DEVICE void end_piece(const StepParams& params, int32_t bytes) {
    if (taken_ == 1) return end_chunk(params);
    second_piece_ = chunk_address(params) + static_cast<uint32_t>(bytes);
    taken_ = 1;
  }
  // The same for both pieces of a chunk at once, where an item is made of whole chunks.
  template <class At>
  BOREAS_DEVICE uint32_t begin_chunk(const StepParams& params, const At& at) {
    const uint32_t since = at.stopwatch();
    wait_phase(params, at, barrier(params.scratch.full), turn_.full_parity(), kWaitChunkFull, turn_.chunk());
    at.got_chunk(since);
    return chunk_address(params);
  }
  BOREAS_DEVICE void end_chunk(const StepParams& params) {
    fence_async_proxy();
    warp_sync();
    mbarrier_arrive_if(thread_index() % 32 == 0, barrier(params.scratch.empty));
    turn_.advance();
    taken_ = 0;
  }
  // Ends an item: its last chunk may hold one piece only.
  BOREAS_DEVICE void end_item(const StepParams& params) {
    if (taken_ != 0) end_chunk(params);
  }

 private:
  BOREAS_DEVICE uint32_t barrier(uint32_t first) const { return shared_base() + first + turn_.stage() * kBarrierBytes; }
  BOREAS_DEVICE uint32_t chunk_address(const StepParams& params) const {
    return shared_base() + params.ring_offset + turn_.stage() * kStreamChunkBytes;
  }

  ConsumerTurn turn_;
  uint32_t second_piece_ = 0;
  int32_t taken_ = 0;  // pieces of the chunk
};

}  // namespace boreas::cuda
