// ROUTER_LOGITS on the device. A word of hop logit holds one expert's logits of six rows.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kRouterLogits> {
  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t first = task.arg(RouterLogitsOp::kFirst), count = task.arg(RouterLogitsOp::kCount);
    if (count == 0) return;
    const Publication to = begin_publication(w, task);
    const bool silent = is_silent(w, task);
    stream_products<C::kHidden, C::even_slice(C::kExperts), kHeightsOfSlices<C::kExperts, C::kWorkers>>(
        w, stream, 1, count, rows_operand(w, Slot::kNormed), [&](int32_t begin, int32_t rows, const auto& sums) {
          const int32_t sixths = w.rows() <= kWordHalves ? 1 : 2;
          for (int32_t i = w.consumer_thread(); i < rows * sixths; i += kConsumerThreads) {
            const int32_t expert = sixths == 1 ? i : i >> 1, sixth = i - expert * sixths;
            const auto logit = [&](int32_t row) {
              return row < w.rows() ? sums.sum(expert * w.rows() + row, count, begin + expert) : 0.0f;
            };
            uint32_t payload[3];
            BOREAS_UNROLL
            for (int32_t k = 0; k < 3; ++k) {
              const int32_t row = sixth * kWordHalves + 2 * k;
              payload[k] = pack_bf16(logit(row), logit(row + 1));
            }
            if (!silent)
              store_word(to.half + sixth * C::kExperts + first + begin + expert, payload[0], payload[1], payload[2],
                         to.epoch);
          }
        });
  }
};

}  // namespace boreas::cuda
