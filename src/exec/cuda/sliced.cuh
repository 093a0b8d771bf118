// The kernels of the comparison arms: each runs one segment of a step (segments.h) by the megakernel's roles and
// bodies. What makes it a kernel of its own: its barriers and its ring begin anew, what shared memory held comes from
// memory (kept.cuh), and words of other workers are there when it looks for them. A kernel may begin before the one
// before it is done (dependent launch): its producers then stream what hangs on no kernel, all else waits.
#pragma once

#include "exec/cuda/kept.cuh"
#include "exec/cuda/megakernel.cuh"
#include "exec/cuda/segment_params.h"

namespace boreas::cuda {

// The first tasks of the next kernel, so that it need not wait for memory: by one warp, eight lanes a role.
template <class C>
BOREAS_DEVICE void fetch_next_tasks(const Worker<C>& w) {
  const SegmentParams& segment = *w.tasks.segment;
  const int32_t role = w.lane() / (32 / kRoles), next = segment.tasks[role].end() + w.lane() % (32 / kRoles);
  if (next < segment.lists[role].count)
    prefetch_l2(w.params.tasks + w.worker() * segment.worker_tasks + segment.lists[role].first + next);
}

// One worker's part of a segment.
template <class C>
BOREAS_DEVICE void run_segment(const StepParams& params, const SegmentParams& segment) {
  static_assert(C::kSliced);
  const TasksOfKernel<true> own{&segment};
  if (thread_index() == 0) launch_dependents();
  prepare_barriers(Worker<C>(params, Role::kConsumer, own));
  block_sync();
  const int32_t warp = thread_index() / 32;
  if (warp < kConsumerWarps) {
    registers_increase<kConsumerRegisters>();
    Worker<C> w(params, Role::kConsumer, own);
    restore_kept(w);
    if (segment.pools != 0) wait_for_pages(w);
    run_consumer(w);
    named_barrier(kConsumersMeet, kConsumerThreads);
    save_kept<kConsumerThreads>(w, Role::kConsumer);
  } else if (warp < kConsumerWarps + kMessengerWarps) {
    registers_increase<kMessengerRegisters>();
    Worker<C> w(params, Role::kMessenger, own);
    wait_for_kept(w, Role::kMessenger);
    run_role<C, Role::kMessenger>(w);
    named_barrier(kMessengersMeet, kMessengerThreads);
    save_kept<kMessengerThreads>(w, Role::kMessenger);
  } else {
    registers_decrease<kHelperRegisters>();
    const int32_t producer = warp - kConsumerWarps - kMessengerWarps;
    if (producer < params.producers) {
      Worker<C> w(params, Role::kProducer, own);
      if (segment.pools != 0) wait_for_pages(w);
      run_producer(w, producer);
    } else if (warp == kRouterWarp) {
      Worker<C> w(params, Role::kRouter, own);
      if (segment.pools != 0) list_pages(w);
      fetch_next_tasks(w);
      wait_for_kept(w, Role::kRouter);
      run_role<C, Role::kRouter>(w);
      save_kept<32>(w, Role::kRouter);
    } else if (warp == kArrivalWarp) {
      Worker<C> w(params, Role::kProducer, own);
      if (segment.pools != 0) wait_for_pages(w);
      run_arrivals(w);
    }
  }
}

#ifndef BOREAS_EMULATE_DEVICE
// The step's parameters, the same for all of its kernels: in constant memory, one copy a file that includes this;
// filled before the first of them. Bytes, since constant memory takes no constructor.
alignas(StepParams) static __constant__ uint8_t step_of_segments[sizeof(StepParams)];

template <class C>
__global__ void __launch_bounds__(kThreads, 1) megakernel_sliced(const __grid_constant__ SegmentParams segment) {
  run_segment<C>(*reinterpret_cast<const StepParams*>(step_of_segments), segment);
}
#endif

}  // namespace boreas::cuda
