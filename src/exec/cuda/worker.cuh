// One worker (a block): who it is, its shared memory, and what its roles have in common. The roles' loops are in
// megakernel.cuh, their work in ops/.
//
//   warps 0-7    consumer    arithmetic on streamed weights and pages; two groups of four take chunks in turn
//   warps 8-11   messenger   gathers hops into slots, norms, merges, samples
//   warps 12-13  producer    lane 0 of each issues bulk copies, chunks in turn
//   warp  14     router      top-k of the router logits
//   warp  15     arrivals    counts landed chunks for the producers' credits
#pragma once

#include "exec/cuda/pipeline.cuh"
#include "exec/cuda/segment_params.h"
#include "exec/cuda/shared_memory.h"
#include "exec/cuda/signal.cuh"

namespace boreas::cuda {

// Named barriers; 0 is the whole block.
enum : int32_t { kConsumersMeet = 1, kGroupsMeet = 2, kMessengersMeet = 4 };

BOREAS_DEVICE uint32_t load_half(uint32_t address) {
  return load_shared_32(address & ~3u) >> (address % 4 * 8) & 0xffffu;
}

// Where in a pool's list of own pages those are of which a row sees one half alone: the first page in sight, if that is
// its second half, and the newest one, if it is its first.
struct HalfSeen {
  static constexpr int32_t kNone = 0xffff;  // both halves are in sight, or the page is another worker's
  int32_t second, first;
};

// Which tasks are this kernel's: in the megakernel all of a list.
template <bool kSliced>
struct TasksOfKernel {
  BOREAS_DEVICE TaskReader read(const StepParams& params, int32_t worker, Role role, int32_t lane) const {
    return TaskReader(params, worker, role, lane);
  }
  BOREAS_DEVICE static constexpr int32_t target(const BarrierWait& wait) { return wait.target; }
};
template <>
struct TasksOfKernel<true> {
  const SegmentParams* segment = nullptr;

  BOREAS_DEVICE TaskReader read(const StepParams& params, int32_t worker, Role role, int32_t lane) const {
    const int32_t r = static_cast<int32_t>(role);
    return TaskReader(params.tasks + worker * segment->worker_tasks + segment->lists[r].first, segment->tasks[r], lane);
  }
  // Of the arrivals that this kernel's barriers count, which begin anew; none: a kernel before has seen to it.
  BOREAS_DEVICE int32_t target(const BarrierWait& wait) const { return wait.target - segment->arrivals[wait.id]; }
};

// Only what costs no registers is kept: everything else comes from the launch's constant memory, from the thread's
// number, or from compile-time shapes.
template <class C>
struct Worker {
  const StepParams& params;
  Standpoint<C::kTraced, C::kOneRow> at;
  TasksOfKernel<C::kSliced> tasks;
  int32_t thread, block, row_count, base;
  int32_t partial_half = 0;  // which half of the partial sums is written next

  BOREAS_DEVICE Worker(const StepParams& step, Role role, TasksOfKernel<C::kSliced> own = {})
      : params(step), tasks(own) {
    at.begin_role(step, role);
    forget();
  }
  // Called before each task: what the compiler works out from these it must work out again. It would otherwise lift all
  // bodies' addresses out of the loop over tasks and spill them.
  BOREAS_DEVICE void forget() {
    thread = thread_index();
    block = block_index();
    row_count = C::kOneRow ? 1 : params.rows;
    base = static_cast<int32_t>(shared_base());
    opaque(thread);
    opaque(block);
    if (!C::kOneRow) opaque(row_count);
    opaque(base);
  }

  BOREAS_DEVICE TaskReader read_tasks(Role role) const { return tasks.read(params, worker(), role, lane()); }

