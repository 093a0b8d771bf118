// What an op body on the device is: a specialisation of Body for its Op with
//
//   static BOREAS_DEVICE void run(Worker<C>& w, [StreamTaker& stream,] const Task& task);
//
// called by all warps of its role (consumer bodies get the stream). The role's loop has waited for the task's barriers
// before, and arrives and announces afterwards. A body waits for hop words and publishes its own.
//
// Products share one loop over the stream (run_products in megakernel.cuh), so their bodies are its three ends:
//
//   static BOREAS_DEVICE Product begin(Worker<C>& w, const Task& task);             what is multiplied with what
//   static BOREAS_DEVICE void flush(Worker<C>& w, const Task& task, int32_t first, int32_t rows,
//                                   const Partials<C>& sums);                       sums of some rows become values
//   static BOREAS_DEVICE Outputs outputs(const Worker<C>& w, const Task& task);     what is published in the end
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

// What consumers have put into the scratch to be published: [vectors][count] bf16, this worker's words of stride_words
// each ([vector][worker][word]).
struct Outputs {
  int32_t vectors = 0, count = 0, stride_words = 0;
};
template <class C>
BOREAS_DEVICE void publish_outputs(Worker<C>& w, const Task& task, const Outputs& outputs) {
  constexpr int32_t kWordsAtOnce = 8;  // threads a vector
  named_barrier(kConsumersMeet, kConsumerThreads);
  if (is_silent(w, task)) return;
  const Publication to = begin_publication(w, task);
  const int32_t words = words_of_halves(outputs.count);
  for (int32_t vector = w.consumer_thread() / kWordsAtOnce; vector < outputs.vectors;
       vector += kConsumerThreads / kWordsAtOnce) {
    const uint32_t from = w.scratch(&ScratchMap::outputs) + vector * outputs.count * 2;
    Word* at = to.half + (vector * C::kWorkers + w.worker()) * outputs.stride_words;
    for (int32_t word = w.consumer_thread() % kWordsAtOnce; word < words; word += kWordsAtOnce) {
      if (outputs.count % 2 == 0)
        publish_pairs(at + word, from + word * kWordPayloadBytes, outputs.count - word * kWordHalves, to.epoch);
      else publish_halves(at + word, from, word * kWordHalves, outputs.count, to.epoch);
    }
  }
}

}  // namespace boreas::cuda
