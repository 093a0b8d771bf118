// DOWN on the device. A thread adds up the experts of its (hidden row, plan row), in ascending id, weight times dot
// product. What others chose is never read for a row, and cannot change its sum.
#pragma once

#include "exec/cuda/ops/op.cuh"
#include "exec/cuda/ops/probe.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kDown> {
  static_assert(C::kHidden >= C::kWorkers, "nobody is without a slice, and so without the late wait");
  static constexpr uint32_t kHeights = kHeightsOfSlices<C::kHidden, C::kWorkers>;
  static constexpr int32_t kTotals = static_cast<int32_t>(ceil_div(C::kHiddenSliceMax * kRowsMax, kConsumerThreads));
  // Of this thread: entry consumer_thread() + k * kConsumerThreads of [own hidden rows][plan rows].
  using Totals = float[kTotals];

  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t route_slot = task.arg(DownOp::kRouteSlot);
    int32_t count = task.arg(DownOp::kCount);
    if (C::even_slice(C::kHidden) > 0) count = C::even_slice(C::kHidden);  // divisions by it are shifts then
    Totals totals = {};
    if (route_slot >= 0) add_experts(w, stream, task, count, route_slot, totals);
    else add_dense(w, stream, count, totals);
    finish(w, task, count, totals);
  }

 private:
  static constexpr int32_t kRows = C::even_slice(C::kHidden);

  struct DenseOperand {
    uint32_t slot;
    int32_t rows;
    static constexpr uint32_t step = kBlockRowBytes;
    BOREAS_DEVICE Vector of(int32_t row) const {
      return {slot + static_cast<uint32_t>(row * C::kDenseWidth * 2), row < rows};
    }
    BOREAS_DEVICE Vector of_lane(int32_t lane) const { return of(lane / 4); }
  };

  static BOREAS_DEVICE void add_dense(Worker<C>& w, StreamTaker& stream, int32_t count, Totals& totals) {
    stream_products<C::kDenseWidth, kRows, kHeights>(w, stream, 1, count, DenseOperand{w.slot(Slot::kInner), w.rows()},
                                                     [&](int32_t begin, int32_t rows, const auto& sums) {
                                                       BOREAS_UNROLL
                                                       for (int32_t k = 0; k < kTotals; ++k) {
                                                         const int32_t i = w.consumer_thread() + k * kConsumerThreads;
                                                         if (i >= count * w.rows()) break;
                                                         const auto [own, row] = w.by_rows(i);
                                                         if (own < begin || own >= begin + rows) continue;
                                                         totals[k] +=
                                                             sums.sum((own - begin) * w.rows() + row, count, own);
                                                       }
                                                     });
  }

  // B of an expert: the inner vectors of the choices that are its. In two parts they lie as the choices are sorted, the
  // second part maybe not yet: who comes to it first waits.
  struct InnerOperand {
    Worker<C>& w;
    const Task& task;
    int32_t parity;
    int32_t cut;          // vectors of the first part; 0: not in two parts
    uint32_t first_part;  // address of vector 0
    uint32_t rest;        // of vector 0, if it lay there
    static constexpr uint32_t step = kBlockRowBytes;
    bool whole = C::kOneRow;  // nothing more to wait for
    int32_t first = 0, columns = 0;
    Vector own{};

    BOREAS_DEVICE InnerOperand(Worker<C>& worker, const Task& down, int32_t of_parity)
        : w(worker),
          task(down),
          parity(of_parity),
          cut(C::kOneRow ? 0 : down.arg(DownOp::kFirstVectors)),
          first_part(worker.slot(Slot::kInnerFirst)),
          rest(worker.slot(Slot::kInner) - static_cast<uint32_t>(cut * C::kExpertWidth * 2)) {
      if (cut == 0) whole = true;
    }
    BOREAS_DEVICE void begin_expert(int32_t first_choice, int32_t count) {
      first = first_choice, columns = count;
      if constexpr (C::kOneRow) return;
      if (first + count > cut) await_rest();
      own = of(w.lane() / 4);
    }
    BOREAS_DEVICE void await_rest() {
      if (!whole) w.wait_late_barrier(task, static_cast<int32_t>(Slot::kInner));
      whole = true;
    }
    BOREAS_DEVICE Vector of(int32_t column) const {
      const bool present = column < (C::kOneRow ? 1 : columns);
      int32_t vector = first + (present ? column : 0);
      const uint32_t from = vector < cut ? first_part : rest;
      if (!C::kOneRow && cut == 0) vector = w.sorted_choice(parity, vector);
      return {from + static_cast<uint32_t>(vector * C::kExpertWidth * 2), present};
    }
    BOREAS_DEVICE Vector of_lane(int32_t lane) const { return C::kOneRow ? of(lane / 4) : own; }
  };

  // First each entry's weighted sum, into its first part; then every total over its experts. What is not of the run
  // counts as +0, which changes no total: they begin at +0, and so are never -0.
  static BOREAS_DEVICE void add_experts(Worker<C>& w, StreamTaker& stream, const Task& task, int32_t count,
                                        int32_t route_slot, Totals& totals) {
    const int32_t parity = w.route_parity(route_slot);
    InnerOperand x(w, task, parity);
    stream_experts<C::kExpertWidth, kRows, kHeights>(
        w, stream, parity, count, x, NoParts{}, [&](const RoutedRun& run, auto& sums) {
          const int32_t rows = unit_fits(kRows) ? kRows : run.rows;
          for (int32_t i = w.consumer_thread(); i < run.choices * rows; i += kConsumerThreads) {
            const int32_t column = i / rows;
            const float weight = w.route_weight(route_slot, w.sorted_choice(parity, run.first_choice + column));
            sums.sums().replace(i, weight * sums.sum(i, count, run.first_row + i - column * rows));
          }
          named_barrier(kConsumersMeet, kConsumerThreads);
          BOREAS_UNROLL
          for (int32_t k = 0; k < kTotals; ++k) {
            const int32_t i = w.consumer_thread() + k * kConsumerThreads;
            if (i >= count * w.rows()) break;
            const auto [own, row] = w.by_rows(i);
            if (own < run.first_row || own >= run.first_row + rows) continue;
            float parts[C::kExpertsPerToken] = {};
            BOREAS_UNROLL
            for (int32_t choice = 0; choice < C::kExpertsPerToken; ++choice) {
              const int32_t place = w.place_of_choice(parity, row * C::kExpertsPerToken + choice);
              const int32_t column = place - run.first_choice;
              if (column >= 0 && column < run.choices)
                parts[choice] = sums.sums().first_part(column * rows + own - run.first_row);
            }
            BOREAS_UNROLL
            for (float part : parts) totals[k] += part;
          }
        });
    if constexpr (!C::kOneRow) x.await_rest();  // also where the step has no more vectors: later tasks rely on it
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
