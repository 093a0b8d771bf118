// ROUTER_LOGITS on the device. A word of hop logit holds one expert's logits of six rows.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kRouterLogits> {
  static BOREAS_DEVICE Product begin(Worker<C>& w, const Task& task) {
    return {1, task.arg(RouterLogitsOp::kCount), blocks_of_columns(C::kHidden),
            chunks_are_whole(C::kHidden, kHeightsOfSlices<C::kExperts, C::kWorkers>), rows_operand(w, Slot::kNormed)};
  }
  static BOREAS_DEVICE Outputs outputs(const Worker<C>&, const Task&) { return {}; }
  static BOREAS_DEVICE void flush(Worker<C>& w, const Task& task, int32_t begin, int32_t rows,
                                  const Partials<C>& sums) {
    if (is_silent(w, task)) return;
    const Publication to = begin_publication(w, task);
    Word* first = to.half + task.arg(RouterLogitsOp::kFirst) + begin;
    const int32_t sixths = w.rows() <= kWordHalves ? 1 : 2;
    for (int32_t i = w.consumer_thread(); i < rows * sixths; i += kConsumerThreads) {
      const int32_t expert = sixths == 1 ? i : i >> 1, sixth = i - expert * sixths;
      uint32_t payload[3] = {0, 0, 0};
      BOREAS_UNROLL
      for (int32_t k = 0; k < 3; ++k) {
        const int32_t row = sixth * kWordHalves + 2 * k;
        if (row >= w.rows()) break;
        const float low = sums.sum(expert * w.rows() + row);
        payload[k] = pack_bf16(low, row + 1 < w.rows() ? sums.sum(expert * w.rows() + row + 1) : 0.0f);
      }
      store_word(first + sixth * C::kExperts + expert, payload[0], payload[1], payload[2], to.epoch);
    }
  }
};

}  // namespace boreas::cuda
