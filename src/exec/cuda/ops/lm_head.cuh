// LM_HEAD on the device: fp32 logits of the own vocabulary slice to global memory, and a word a row: the largest one
// and its id, or a mark that some logit is not finite. All rows are computed; a row that wants no logits costs no
// bytes.
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

// A total order of floats as unsigned numbers; what is not finite comes first of all.
BOREAS_DEVICE uint32_t ordered_logit(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return ~0u;
  if (bits == 0x80000000u) bits = 0;  // -0 equals 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
constexpr uint32_t kNotFinite = ~0u;

struct BestLogit {
  uint32_t order = 0;
  int32_t id = 0x7fffffff;
  BOREAS_DEVICE void offer(uint32_t its_order, int32_t its_id) {
    if (its_order < order || (its_order == order && its_id >= id)) return;
    order = its_order;
    id = its_id;
  }
};

template <class C>
struct Body<C, Op::kLmHead> {
  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const int32_t first = task.arg(LmHeadOp::kFirst), count = task.arg(LmHeadOp::kCount);
    const RowsOperand x(w.slot(Slot::kNormed), w.rows(), w.lane());
    BestLogit best;  // of one plan row: threads past the last whole multiple of rows sit out
    const int32_t active = kConsumerThreads / w.rows() * w.rows(), row = w.consumer_thread() % w.rows();
    stream_products<C::kHidden, kHeightsOfSlices<C::kVocabulary, C::kWorkers>>(
        w, stream, 1, count, x, [&](int32_t begin, int32_t rows, const Partials<C>& sums) {
          if (w.consumer_thread() >= active) return;
          for (int32_t i = w.consumer_thread(); i < rows * w.rows(); i += active) {
            const float logit = sums.sum(i) * w.params.logit_scale;
            const int32_t id = first + begin + i / w.rows();
            w.params.logits[static_cast<int64_t>(row) * C::kVocabulary + id] = logit;
            best.offer(ordered_logit(logit), id);
          }
        });
    fence_gpu();  // partner: SAMPLE's fence after it has read the word
    reduce_and_publish(w, task, best, row, active);
  }

 private:
  static BOREAS_DEVICE void reduce_and_publish(Worker<C>& w, const Task& task, const BestLogit& best, int32_t row,
                                               int32_t active) {
    const uint32_t scratch = w.scratch(&ScratchMap::partials);  // [threads] {order, id}
    named_barrier(kConsumersMeet, kConsumerThreads);
    store_shared_32(scratch + w.consumer_thread() * 8, best.order);
    store_shared_32(scratch + w.consumer_thread() * 8 + 4, static_cast<uint32_t>(best.id));
    named_barrier(kConsumersMeet, kConsumerThreads);
    const Publication to = begin_publication(w, task);
    if (w.consumer_thread() >= w.rows() || is_silent(w, task)) return;
    BestLogit all;
    for (int32_t i = row; i < active; i += w.rows()) {
      const Vec2 other = load_shared_64(scratch + i * 8);
      all.offer(other.x, static_cast<int32_t>(other.y));
    }
    store_word(to.half + row * C::kWorkers + w.worker(), all.order, static_cast<uint32_t>(all.id), 0, to.epoch);
  }
};

}  // namespace boreas::cuda