  BOREAS_DEVICE int32_t worker() const { return block; }
  BOREAS_DEVICE int32_t warp() const { return thread >> 5; }
  BOREAS_DEVICE int32_t lane() const { return thread & 31; }
  // Numbers among the role's threads; as masks, so that the compiler knows their range.
  BOREAS_DEVICE int32_t consumer_thread() const { return thread & (kConsumerThreads - 1); }
  BOREAS_DEVICE int32_t messenger_thread() const { return thread & (kMessengerThreads - 1); }
  static_assert(kConsumerThreads == 256 && kMessengerThreads == 128);
  BOREAS_DEVICE int32_t rows() const { return C::kOneRow ? 1 : row_count; }
  // i < 8192 as (i / rows, i % rows).
  struct OfRows {
    int32_t index, row;
  };
  BOREAS_DEVICE OfRows by_rows(int32_t i) const {
    if (C::kOneRow) return {i, 0};
    const int32_t index = static_cast<int32_t>(static_cast<uint32_t>(i) * params.row_reciprocal >> 16);
    return {index, i - index * row_count};
  }
  // Of its KV head, and its place in it.
  BOREAS_DEVICE typename C::Group group() const { return C::group_of(worker()); }
  BOREAS_DEVICE int32_t group_index() const { return worker() - group().workers.first; }

  BOREAS_DEVICE uint32_t scratch(uint32_t ScratchMap::*field) const { return base + params.scratch.*field; }
  BOREAS_DEVICE uint32_t ring() const { return base + params.ring_offset; }
  BOREAS_DEVICE uint32_t slot(Slot which) const { return base + params.slot_offset[static_cast<int32_t>(which)]; }

  // ---- barriers of a task
  // All but `late`, which is left to the body.
  BOREAS_DEVICE void wait_barriers(const Task& task, int32_t late = -1) const {
    BOREAS_NO_UNROLL
    for (int32_t i = 0; i < 3; ++i) {
      const BarrierWait wait = task.barrier(i);
      if (wait.id < 0) break;
      if (wait.id != late) wait_barrier(wait);
    }
  }
  BOREAS_DEVICE void wait_late_barrier(const Task& task, int32_t late) const {
    const uint32_t since = at.stopwatch();
    BOREAS_NO_UNROLL
    for (int32_t i = 0; i < 3; ++i) {
      const BarrierWait wait = task.barrier(i);
      if (wait.id == late) wait_barrier(wait);
    }
    at.passed_late(since);
  }
  BOREAS_DEVICE void wait_barrier(const BarrierWait& wait) const {
    const int32_t target = tasks.target(wait);
    if (C::kSliced && target <= 0) return;
    stagger(params);
    wait_phase(params, at, scratch(&ScratchMap::slots) + wait.id * kBarrierBytes, (target - 1) & 1, kWaitBarrier,
               wait.id);
  }
  // One arrival a warp; see slot_arrivals().
  BOREAS_DEVICE void arrive(const Task& task) {
    const int32_t barrier = task.arrive();
    warp_sync();
    if (barrier >= 0 && lane() == 0) mbarrier_arrive(scratch(&ScratchMap::slots) + barrier * kBarrierBytes);
  }
  static constexpr int32_t slot_arrivals(int32_t slot) {
    const Role writer = slot_writer(static_cast<Slot>(slot));
    return writer == Role::kRouter ? 1 : writer == Role::kConsumer ? kConsumerWarps : kMessengerWarps;
  }

  // ---- own publications, for gatherers of the same worker: they would only disturb the stream by looking earlier, and
  // may write over what consumers read until then (signal.cuh)
  BOREAS_DEVICE void announce(int32_t hop) { mbarrier_arrive(scratch(&ScratchMap::published) + hop * kBarrierBytes); }
  // delayed: others' words are not there yet; a look before that would be in vain.
  BOREAS_DEVICE void wait_own_publication(const HopWait& wait, bool delayed = true) {
    if constexpr (C::kSliced) return;  // words of earlier kernels are there
    stagger(params);
    wait_phase(params, at, scratch(&ScratchMap::published) + wait.hop * kBarrierBytes, wait.use & 1, kWaitPublication,
               wait.hop);
    if (delayed) pause_clocks(params.poll_delay[wait.hop]);
    at.mark(Moment::kLooked);
  }

