// The weight ring on the device: program/pipeline.h decides which warp handles which chunk in which stage and by which
// parity it waits; here are the mbarriers and copies behind it. ops/load.cuh fills it, StreamTaker empties it.
#pragma once

#include "exec/cuda/shared_memory.h"
#include "exec/cuda/signal.cuh"
#include "program/pipeline.h"

namespace boreas::cuda {

BOREAS_DEVICE PipelineShape ring_shape(const StepParams& params) {
  return {params.ring_chunks, params.producers, kConsumerGroups, 1, params.ring_chunks};
}

// A consumer warp's walk over the stream, item after item. Its group takes every second chunk; in a chunk the group's
// first two warps share the first piece, the others the second one.
class StreamTaker {
 public:
  BOREAS_DEVICE explicit StreamTaker(const StepParams& params)
      : turn_(ring_shape(params), thread_index() / kGroupThreads % kConsumerGroups) {}

  // From one piece of this warp to the next.
  static constexpr int32_t kPieceStep = kPiecesPerChunk * kConsumerGroups;
  // Which piece of the item in hand is this warp's next one.
  BOREAS_DEVICE int32_t next_piece() const {
    return kPiecesPerChunk * (turn_.chunk() - item_first_) + piece_in_chunk();
  }
  // Whether the group's chunks of this item are its first, third, ...
  BOREAS_DEVICE bool takes_even_chunks() const { return (turn_.chunk() - item_first_) % kConsumerGroups == 0; }

  // Waits for the group's next chunk; its address.
  template <class At>
  BOREAS_DEVICE uint32_t begin_chunk(const StepParams& params, const At& at) {
    const uint32_t since = At::kTimesChunks ? at.stopwatch() : 0;
    wait_phase(params, at, barrier(params.scratch.full), turn_.full_parity(), kWaitChunkFull, turn_.chunk());
    if (At::kTimesChunks) at.got_chunk(since);
    return shared_base() + params.ring_offset + turn_.stage() * kStreamChunkBytes;
  }
  // The same; the address of this warp's piece. `before`: bytes of the item's piece before it.
  template <class At>
  BOREAS_DEVICE uint32_t begin_piece(const StepParams& params, const At& at, int32_t before) {
    return begin_chunk(params, at) + static_cast<uint32_t>(piece_in_chunk() * before);
  }
  BOREAS_DEVICE void end_chunk(const StepParams& params) {
    warp_sync();
    mbarrier_arrive_if(thread_index() % 32 == 0, barrier(params.scratch.empty));
    turn_.advance();
  }
  // Ends an item of so many pieces. Where its last chunk has one piece only, two warps still have to let go of it; they
  // wait for it, since an arrival before the stage is filled would count for what it held before.
  template <class At>
  BOREAS_DEVICE void end_item(const StepParams& params, const At& at, int32_t pieces) {
    item_first_ += chunks_of_pieces(pieces);
    if (!turn_.has_chunk_before(item_first_)) return;
    begin_chunk(params, at);
    end_chunk(params);
  }

 private:
  BOREAS_DEVICE static int32_t piece_in_chunk() { return thread_index() / (kGroupThreads / kPiecesPerChunk) % 2; }
  BOREAS_DEVICE uint32_t barrier(uint32_t first) const { return shared_base() + first + turn_.stage() * kBarrierBytes; }

  ConsumerTurn turn_;
  int32_t item_first_ = 0;  // chunk of the whole stream with which the item in hand begins
};
static_assert(kPiecesPerChunk == 2 && kGroupWarps == 4);

}  // namespace boreas::cuda
