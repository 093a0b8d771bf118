// The megakernel: one launch is one decode step, from token ids to drawn tokens. Every worker (block) interprets its
// four task lists side by side; warps are dealt to roles for good (worker.cuh). Bodies and names come from the one op
// list.
#pragma once

#include "exec/cuda/kept.cuh"
#include "exec/cuda/ops/attention.cuh"
#include "exec/cuda/ops/attention_merge.cuh"
#include "exec/cuda/ops/down.cuh"
#include "exec/cuda/ops/embed.cuh"
#include "exec/cuda/ops/filter.cuh"
#include "exec/cuda/ops/gather.cuh"
#include "exec/cuda/ops/gather_norm.cuh"
#include "exec/cuda/ops/lm_head.cuh"
#include "exec/cuda/ops/load.cuh"
#include "exec/cuda/ops/nop.cuh"
#include "exec/cuda/ops/out_proj.cuh"
#include "exec/cuda/ops/qkv.cuh"
#include "exec/cuda/ops/router_logits.cuh"
#include "exec/cuda/ops/sample.cuh"
#include "exec/cuda/ops/top_k.cuh"
#include "exec/cuda/ops/up_gate.cuh"

namespace boreas::cuda {

// Registers a thread: what a launch of so many warps gets, and how the roles share them out. The messenger is short of
// them; of ten splits tried this one spills least while consumers still gain some.
constexpr int32_t kLaunchRegisters = 128;
constexpr int32_t kConsumerRegisters = 144, kMessengerRegisters = 136, kHelperRegisters = 88;
static_assert(8 * kConsumerRegisters + 4 * kMessengerRegisters + 4 * kHelperRegisters <= kWarps * kLaunchRegisters);

template <class C, Role kRole, Op kOp, class... Stream>
BOREAS_DEVICE void run_if_of_role(Worker<C>& w, const Task& task, Stream&... stream) {
  if constexpr (op_role(kOp) == kRole) Body<C, kOp>::run(w, stream..., task);
}

template <class C, Role kRole, class... Stream>
BOREAS_DEVICE void run_body(Worker<C>& w, const Task& task, Stream&... stream) {
  switch (static_cast<Op>(task.op())) {
#define BOREAS_RUN_BODY(enumerator, contract, name, role)         \
  case Op::enumerator:                                            \
    run_if_of_role<C, kRole, Op::enumerator>(w, task, stream...); \
    break;
    BOREAS_OPS(BOREAS_RUN_BODY)
#undef BOREAS_RUN_BODY
  }
}

// The barrier that the body waits for itself, DownOp::late_barrier; -1: none. Kernels of one row have no inner vectors
// in two parts.
template <class C>
BOREAS_DEVICE int32_t late_barrier(const Task& task) {
  if (C::kOneRow || static_cast<Op>(task.op()) != Op::kDown) return -1;
  return DownOp::late_barrier(task.arg(DownOp::kFirstVectors));
}

template <class C>
BOREAS_DEVICE void run_consumer(Worker<C>& w) {
  StreamTaker stream(w.params);
  TaskReader reader = w.read_tasks(Role::kConsumer);
  for (Task task; reader.take(task);) {
    w.forget();
    w.at.begin_task(task.index);
    w.wait_barriers(task, late_barrier<C>(task));
    w.at.mark(Moment::kReady);
    run_body<C, Role::kConsumer>(w, task, stream);
    w.arrive(task);
    w.at.mark(Moment::kDone);
    if (w.consumer_thread() == 0) w.at.record(w.params);
    const int32_t hop = task.publish().hop;
    if (!C::kSliced && hop >= 0 && w.consumer_thread() == 0) w.announce(hop);
  }
}

// A role without a stream.
template <class C, Role kRole>
BOREAS_DEVICE void run_role(Worker<C>& w) {
  TaskReader reader = w.read_tasks(kRole);
  for (Task task; reader.take(task);) {
    w.forget();
    w.at.begin_task(task.index);
    w.wait_barriers(task);
    w.at.mark(Moment::kReady);
    run_body<C, kRole>(w, task);
    w.arrive(task);
    w.at.mark(Moment::kDone);
    if (w.thread == (kRole == Role::kMessenger ? kConsumerThreads : kRouterWarp * 32)) w.at.record(w.params);
  }
}

template <class C>
BOREAS_DEVICE void run_producer(Worker<C>& w, int32_t index) {
  using Load = Body<C, Op::kLoad>;
  ProducerTurn turn(ring_shape(w.params), index);
  const uint64_t policy = evict_first_policy();
  int32_t chunks = 0;
  TaskReader reader = w.read_tasks(Role::kProducer);
  for (Task task; reader.take(task);) {
    w.forget();
    w.at.begin_task(task.index);
    if (static_cast<Op>(task.op()) != Op::kLoad) continue;
    if constexpr (C::kSliced) wait_for_route(w, task);
    w.wait_barriers(task);
    const StreamItem item = Load::item_of(w, task);
    w.at.mark(Moment::kPublished);
    Load::issue(w, task, item, chunks, turn, policy);
    if (index == 0 && w.lane() == 0) w.at.record_issue(w.params);
    warp_sync();
    chunks += item.chunks();
  }
}

// Counts landed chunks in order (pipeline.h, rule 2). Of what producers wait for it waits for routes alone, which say
// how many chunks there are. verify() knows nothing of this warp: that no barrier is a parity ahead of it rests on
// credits, of which there must be fewer than chunks in two layers.
template <class C>
BOREAS_DEVICE void run_arrivals(Worker<C>& w) {
  using Load = Body<C, Op::kLoad>;
  ArrivalCounter counter(ring_shape(w.params));
  int32_t chunks = 0;
  TaskReader reader = w.read_tasks(Role::kProducer);
  for (Task task; reader.take(task);) {
    w.forget();
    w.at.begin_task(task.index);
    if (static_cast<Op>(task.op()) != Op::kLoad) continue;
    if constexpr (C::kSliced) wait_for_route(w, task);
    if (task.arg(LoadOp::kRouteSlot) >= 0) w.wait_barriers(task);
    w.at.mark(Moment::kReady);
    chunks += Load::item_of(w, task).chunks();
    if (w.lane() == 0) {
      while (counter.arrived() < chunks) {
        wait_phase(w.params, w.at, w.scratch(&ScratchMap::full) + counter.stage() * kBarrierBytes,
                   counter.full_parity(), kWaitChunkFull, counter.arrived());
        counter.advance();
        store_shared_32(w.scratch(&ScratchMap::arrived), static_cast<uint32_t>(counter.arrived()));
        w.at.got_chunk(w.at.stopwatch());
      }
      w.at.mark(Moment::kDone);
      w.at.record_arrivals(w.params);
    }
    warp_sync();
  }
}

// The ids of this worker's pages: fetched once, for all layers.
template <class C>
BOREAS_DEVICE void list_pages(Worker<C>& w) {
  const Range pieces = w.own_pieces();
  BOREAS_NO_UNROLL
  for (int32_t sliding = 0; sliding < 2; ++sliding) {
    if constexpr (C::kSliced)
      if ((w.tasks.segment->pools >> sliding & 1) == 0) continue;
    const uint32_t list = w.page_list(sliding != 0);
    int32_t end = 0;
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) {
      const RowPlan& plan = w.params.row[row];
      const int32_t* table =
          w.params.page_tables + (sliding ? plan.page_table_sliding - plan.sliding_first : plan.page_table_full);
      const int32_t first = first_visible(plan.position, sliding != 0, w.params.window), last = plan.position;
      HalfSeen seen{HalfSeen::kNone, HalfSeen::kNone};
      BOREAS_NO_UNROLL
      for (int32_t own = pieces.first; own < pieces.end(); ++own) {
        const auto run = w.pages_of(row, w.piece_of(own, row), sliding != 0);
        BOREAS_NO_UNROLL
        for (int32_t i = w.lane(); i < run.count; i += 32)
          store_shared_16(list + (end + i) * 2, load_constant_32(table + run.first + i * kAttentionPieces));
        if (run.count == 0) continue;
        const int32_t newest = run.first + (run.count - 1) * kAttentionPieces;
        if (first >= run.first * kLayoutPagePositions + kKvHalfPositions) seen.second = end;
        end += run.count;
        if (last < newest * kLayoutPagePositions + kKvHalfPositions) seen.first = end - 1;
      }
      if (w.lane() != 0) continue;
      store_shared_16(w.page_end_address(row, sliding != 0), static_cast<uint32_t>(end));
      store_shared_32(w.half_seen_address(row, sliding != 0),
                      static_cast<uint32_t>(seen.second) | static_cast<uint32_t>(seen.first) << 16);
    }
  }
  warp_sync();
  if (w.lane() == 0) mbarrier_arrive(w.scratch(&ScratchMap::pages_ready));
}

