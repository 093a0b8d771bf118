// What an op body on the device is: a specialisation of Body for its Op with
//
//   static BOREAS_DEVICE void run(Worker<C>& w, [StreamTaker& stream,] const Task& task);
//
// called by all warps of its role (consumer bodies get the stream). The role's loop has waited for the task's barriers
// before, and arrives and announces afterwards. A body waits for hop words and publishes its own.
#pragma once

#include "exec/cuda/products.cuh"
#include "exec/cuda/worker.cuh"
#include "program/ops/all.h"

namespace boreas::cuda {

template <class C, Op kOp>
struct Body;

// Planted fault of a test: this task publishes nothing.
template <class C>
BOREAS_DEVICE bool is_silent(const Worker<C>& w, const Task& task) {
  return w.worker() == 0 && task.index == w.params.silent_task;
}

// Where a publication's words go.
struct Publication {
  Word* half;
  uint32_t epoch;
};
template <class C>
BOREAS_DEVICE Publication begin_publication(Worker<C>& w, const Task& task) {
  const HopPublish publish = task.publish();
  stagger(w.params);
  w.at.mark(Moment::kPublished);
  const uint32_t epoch = hop_epoch(w.params, publish.hop, publish.use);
  return {hop_half(w.params, publish.hop, epoch), epoch};
}

// `vectors` of the outputs, [vector][count] bf16 in the scratch, which all consumers have put there: out they go, this
// worker's words of `stride_words` each: [vector][worker][word], or [worker][vector][word] where kByWriter.
// vector_of(i): which is number i. kCount: what count always is, where the compiler knows it; 0: it does not.
template <int32_t kCount, bool kByWriter, class C, class VectorOf>
BOREAS_DEVICE void publish_vectors(Worker<C>& w, const Task& task, int32_t vectors, int32_t count, int32_t stride_words,
                                   VectorOf vector_of) {
  if (is_silent(w, task)) return;
  const Publication to = begin_publication(w, task);
  if (kCount > 0) count = kCount;
  const int32_t words = words_of_halves(count);
  for (int32_t i = w.consumer_thread(); i < vectors * words; i += kConsumerThreads) {
    const int32_t vector = vector_of(i / words), word = i % words;
    const int32_t place = kByWriter ? w.worker() * vectors + vector : vector * C::kWorkers + w.worker();
    Word* at = to.half + place * stride_words + word;
    const uint32_t from = w.scratch(&ScratchMap::outputs) + vector * count * 2;
    if (kCount > 0 && kCount % 2 == 0)
      publish_pairs(at, from + word * kWordPayloadBytes, count - word * kWordHalves, to.epoch);
    else publish_halves(at, from, word * kWordHalves, count, to.epoch);
  }
}
// All of them, once all consumers are here.
template <int32_t kCount, bool kByWriter = false, class C>
BOREAS_DEVICE void publish_outputs(Worker<C>& w, const Task& task, int32_t vectors, int32_t count,
                                   int32_t stride_words) {
  named_barrier(kConsumersMeet, kConsumerThreads);
  publish_vectors<kCount, kByWriter>(w, task, vectors, count, stride_words, [](int32_t i) { return i; });
}

}  // namespace boreas::cuda
