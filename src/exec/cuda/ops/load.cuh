// LOAD on the device: one lane of each producer warp issues its chunks of an item, in turn with the other warps. The
// arrivals warp walks the same items and counts the chunks that have landed.
#pragma once

#include "exec/cuda/ops/op.cuh"
#include "exec/cuda/pipeline.cuh"

namespace boreas::cuda {

// One item of the stream, as the step's routing and pages make it.
struct StreamItem {
  LoadOp::Stream stream;
  int32_t layer, unit_bytes, unit_pieces, units, route_parity;
  BOREAS_DEVICE int32_t chunks() const { return static_cast<int32_t>(chunks_of_pieces(units * unit_pieces)); }
};

template <class C>
BOREAS_DEVICE int32_t stream_columns(LoadOp::Stream stream) {
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

// The region's base and the worker's offset in it, of weights that are not routed to or of one expert.
template <class C>
BOREAS_DEVICE const uint8_t* unit_address(const Worker<C>& w, const StreamItem& item, int32_t unit) {
  const LayerWeights& layer = w.params.layers[item.layer < 0 ? 0 : item.layer];
  const auto rows_before = [&](int32_t total) { return int64_t{C::slice_of(total, w.worker()).first}; };
  int64_t offset = 0;
  switch (item.stream) {
    case LoadOp::kRouter:
      offset = static_cast<int64_t>(layer.router) + rows_before(C::kExperts) * C::kHidden * 2;
      break;
    case LoadOp::kQkv:
      offset = static_cast<int64_t>(layer.qkv) + C::qkv_offset(w.worker());
      break;
    case LoadOp::kExpertUpGate:
      offset = static_cast<int64_t>(layer.up_gate) + w.expert_id(item.route_parity, unit) * C::kExpertUpGateBytes +
               2 * rows_before(C::kExpertWidth) * C::kHidden * 2;
      break;
    case LoadOp::kDenseUpGate:
      offset = static_cast<int64_t>(layer.up_gate) + 2 * rows_before(C::kDenseWidth) * C::kHidden * 2;
      break;
    case LoadOp::kOutput:
      offset = static_cast<int64_t>(layer.output) + rows_before(C::kHidden) * C::kQueryWidth * 2;
      break;
    case LoadOp::kExpertDown:
      offset = static_cast<int64_t>(layer.down) + w.expert_id(item.route_parity, unit) * C::kExpertDownBytes +
               rows_before(C::kHidden) * C::kExpertWidth * 2;
      break;
    case LoadOp::kDenseDown:
      offset = static_cast<int64_t>(layer.down) + rows_before(C::kHidden) * C::kDenseWidth * 2;
      break;
    case LoadOp::kLmHead:
    default:
      offset = static_cast<int64_t>(w.params.lm_head) + rows_before(C::kVocabulary) * C::kHidden * 2;
  }
  return w.params.weights + offset;
}

template <class C>
struct Body<C, Op::kLoad> {
  // What the task streams in this step; waits for nothing.
  static BOREAS_DEVICE StreamItem item_of(const Worker<C>& w, const Task& task) {
    StreamItem item;
    item.stream = static_cast<LoadOp::Stream>(task.arg(LoadOp::kStream));
    item.layer = task.layer();
    item.unit_bytes = task.arg(LoadOp::kUnitBytes);
    item.unit_pieces = task.stream_unit_pieces();
    item.route_parity = w.route_parity(task.arg(LoadOp::kRouteSlot));
    item.units = 1;
    if (item.unit_bytes == 0) item.units = 0;
    else if (item.stream == LoadOp::kExpertUpGate || item.stream == LoadOp::kExpertDown)
      item.units = w.experts_hit(item.route_parity);
    else if (item.stream == LoadOp::kKvPages) item.units = pages_in_all(w, is_sliding(w, item));
    return item;
  }

  // Issues the item's chunks of this warp. One lane.
  static BOREAS_DEVICE void issue(Worker<C>& w, const StreamItem& item, int32_t item_first, ProducerTurn& turn,
                                  uint64_t policy) {
    const int32_t end = item_first + item.chunks();
    while (turn.has_chunk_before(end)) {
      wait_for_stage(w, item, turn);
      const uint32_t stage = w.ring() + turn.stage() * kStreamChunkBytes;
      const uint32_t full = w.scratch(&ScratchMap::full) + turn.stage() * kBarrierBytes;
      const int32_t chunk = turn.chunk() - item_first;
      if (item.stream == LoadOp::kKvPages) copy_half_page(w, item, chunk, stage, full, policy);
      else copy_pieces(w, item, chunk, stage, full, policy);
      turn.advance();
    }
  }

 private:
  static BOREAS_DEVICE bool is_sliding(const Worker<C>& w, const StreamItem& item) {
    return w.params.layers[item.layer].sliding != 0;
  }
  static BOREAS_DEVICE int32_t pages_in_all(const Worker<C>& w, bool sliding) {
    int32_t pages = 0;
    for (int32_t row = 0; row < w.rows(); ++row) pages += w.page_count(row, sliding);
    return pages;
  }

  static BOREAS_DEVICE void wait_for_stage(Worker<C>& w, const StreamItem& item, const ProducerTurn& turn) {
    const int32_t credits = w.params.credits[item.stream];
    stagger(w.params);
    Deadline deadline(w.params, w.at);
    for (int32_t arrived;
         turn.chunk() - (arrived = static_cast<int32_t>(load_shared_32(w.scratch(&ScratchMap::arrived)))) >= credits;)
      deadline.miss(kWaitCredit, item.stream, static_cast<uint32_t>(turn.chunk() - credits + 1),
                    static_cast<uint32_t>(arrived));
    wait_phase(w.params, w.at, w.scratch(&ScratchMap::empty) + turn.stage() * kBarrierBytes, turn.empty_parity(),
               kWaitChunkEmpty, turn.chunk());
  }

  // Both pieces of a chunk in one copy where they are of one unit, else two.
  static BOREAS_DEVICE void copy_pieces(Worker<C>& w, const StreamItem& item, int32_t chunk, uint32_t stage,
                                        uint32_t full, uint64_t policy) {
    const int32_t columns = stream_columns<C>(item.stream), rows = item.unit_bytes / (columns * 2);
    const int32_t first = chunk * kPiecesPerChunk, second = first + 1;
    const int32_t unit = first / item.unit_pieces;
    const PiecePlace place = piece_place(rows, columns, first - unit * item.unit_pieces);
    const uint8_t* from = unit_address(w, item, unit) + place.offset;
    const bool has_second = second < item.units * item.unit_pieces;
    const int32_t other_unit = second / item.unit_pieces;
    const PiecePlace other =
        has_second ? piece_place(rows, columns, second - other_unit * item.unit_pieces) : PiecePlace{};
    mbarrier_arrive_expect(full, static_cast<uint32_t>(place.bytes + other.bytes));
    if (has_second && other_unit == unit) {
      bulk_copy(stage, from, static_cast<uint32_t>(place.bytes + other.bytes), full, policy);
      return;
    }
    bulk_copy(stage, from, static_cast<uint32_t>(place.bytes), full, policy);
    if (has_second)
      bulk_copy(stage + place.bytes, unit_address(w, item, other_unit) + other.offset,
                static_cast<uint32_t>(other.bytes), full, policy);
  }

  static BOREAS_DEVICE void copy_half_page(Worker<C>& w, const StreamItem& item, int32_t chunk, uint32_t stage,
                                           uint32_t full, uint64_t policy) {
    const bool sliding = is_sliding(w, item);
    int32_t page = chunk / 2, row = 0;
    for (int32_t count; page >= (count = w.page_count(row, sliding)); ++row) page -= count;
    const int32_t id = Worker<C>::load_page_id(w.page_list(row, sliding) + page * 2);
    mbarrier_arrive_expect(full, kKvHalfBytes);
    bulk_copy(stage, w.page(id, sliding, item.layer) + chunk % 2 * kKvHalfBytes, kKvHalfBytes, full, policy);
  }
};

}  // namespace boreas::cuda