  // ---- routes
  BOREAS_DEVICE int32_t route_parity(int32_t slot_id) const {
    return slot_id == static_cast<int32_t>(Slot::kRouteOdd) ? 1 : 0;
  }
  BOREAS_DEVICE uint32_t route_table(int32_t parity) const {
    return scratch(&ScratchMap::routes) + parity * params.scratch.route_bytes;
  }
  BOREAS_DEVICE int32_t experts_hit(int32_t parity) const {
    return static_cast<int32_t>(load_shared_32(route_table(parity)));
  }
  BOREAS_DEVICE int32_t expert_id(int32_t parity, int32_t index) const {
    return static_cast<int32_t>(load_shared_8(route_table(parity) + kRouteExperts + index));
  }
  // Choice row * topk + k is the row's k-th expert. All rows' choices sorted by expert, then by row: those of the
  // expert number `index` are [first_sorted(index), first_sorted(index + 1)). A row's choices ascend by expert, so one
  // row's are sorted.
  BOREAS_DEVICE int32_t first_sorted(int32_t parity, int32_t index) const {
    return C::kOneRow ? index : route_byte(parity, params.scratch.route_firsts, index);
  }
  BOREAS_DEVICE int32_t sorted_choice(int32_t parity, int32_t place) const {
    return C::kOneRow ? place : route_byte(parity, params.scratch.route_sorted, place);
  }
  BOREAS_DEVICE int32_t place_of_choice(int32_t parity, int32_t choice) const {
    return C::kOneRow ? choice : route_byte(parity, params.scratch.route_places, choice);
  }
  BOREAS_DEVICE int32_t route_byte(int32_t parity, uint32_t table, int32_t i) const {
    return static_cast<int32_t>(load_shared_8(route_table(parity) + table + i));
  }
  BOREAS_DEVICE float route_weight(int32_t slot_id, int32_t choice) const {
    return load_shared_float(base + params.slot_offset[slot_id] + choice * 8 + 4);
  }

  // ---- pages
  // The pages of `piece` that the row sees: first, first + kAttentionPieces, ...
  struct PageRun {
    int32_t first, count;
  };
  BOREAS_DEVICE PageRun pages_of(int32_t row, int32_t piece, bool sliding) const {
    const int32_t position = params.row[row].position;
    const int32_t page_first = first_visible(position, sliding, params.window) / kLayoutPagePositions;
    const int32_t page_last = position / kLayoutPagePositions;
    const int32_t first = page_first + (piece - page_first % kAttentionPieces + kAttentionPieces) % kAttentionPieces;
    return {first, first > page_last ? 0 : (page_last - first) / kAttentionPieces + 1};
  }
  // Which of a row's pieces are this worker's: piece_of(own, row) of these. A row's newest page makes one piece longer
  // than the others, at equal positions the same piece of all rows: turned by row, each falls to another worker.
  BOREAS_DEVICE Range own_pieces() const { return C::pieces_of(group().workers.count, group_index()); }
  static constexpr int32_t kPieceTurn = kAttentionPieces / kRowsMax;
  static BOREAS_DEVICE int32_t piece_of(int32_t own, int32_t row) {
    return (own + row * kPieceTurn) % kAttentionPieces;
  }
  static BOREAS_DEVICE int32_t own_of(int32_t piece, int32_t row) {
    return (piece + kAttentionPieces - row * kPieceTurn) % kAttentionPieces;
  }
  // The ids of own pages in a pool's list: row after row, in a row as own_pieces() has them, then by page.
  BOREAS_DEVICE uint32_t page_list(bool sliding) const {
    return scratch(&ScratchMap::pages) + (sliding ? rows() * params.page_list_full * 2 : 0);
  }
  BOREAS_DEVICE uint32_t page_end_address(int32_t row, bool sliding) const {
    return scratch(&ScratchMap::page_ends) + ((sliding ? kRowsMax : 0) + row) * 2;
  }
  // Where a row's ids begin in its pool's list, and so where those of the row before end.
  BOREAS_DEVICE int32_t page_first(int32_t row, bool sliding) const {
    return row == 0 ? 0 : static_cast<int32_t>(load_half(page_end_address(row - 1, sliding)));
  }
  BOREAS_DEVICE int32_t page_end(int32_t row, bool sliding) const { return page_first(row + 1, sliding); }
  BOREAS_DEVICE int32_t pages_in_all(bool sliding) const { return page_first(rows(), sliding); }
  BOREAS_DEVICE uint32_t half_seen_address(int32_t row, bool sliding) const {
    return scratch(&ScratchMap::half_seen) + ((sliding ? kRowsMax : 0) + row) * 4;
  }
  BOREAS_DEVICE HalfSeen half_seen(int32_t row, bool sliding) const {
    const uint32_t both = load_shared_32(half_seen_address(row, sliding));
    return {static_cast<int32_t>(both & 0xffffu), static_cast<int32_t>(both >> 16)};
  }