// Before a role first looks at these lists: consumers append to pages, producers stream them, arrivals count them.
template <class C>
BOREAS_DEVICE void wait_for_pages(const Worker<C>& w) {
  wait_phase(w.params, w.at, w.scratch(&ScratchMap::pages_ready), 0, kWaitBarrier, -1);
}

template <class C>
BOREAS_DEVICE void prepare_barriers(const Worker<C>& w) {
  if (w.thread != 0) return;
  for (int32_t i = 0; i < kStagesMax; ++i) {
    mbarrier_init(w.scratch(&ScratchMap::full) + i * kBarrierBytes, 1);
    mbarrier_init(w.scratch(&ScratchMap::empty) + i * kBarrierBytes, kGroupWarps);
  }
  for (int32_t i = 0; i < kSlots; ++i)
    mbarrier_init(w.scratch(&ScratchMap::slots) + i * kBarrierBytes, Worker<C>::slot_arrivals(i));
  if constexpr (C::kSliced) mbarrier_init(kept_ready(w), kConsumerWarps);
  else
    for (int32_t i = 0; i < kHops; ++i) mbarrier_init(w.scratch(&ScratchMap::published) + i * kBarrierBytes, 1);
  mbarrier_init(w.scratch(&ScratchMap::pages_ready), 1);
  store_shared_32(w.scratch(&ScratchMap::arrived), 0);
  store_shared_32(w.scratch(&ScratchMap::experts), 0);
  mbarrier_init_done();
}

