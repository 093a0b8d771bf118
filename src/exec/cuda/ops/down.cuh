// DOWN on the device. A thread adds up the experts of its (hidden row, plan row), in ascending id, weight times dot
// product. An expert that a row did not choose is skipped for that row, not added as zero: what other rows chose cannot
// change it.
#pragma once

#include "exec/cuda/ops/op.cuh"
#include "exec/cuda/ops/probe.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kDown> {
  static constexpr uint32_t kHeights = kHeightsOfSlices<C::kHidden, C::kWorkers>;
  static constexpr int32_t kTotals = static_cast<int32_t>(ceil_div(C::kHiddenSliceMax * kRowsMax, kConsumerThreads));
  // Of this thread: entry consumer_thread() + k * kConsumerThreads of [own hidden rows][plan rows].
  using Totals = float[kTotals];

  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t route_slot = task.arg(DownOp::kRouteSlot);
    int32_t count = task.arg(DownOp::kCount);
    if (C::even_slice(C::kHidden) > 0) count = C::even_slice(C::kHidden);  // divisions by it are shifts then
    Totals totals = {};
    if (count > 0) {
      if (route_slot >= 0) add_units<C::kExpertWidth, true>(w, stream, count, route_slot, totals);
      else add_units<C::kDenseWidth, false>(w, stream, count, route_slot, totals);
    }
    finish(w, task, count, totals);
  }

 private:
  template <int32_t kColumns, bool kRouted>
  static BOREAS_DEVICE void add_units(Worker<C>& w, StreamTaker& stream, int32_t count, int32_t route_slot,
                                      Totals& totals) {
    const int32_t parity = kRouted ? w.route_parity(route_slot) : 0, units = kRouted ? w.experts_hit(parity) : 1;
    TileWalk<kColumns, kHeights, C> walk(w);
    auto& sums = walk.sums();
    Operand<kColumns, kRouted> x{w, parity, 0};
    int32_t first = 0, unit = 0, left = count;
    BOREAS_NO_UNROLL
    while (true) {
      const bool end = unit == units;
      const int32_t height = tile_rows(left);
      if (sums.collected() > 0 && (end || !sums.has_room(height))) {  // the only place: it is inlined once
        sums.complete();
        add_collected<kRouted>(w, count, route_slot, parity, first, walk, totals);
        first += sums.collected();
        sums.end_flush(w);
      }
      if (end) break;
      x.unit = unit;
      walk.take(w, stream, height, x);
      left -= height;
      if (left > 0) continue;
      left = count;
      ++unit;
    }
    stream.end_item(w.params, w.at, walk.pieces());
  }

  // No branches: rows that do not exist look at the last one.
  template <int32_t kColumns, bool kRouted>
  struct Operand {
    const Worker<C>& w;
    int32_t parity, unit;
    static constexpr uint32_t step = kBlockRowBytes;
    BOREAS_DEVICE Vector of(int32_t row) const {
      const int32_t last = w.rows() - 1;
      const int32_t choice = kRouted ? w.choice_of(parity, unit, row < last ? row : last) : 0;
      const int32_t vector = kRouted ? row * C::kExpertsPerToken + choice : row;
      return {w.slot(Slot::kInner) + static_cast<uint32_t>(vector * kColumns * 2), row <= last && choice >= 0};
    }
  };

  // Hidden rows of units, numbered through all units, from `first` on: first each entry's weighted sum, into its first
  // part; then every total over its units. A sum that is not wanted counts as +0, which changes no total: they begin
  // at +0, and so are never -0.
  template <bool kRouted, class Walk>
  static BOREAS_DEVICE void add_collected(const Worker<C>& w, int32_t count, int32_t route_slot, int32_t parity,
                                          int32_t first, Walk& walk, Totals& totals) {
    const int32_t collected = walk.sums().collected(), end = first + collected;
    for (int32_t i = w.consumer_thread(); i < collected * w.rows(); i += kConsumerThreads) {
      const auto [collected_row, row] = w.by_rows(i);
      const int32_t unit = (first + collected_row) / count;
      const int32_t choice = kRouted ? w.choice_of(parity, unit, row) : 0;
      const float weight = kRouted ? w.route_weight(route_slot, row, choice < 0 ? 0 : choice) : 1.0f;
      const float sum = walk.sum(i, count, first + collected_row - unit * count);
      walk.sums().replace(i, choice < 0 ? 0.0f : weight * sum);
    }
    named_barrier(kConsumersMeet, kConsumerThreads);
    BOREAS_UNROLL
    for (int32_t k = 0; k < kTotals; ++k) {
      const int32_t i = w.consumer_thread() + k * kConsumerThreads;
      if (i >= count * w.rows()) break;
      const auto [own, row] = w.by_rows(i);
      BOREAS_UNROLL_4  // loads of some units in flight
          for (int32_t unit = first <= own ? 0 : ceil_div_32(first - own, count); unit * count + own < end; ++unit)
              totals[k] += walk.sums().first_part((unit * count + own - first) * w.rows() + row);
    }
  }

  static BOREAS_DEVICE void finish(Worker<C>& w, const Task& task, int32_t count, const Totals& totals) {
    const uint32_t residual = w.slot(Slot::kResidual), projected = w.slot(Slot::kProjected);
    const int32_t layer = C::kProbed ? task.layer() : 0, slice_first = C::kProbed ? task.arg(DownOp::kFirst) : 0;
    BOREAS_UNROLL
    for (int32_t k = 0; k < kTotals; ++k) {
      const int32_t i = w.consumer_thread() + k * kConsumerThreads;
      if (i >= count * w.rows()) break;
      const auto [column, row] = w.by_rows(i);
      const int32_t at = (row * count + column) * 4;
      const float sum = (load_shared_float(residual + at) + load_shared_float(projected + at)) + totals[k];
      uint32_t rounded = pack_bf16(sum, 0.0f) & 0xffffu;
      if constexpr (C::kProbed) {
        record_outputs(w, layer, row, slice_first + column, load_shared_float(projected + at), totals[k]);
        rounded = probed_input(w, layer + 1, row, slice_first + column, rounded);
      }
      store_shared_float(residual + at, low_half(rounded));
      store_shared_16(w.scratch(&ScratchMap::outputs) + (row * count + column) * 2, rounded);
    }
    publish_outputs<C::even_slice(C::kHidden)>(w, task, w.rows(), count, C::kResidualWords);
  }
};

}  // namespace boreas::cuda