  // Address of one layer's and head's part of a page.
  BOREAS_DEVICE uint8_t* page(int32_t id, bool sliding, int32_t layer) const {
    uint8_t* pool = sliding ? params.pages_sliding : params.pages_full;
    const uint64_t bytes = sliding ? params.page_bytes_sliding : params.page_bytes_full;
    const int32_t part = params.layers[layer].pool_layer * C::kKvHeads + group().head;
    return pool + static_cast<uint64_t>(id) * bytes + static_cast<uint64_t>(part) * kKvPageHeadBytes;
  }
};

// Activations that feed products lie by blocks of 32 columns, so that the rows of a block are read without bank
// conflicts: [columns / 32][rows][32] bf16.
BOREAS_DEVICE uint32_t activation_offset(int32_t rows, int32_t row, int32_t column) {
  return static_cast<uint32_t>((column / kBlockColumns * rows + row) * kBlockRowBytes + column % kBlockColumns * 2);
}

constexpr float kLog2E = 1.44269504088896341f;

BOREAS_DEVICE float low_half(uint32_t pair) { return float_of(pair << 16); }
BOREAS_DEVICE float high_half(uint32_t pair) { return float_of(pair & 0xffff0000u); }
BOREAS_DEVICE uint32_t half_of(uint32_t pair, int32_t which) { return which == 0 ? pair & 0xffffu : pair >> 16; }

// A hop word's first `count` values, at most six, behind each other; a pair at a time where slices are even.
template <bool kEven>
BOREAS_DEVICE void store_values(uint32_t to, int32_t count, const Word& word, bool wanted = true) {
  if (!kEven && !wanted) return;
  BOREAS_UNROLL
  for (int32_t i = 0; i < kWordHalves; i += 2) {
    if (kEven) {
      store_shared_32_if(wanted && i < count, to + i * 2, word.payload[i / 2]);
    } else {
      if (i < count) store_shared_16(to + i * 2, half_of(word.payload[i / 2], 0));
      if (i + 1 < count) store_shared_16(to + i * 2 + 2, half_of(word.payload[i / 2], 1));
    }
  }
}
// The same into activations, from column `column` on. kSlice: every writer's columns, if all have as many, else 0.
template <int32_t kSlice>
BOREAS_DEVICE void store_activations(uint32_t slot, int32_t rows, int32_t row, int32_t column, int32_t count,
                                     const Word& word) {
  constexpr bool kEven = kSlice > 0 && kSlice % 2 == 0;
  if constexpr (kEven && kBlockColumns % kSlice == 0) {  // no slice reaches into the next block
    store_values<true>(slot + activation_offset(rows, row, column), count, word);
  } else {
    BOREAS_UNROLL
    for (int32_t i = 0; i < kWordHalves; i += 2) {
      const Word pair{{word.payload[i / 2], 0, 0}, 0};
      const int32_t left = count - i;
      if (kEven) {
        store_values<true>(slot + activation_offset(rows, row, column + i), left < 2 ? left : 2, pair);
      } else {
        if (left > 0) store_shared_16(slot + activation_offset(rows, row, column + i), half_of(pair.payload[0], 0));
        if (left > 1) store_shared_16(slot + activation_offset(rows, row, column + i + 1), half_of(pair.payload[0], 1));
      }
    }
  }
}

}  // namespace boreas::cuda
