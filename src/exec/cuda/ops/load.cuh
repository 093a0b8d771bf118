// LOAD on the device: one lane of each producer warp issues its chunks of an item, in turn with the other warps. The
// arrivals warp walks the same items and counts the chunks that have landed.
#pragma once

#include "exec/cuda/ops/op.cuh"
#include "exec/cuda/pipeline.cuh"

namespace boreas::cuda {

// One item of the stream, as the step's routing and pages make it.
struct StreamItem {
  int32_t stream, unit_bytes, unit_pieces, units, route_parity;
  BOREAS_DEVICE int32_t chunks() const { return chunks_of_pieces(units * unit_pieces); }
};

template <class C>
BOREAS_DEVICE int32_t stream_columns(int32_t stream) {
  switch (stream) {
    case LoadOp::kOutput:
      return C::kQueryWidth;
    case LoadOp::kExpertDown:
      return C::kExpertWidth;
    case LoadOp::kDenseDown:
      return C::kDenseWidth;
    default:
      return C::kHidden;
  }
}

template <class C>
struct Body<C, Op::kLoad> {
  // What the task streams in this step; waits for nothing.
  static BOREAS_DEVICE StreamItem item_of(const Worker<C>& w, const Task& task) {
    StreamItem item;
    item.stream = task.arg(LoadOp::kStream);
    item.unit_bytes = task.arg(LoadOp::kUnitBytes);
    item.unit_pieces = task.stream_unit_pieces();
    item.route_parity = w.route_parity(task.arg(LoadOp::kRouteSlot));
    item.units = 1;
    if (item.unit_bytes == 0) item.units = 0;
    else if (item.stream == LoadOp::kExpertUpGate || item.stream == LoadOp::kExpertDown)
      item.units = w.experts_hit(item.route_parity);
    else if (item.stream == LoadOp::kKvPages) item.units = w.pages_in_all(task.arg(kLoadSliding) != 0);
    return item;
  }

  // Issues the item's chunks of this warp, by its first lane.
  static BOREAS_DEVICE void issue(Worker<C>& w, const Task& task, const StreamItem& item, int32_t item_first,
                                  ProducerTurn& turn, uint64_t policy) {
    const Source source = source_of(task);
    if (w.lane() != 0) return;
    const int32_t end = item_first + item.chunks();
    if (!turn.has_chunk_before(end)) return;
    if (item.stream == LoadOp::kKvPages) issue_pages(w, item, source, item_first, end, turn, policy);
    else issue_weights(w, item, source, item_first, end, turn, policy);
  }

 private:
  struct Source {  // DeviceLoadArg
    uint64_t from;
    int32_t stride, piece_bytes;
  };
  static BOREAS_DEVICE Source source_of(const Task& task) {
    const uint64_t low = static_cast<uint32_t>(task.arg(kLoadFromLow)),
                   high = static_cast<uint32_t>(task.arg(kLoadFromHigh));
    return {low | high << 32, task.arg(kLoadStride), task.arg(kLoadPieceBytes)};
  }

  static BOREAS_DEVICE uint32_t stage_address(const Worker<C>& w, const ProducerTurn& turn) {
    return w.ring() + turn.stage() * kStreamChunkBytes;
  }
  static BOREAS_DEVICE uint32_t full_barrier(const Worker<C>& w, const ProducerTurn& turn) {
    return w.scratch(&ScratchMap::full) + turn.stage() * kBarrierBytes;
  }
  // The stage is free for this chunk: all warps of the group that read the one before have arrived
  // (StreamTaker::end_chunk), and the fence puts the copy behind their accesses. Done before the credit comes.
  static BOREAS_DEVICE void wait_for_stage(Worker<C>& w, const ProducerTurn& turn) {
    wait_phase(w.params, w.at, w.scratch(&ScratchMap::empty) + turn.stage() * kBarrierBytes, turn.empty_parity(),
               kWaitChunkEmpty, turn.chunk());
    fence_async_proxy();
  }
  static BOREAS_DEVICE void wait_for_credit(Worker<C>& w, const StreamItem& item, int32_t credits,
                                            const ProducerTurn& turn) {
    stagger(w.params);
    Deadline deadline(w.params, w.at);
    for (int32_t arrived;
         turn.chunk() - (arrived = static_cast<int32_t>(load_shared_32(w.scratch(&ScratchMap::arrived)))) >= credits;)
      deadline.miss(kWaitCredit, item.stream, static_cast<uint32_t>(turn.chunk() - credits + 1),
                    static_cast<uint32_t>(arrived));
  }

