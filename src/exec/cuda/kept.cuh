// What tasks leave in shared memory for tasks of later kernels, in the kernels of the comparison arms (sliced.cuh):
// stored by the role that wrote it, when it has done its tasks, and put back by the consumers of a later kernel before
// theirs; other roles wait for it only if they read it. Which bytes, and who reads: SegmentParams, made by segments.cc.
#pragma once

#include "exec/cuda/drawing.cuh"
#include "exec/cuda/worker.cuh"
#include "program/ops/load.h"

namespace boreas::cuda {

static_assert(kMessengerWarps * kPartBytes == 128, "a row's best entries, segments.cc");

// The mbarrier at which every consumer warp arrives when it has put back its share; nobody waits for own publications
// in these kernels.
template <class C>
BOREAS_DEVICE uint32_t kept_ready(const Worker<C>& w) {
  return w.scratch(&ScratchMap::published);
}

template <class C>
BOREAS_DEVICE uint8_t* kept_memory(const Worker<C>& w) {
  const SegmentParams& segment = *w.tasks.segment;
  return segment.kept + static_cast<uint64_t>(w.worker()) * segment.kept_bytes;
}

// Until what earlier kernels wrote is there, and what they kept as far as the role reads it.
template <class C>
BOREAS_DEVICE void wait_for_kept(const Worker<C>& w, Role role) {
  dependency_wait();
  if (w.tasks.segment->waiting >> static_cast<int32_t>(role) & 1)
    wait_phase(w.params, w.at, kept_ready(w), 0, kWaitBarrier, -1);
}
// Before a LOAD: weights and pages hang on nothing, experts on a route.
template <class C>
BOREAS_DEVICE void wait_for_route(const Worker<C>& w, const Task& task) {
  if (task.arg(LoadOp::kRouteSlot) >= 0) wait_for_kept(w, Role::kProducer);
}

// By consumers.
template <class C>
BOREAS_DEVICE void restore_kept(const Worker<C>& w) {
  dependency_wait();
  const SegmentParams& segment = *w.tasks.segment;
  if (segment.restored == 0) return;
  const uint8_t* kept = kept_memory(w);
  BOREAS_NO_UNROLL
  for (int32_t i = 0; i < segment.restored; ++i) {
    const KeptRange& range = segment.restore[i];
    const uint32_t to = w.base + range.shared;
    if (range.bytes == 4 && w.thread == 0) copy_4_to_shared(to, kept + range.kept);
    BOREAS_NO_UNROLL
    for (uint32_t at = static_cast<uint32_t>(w.thread) * 16; at + 16 <= range.bytes; at += kConsumerThreads * 16)
      copy_16_to_shared(to + at, kept + range.kept + at);
  }
  copies_done();
  warp_sync();
  if (w.lane() == 0) mbarrier_arrive(kept_ready(w));
  wait_phase(w.params, w.at, kept_ready(w), 0, kWaitBarrier, -1);
}

// By the `kThreadsOf` threads of a role, a power of two, all of whose tasks are done.
template <int32_t kThreadsOf, class C>
BOREAS_DEVICE void save_kept(Worker<C>& w, Role role) {
  w.forget();  // or what it needs would be in registers all the time
  const int32_t thread = w.thread & (kThreadsOf - 1);
  const SegmentParams& segment = *w.tasks.segment;
  uint8_t* kept = kept_memory(w);
  BOREAS_NO_UNROLL
  for (int32_t i = 0; i < segment.saved; ++i) {
    const KeptRange& range = segment.save[i];
    if (range.role != static_cast<int32_t>(role)) continue;
    const uint32_t from = w.base + range.shared;
    if (range.bytes == 4 && thread == 0) copy_4_from_shared(kept + range.kept, from);
    BOREAS_NO_UNROLL
    for (uint32_t at = static_cast<uint32_t>(thread) * 16; at + 16 <= range.bytes; at += kThreadsOf * 16)
      copy_16_from_shared(kept + range.kept + at, from + at);
  }
}

}  // namespace boreas::cuda
