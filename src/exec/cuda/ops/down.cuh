// DOWN on the device. Each warp adds up the experts of a row itself, in ascending id, weight times its partial sum;
// then the warps' totals are added as everywhere. An expert that a row did not choose is skipped for that row, not
// added as zero: what other rows chose cannot change it.
#pragma once

#include "exec/cuda/ops/op.cuh"
#include "exec/cuda/ops/probe.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kDown> {
  static constexpr int32_t kTiles = unit_tiles(C::kHiddenSliceMax);
  static constexpr uint32_t kHeights = kHeightsOfSlices<C::kHidden, C::kWorkers>;

  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t count = task.arg(DownOp::kCount), route_slot = task.arg(DownOp::kRouteSlot);
    TileSums totals[kTiles];
    if (count > 0) {
      const int32_t units = route_slot >= 0 ? w.experts_hit(w.route_parity(route_slot)) : 1;
      BOREAS_NO_UNROLL
      for (int32_t unit = 0; unit < units; ++unit) add_unit(w, stream, count, route_slot, unit, totals);
      stream.end_item(w.params);
    }
    finish(w, task, count, totals);
  }

 private:
  static constexpr bool kWholeRouted = chunks_are_whole(C::kExpertWidth, kHeights);
  static constexpr bool kWholeDense = chunks_are_whole(C::kDenseWidth, kHeights);

  static BOREAS_DEVICE void add_unit(Worker<C>& w, StreamTaker& stream, int32_t count, int32_t route_slot, int32_t unit,
                                     TileSums (&totals)[kTiles]) {
    const bool routed = route_slot >= 0;
    const int32_t parity = w.route_parity(route_slot), columns = routed ? C::kExpertWidth : C::kDenseWidth;
    // This lane loads the vector of plan row lane / 4 and sums for plan rows 2 (lane % 4) and the next.
    const int32_t row = w.lane() / 4;
    const int32_t choice = row >= w.rows() ? -1 : routed ? w.choice_of(parity, unit, row) : 0;
    const int32_t vector = routed ? row * C::kExpertsPerToken + choice : row;
    const Product product{
        1,
        count,
        columns / kBlockColumns,
        routed ? kWholeRouted : kWholeDense,
        {w.slot(Slot::kInner) + vector * columns * 2 + w.lane() % 4 * 16, kBlockRowBytes, choice >= 0}};
    float weights[2];
    bool chosen[2];
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      const int32_t summed = w.lane() % 4 * 2 + i;
      const int32_t its = summed >= w.rows() ? -1 : routed ? w.choice_of(parity, unit, summed) : 0;
      chosen[i] = its >= 0;
      weights[i] = !routed || its < 0 ? 1.0f : w.route_weight(route_slot, summed, its);
    }
    int32_t tile = 0;
    BOREAS_NO_UNROLL
    for (int32_t left = count; left > 0;) {
      const int32_t height = tile_rows(left);
      const TileSums sums = stream_tile(w, stream, product, height);
      BOREAS_UNROLL
      for (int32_t i = 0; i < 4; ++i)
        if (chosen[i % 2]) totals[tile].part[0][i] = multiply_add(weights[i % 2], sums.sum(i), totals[tile].part[0][i]);
      if (kTiles > 1) ++tile;
      left -= height;
    }
  }

  static BOREAS_DEVICE void finish(Worker<C>& w, const Task& task, int32_t count, const TileSums (&totals)[kTiles]) {
    Partials<C> partials(w);
    int32_t first = 0, tile = 0;
    const uint32_t residual = w.slot(Slot::kResidual), projected = w.slot(Slot::kProjected);
    const int32_t layer = C::kProbed ? task.layer() : 0, slice_first = C::kProbed ? task.arg(DownOp::kFirst) : 0;
    const auto flush = [&] {
      partials.complete();
      for (int32_t i = w.consumer_thread(); i < partials.collected() * w.rows(); i += kConsumerThreads) {
        const auto [index, row] = w.by_rows(i);
        const int32_t column = first + index, at = (row * count + column) * 4;
        const float sum = (load_shared_float(residual + at) + load_shared_float(projected + at)) + partials.sum(i);
        uint32_t rounded = pack_bf16(sum, 0.0f) & 0xffffu;
        if constexpr (C::kProbed) {
          record_outputs(w, layer, row, slice_first + column, load_shared_float(projected + at), partials.sum(i));
          rounded = probed_input(w, layer + 1, row, slice_first + column, rounded);
        }
        store_shared_float(residual + at, low_half(rounded));
        store_shared_16(w.scratch(&ScratchMap::outputs) + (row * count + column) * 2, rounded);
      }
      first += partials.collected();
      partials.next_half(w);
    };
    for (int32_t done = 0; done < count;) {
      const int32_t height = tile_rows(count - done);
      if (!partials.has_room(height)) flush();
      partials.collect(totals[tile], height, w.lane());
      done += height;
      if (kTiles > 1) ++tile;
    }
    if (partials.collected() > 0) flush();
    publish_outputs(w, task, {w.rows(), count, C::kResidualWords});
  }
};

}  // namespace boreas::cuda