// One worker's part of a step. Every role makes its own view of the worker: what they have in common would otherwise be
// kept in registers of all.
template <class C>
BOREAS_DEVICE void run_worker(const StepParams& params) {
  if (C::kTraced && thread_index() == 0) begin_worker_times(params);
  prepare_barriers(Worker<C>(params, Role::kConsumer));
  block_sync();
  const int32_t warp = thread_index() / 32;
  if (warp < kConsumerWarps) {
    registers_increase<kConsumerRegisters>();
    Worker<C> w(params, Role::kConsumer);
    wait_for_pages(w);
    run_consumer(w);
  } else if (warp < kConsumerWarps + kMessengerWarps) {
    registers_increase<kMessengerRegisters>();
    Worker<C> w(params, Role::kMessenger);
    run_role<C, Role::kMessenger>(w);
  } else {
    registers_decrease<kHelperRegisters>();
    const int32_t producer = warp - kConsumerWarps - kMessengerWarps;
    if (producer < params.producers) {
      Worker<C> w(params, Role::kProducer);
      wait_for_pages(w);
      run_producer(w, producer);
    } else if (warp == kRouterWarp) {
      Worker<C> w(params, Role::kRouter);
      list_pages(w);
      run_role<C, Role::kRouter>(w);
    } else if (warp == kArrivalWarp) {
      Worker<C> w(params, Role::kProducer);
      wait_for_pages(w);
      run_arrivals(w);
    }
  }
  if (C::kTraced && thread_index() == 0) end_worker_times(params);
}

#ifndef BOREAS_EMULATE_DEVICE
template <class C>
__global__ void __launch_bounds__(kThreads, 1) megakernel(const __grid_constant__ StepParams params) {
  run_worker<C>(params);
}
#endif

}  // namespace boreas::cuda
