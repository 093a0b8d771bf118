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
    const bool routed = route_slot >= 0;
    TileSums totals[kTiles];
    if (count > 0) {
      const int32_t parity = w.route_parity(route_slot);
      const int32_t units = routed ? w.experts_hit(parity) : 0;
      BOREAS_NO_UNROLL
      for (int32_t unit = 0; unit < units; ++unit)
        add_unit<C::kExpertWidth, true>(w, stream, count, route_slot, parity, unit, totals);
      if (!routed) add_unit<C::kDenseWidth, false>(w, stream, count, route_slot, parity, 0, totals);
      stream.end_item(w.params);
    }
    finish(w, task, count, totals);
  }

 private:
  template <int32_t kColumns, bool kRouted>
  static BOREAS_DEVICE void add_unit(Worker<C>& w, StreamTaker& stream, int32_t count, int32_t route_slot,
                                     int32_t parity, int32_t unit, TileSums (&totals)[kTiles]) {
    // This lane loads the vector of plan row lane / 4 and sums for plan rows 2 (lane % 4) and the next. No branches:
    // rows that do not exist look at the last one and are not taken.
    const int32_t last = w.rows() - 1;
    const auto choice_of = [&](int32_t row) {
      return kRouted ? w.choice_of(parity, unit, row < last ? row : last) : 0;
    };
    const int32_t row = w.lane() / 4, choice = choice_of(row);
    const int32_t vector = kRouted ? row * C::kExpertsPerToken + choice : row;
    const Operand x{w.slot(Slot::kInner) + vector * kColumns * 2 + w.lane() % 4 * 16, kBlockRowBytes,
                    row <= last && choice >= 0};
    float weights[2];
    bool chosen[2];
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      const int32_t summed = w.lane() % 4 * 2 + i, its = choice_of(summed);
      chosen[i] = summed <= last && its >= 0;
      weights[i] = kRouted ? w.route_weight(route_slot, summed < last ? summed : last, its < 0 ? 0 : its) : 1.0f;
    }
    int32_t tile = 0;
    BOREAS_NO_UNROLL
    for (int32_t left = count; left > 0;) {
      const int32_t height = tile_rows(left);
      const TileSums sums = stream_tile_of<kColumns, kHeights>(w, stream, height, x);
      BOREAS_UNROLL
      for (int32_t i = 0; i < 4; ++i) {
        float& total = totals[tile].part[0][i];
        const float more = multiply_add(weights[i % 2], sums.sum(i), total);
        total = chosen[i % 2] ? more : total;
      }
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
    publish_outputs<C::even_slice(C::kHidden)>(w, task, w.rows(), count, C::kResidualWords);
  }
};

}  // namespace boreas::cuda