  // A piece on its way through an item: which one of which unit. One lane computes it chunk by chunk, so it steps
  // instead of dividing.
  struct PieceCursor {
    int32_t unit = 0, piece = 0;
    BOREAS_DEVICE void step(const StreamItem& item, int32_t pieces) {
      piece += pieces;
      while (piece >= item.unit_pieces) {
        piece -= item.unit_pieces;
        ++unit;
      }
    }
  };

  // Both pieces of a chunk in one copy where they are of one unit, else two.
  static BOREAS_DEVICE void issue_weights(Worker<C>& w, const StreamItem& item, const Source& source,
                                          int32_t item_first, int32_t end, ProducerTurn& turn, uint64_t policy) {
    const uint8_t* first_unit = w.params.weights + source.from;
    const auto unit_of = [&](int32_t unit) {
      return source.stride == 0
                 ? first_unit
                 : first_unit + static_cast<uint64_t>(w.expert_id(item.route_parity, unit)) * source.stride;
    };
    const int32_t credits = w.params.credits[item.stream], step = kPiecesPerChunk * w.params.producers;
    PieceCursor at;
    at.step(item, kPiecesPerChunk * (turn.chunk() - item_first));
    BOREAS_NO_UNROLL
    while (turn.has_chunk_before(end)) {
      const uint8_t* unit = unit_of(at.unit);
      PieceCursor next = at;
      next.step(item, 1);
      const PiecePlace first = place_of(item, source, at.piece);
      const PiecePlace second = next.unit < item.units ? place_of(item, source, next.piece) : PiecePlace{};
      const uint32_t stage = stage_address(w, turn), barrier = full_barrier(w, turn);
      const uint32_t first_bytes = static_cast<uint32_t>(first.bytes);
      wait_for_stage(w, turn);
      mbarrier_arrive_expect(barrier, first_bytes + static_cast<uint32_t>(second.bytes));
      wait_for_credit(w, item, credits, turn);
      const bool together = next.unit == at.unit;
      bulk_copy(stage, unit + first.offset, together ? first_bytes + static_cast<uint32_t>(second.bytes) : first_bytes,
                barrier, policy);
      if (!together && second.bytes > 0)
        bulk_copy(stage + first_bytes, unit_of(next.unit) + second.offset, static_cast<uint32_t>(second.bytes), barrier,
                  policy);
      turn.advance();
      if (turn.has_chunk_before(end)) at.step(item, step);
    }
  }
  static BOREAS_DEVICE PiecePlace place_of(const StreamItem& item, const Source& source, int32_t piece) {
    if (C::kEqualPieces || source.piece_bytes > 0) return {piece * source.piece_bytes, source.piece_bytes};
    const int32_t columns = stream_columns<C>(item.stream);
    return piece_place(item.unit_bytes / (columns * 2), columns, piece);
  }

  static BOREAS_DEVICE void issue_pages(Worker<C>& w, const StreamItem& item, const Source& source, int32_t item_first,
                                        int32_t end, ProducerTurn& turn, uint64_t policy) {
    const bool sliding = source.stride != 0;
    const uint8_t* pool = (sliding ? w.params.pages_sliding : w.params.pages_full) + source.from;
    const uint64_t page_bytes = sliding ? w.params.page_bytes_sliding : w.params.page_bytes_full;
    const int32_t credits = w.params.credits[item.stream];
    const uint32_t list = w.page_list(sliding);
    BOREAS_NO_UNROLL
    for (int32_t row = 0; turn.has_chunk_before(end); ++row) {
      const int32_t row_end = item_first + w.page_end(row, sliding) * 2;
      const HalfSeen one_half = w.half_seen(row, sliding);
      BOREAS_NO_UNROLL
      for (; turn.has_chunk_before(row_end); turn.advance()) {
        const int32_t chunk = turn.chunk() - item_first, page = chunk / 2, half = chunk % 2;
        const uint8_t* from = pool + load_half(list + page * 2) * page_bytes + half * kKvHalfBytes;
        const bool seen = page != (half == 0 ? one_half.second : one_half.first);  // if not, attention passes over it
        const uint32_t barrier = full_barrier(w, turn);
        wait_for_stage(w, turn);
        if (seen) mbarrier_arrive_expect(barrier, kKvHalfBytes);
        wait_for_credit(w, item, credits, turn);
        if (seen) bulk_copy(stage_address(w, turn), from, kKvHalfBytes, barrier, policy);
        else mbarrier_arrive(barrier);
      }
    }
  }
};

}  // namespace boreas::cuda
