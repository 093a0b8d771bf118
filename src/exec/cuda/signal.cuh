// Waiting and publishing: between workers by hop words, within a worker by mbarriers. The memory-ordering contract:
//
//   hop word    16 bytes written and read by one access, 12 of payload and the epoch of their use. Whoever reads the
//               wanted epoch has the payload of that use: nothing else needs to be ordered, so both sides are relaxed.
//               A hop has two halves by epoch parity. verify() proved that nobody publishes use u + 2 before all
//               readers of use u are done, and that a word has one writer; so a word never carries a later epoch than
//               wanted.
//               A reader must use the whole word, or the part next to the epoch: of a word of which it sees only some
//               registers used, ptxas (13.0) loads these one by one, and the epoch of one access says nothing about
//               another's payload. tests/gpu/check_word_access.py looks for such loads in the machine code.
//   logits      fp32 rows in global memory, too long for words. Writers: stores, then fence.acq_rel.gpu, then the
//               worker's word of hop logits. Readers: that word, then fence.acq_rel.gpu, then loads.
//   KV rows     of earlier launches: the launch boundary orders them. Rows of this launch are taken from the qkv slot
//               instead, whatever a copy of their page brought.
//   slots       written by one role, announced by an arrival on the slot's mbarrier (release), awaited by its phase's
//               parity (acquire). The target of a task is a number of arrivals since the kernel began; verify() proved
//               that a barrier is never a whole parity ahead of a waiter. Written again, and memory that slots share,
//               when readers are done: their own slot's mbarrier says so (OUT_PROJ's, for inner over attention), or
//               their publication: consumers meet at a named barrier before they publish, then one announces it
//               (release) to the gatherers of its worker, who wait for that (Worker::wait_own_publication).
//   ring        bulk copies complete on a stage's `full`. Consumers read, write where this launch knows better, sync
//               their warp, and its lane 0 arrives on `empty` (release). The producer waits for that (acquire), then
//               fence.proxy.async puts its next copy behind all of it. A proxy fence anywhere on the way from one to
//               the other serves; there it holds up nobody who computes, and is over before the copy's credit comes.
//
// Every wait for words, mbarriers and credits has a deadline. Where one task hangs, many wait in vain: among those that
// are over their deadline, the one that comes first in the program fills the fault record and stops the kernel. Named
// barriers have none: who is missing there stands in one of the others.
#pragma once

#include "exec/cuda/ptx.cuh"
#include "exec/cuda/task_reader.cuh"

namespace boreas::cuda {

// Where a warp stands: the task in its role's list, for fault records; and in traced kernels when it got there. In
// those of one row, whose tasks are short, kOneRow, a chunk that is there is not worth a look at the clock.
template <bool kTraced, bool kOneRow>
struct Standpoint {
  static constexpr bool kTimesChunks = false, kTimesStalls = false;  // every wait for a chunk, or those that are waits
  int32_t role = 0, task = -1;
  BOREAS_DEVICE void begin_role(const StepParams&, Role its) { role = static_cast<int32_t>(its); }
  BOREAS_DEVICE void begin_task(int32_t index) { task = index; }
  BOREAS_DEVICE void mark(Moment) const {}
  BOREAS_DEVICE uint32_t stopwatch() const { return 0; }
  BOREAS_DEVICE void got_chunk(uint32_t) const {}
  BOREAS_DEVICE void passed_late(uint32_t) const {}
  BOREAS_DEVICE void record(const StepParams&) const {}
  BOREAS_DEVICE void record_issue(const StepParams&) const {}
  BOREAS_DEVICE void record_arrivals(const StepParams&) const {}
};
template <bool kOneRow>
struct Standpoint<true, kOneRow> {
  static constexpr bool kTimesChunks = !kOneRow, kTimesStalls = kOneRow;
  int32_t role = 0, task = -1;
  int32_t list_first = 0;  // kept: a task would wait for its load
  mutable TaskTimes times{};

  BOREAS_DEVICE void begin_role(const StepParams& params, Role its) {
    role = static_cast<int32_t>(its);
    list_first = params.list_first[block_index() * kRoles + role];
  }
  BOREAS_DEVICE void begin_task(int32_t index) {
    task = index;
    const uint32_t before = times.at[static_cast<int32_t>(Moment::kDone)];  // a look at the clock is not free
    times = TaskTimes{};
    if (before != 0) times.at[static_cast<int32_t>(Moment::kTaken)] = before;
    else mark(Moment::kTaken);
  }
  BOREAS_DEVICE void mark(Moment moment) const { times.at[static_cast<int32_t>(moment)] = stopwatch(); }
  BOREAS_DEVICE uint32_t stopwatch() const { return clock_low(); }
  // After a wait for a chunk that began at `since`.
  BOREAS_DEVICE void got_chunk(uint32_t since) const {
    mark(Moment::kGot);
    uint32_t& first = times.at[static_cast<int32_t>(Moment::kLooked)];
    if (first == 0) first = times.at[static_cast<int32_t>(Moment::kGot)];
    times.stalled += times.at[static_cast<int32_t>(Moment::kGot)] - since;
  }
  // After a task's late barrier, for which it waited from `since` on.
  BOREAS_DEVICE void passed_late(uint32_t since) const { times.late = stopwatch() - since; }
  BOREAS_DEVICE TaskTimes& place(const StepParams& params) const { return params.task_times[list_first + task]; }
  // By one thread of the role. A producer's task is recorded by two: one that issues and one that sees chunks land.
  BOREAS_DEVICE void record(const StepParams& params) const { place(params) = times; }
  BOREAS_DEVICE void record_issue(const StepParams& params) const {
    place(params).at[static_cast<int32_t>(Moment::kPublished)] = times.at[static_cast<int32_t>(Moment::kPublished)];
  }
  BOREAS_DEVICE void record_arrivals(const StepParams& params) const {
    TaskTimes& to = place(params);
    for (Moment moment : {Moment::kTaken, Moment::kReady, Moment::kLooked, Moment::kGot, Moment::kDone})
      to.at[static_cast<int32_t>(moment)] = times.at[static_cast<int32_t>(moment)];
  }
};

BOREAS_DEVICE void begin_worker_times(const StepParams& params) {
  WorkerTimes& times = params.worker_times[block_index()];
  times.nanoseconds_begin = global_nanoseconds();
  times.clocks_begin = clock_now();
  times.processor = processor_index();
}
BOREAS_DEVICE void end_worker_times(const StepParams& params) {
  WorkerTimes& times = params.worker_times[block_index()];
  times.nanoseconds_end = global_nanoseconds();
  times.clocks_end = clock_now();
}

BOREAS_DEVICE void pause_clocks(uint32_t clocks) {
  const uint32_t begin = clock_low();
  while (clock_low() - begin < clocks) spin_hint();
}

// Test instrument: a random pause, one time in four, before every wait and publication.
BOREAS_DEVICE void stagger(const StepParams& params) {
  if (params.delay_seed == 0) return;
  const uint32_t here = clock_low() + static_cast<uint32_t>(block_index() * 64 + thread_index() / 32);
  const uint32_t draw = (here ^ params.delay_seed) * 2654435761u >> 14;
  if (draw % 4 == 0) pause_clocks(draw >> 2);  // up to 65,536 clocks
}

// The place of a wait in the program; the earlier, the more urgent. Hops are numbered as data flows through a layer;
// whoever waits for something of his own worker mostly waits for somebody who waits for a hop, so he comes last in his
// layer. What the first wait of all is for is not missing because of another one.
constexpr uint32_t kPlacesALayer = 16, kUrgencyMost = 1u << 30;
static_assert(kHops < kPlacesALayer);
BOREAS_DEVICE uint32_t urgency_of(const StepParams& params, const TaskDesc* task, int32_t what, int32_t where) {
  const int32_t layer = task == nullptr || task->layer < 0 ? params.layer_count : task->layer;
  return kUrgencyMost - (static_cast<uint32_t>(layer) * kPlacesALayer +
                         (what == kWaitHop ? static_cast<uint32_t>(where) : kPlacesALayer - 1));
}

constexpr uint32_t kRecordTime = 2048;  // in kCoarseClocks: a millisecond, a thousand times what it takes
// Whether the record is complete within so long.
BOREAS_DEVICE bool record_comes(const FaultRecord* fault, uint32_t coarse_clocks) {
  const uint32_t begin = clock_coarse();
  while (load_acquire_system(&fault->complete) == 0) {
    if (clock_coarse() - begin >= coarse_clocks) return false;
    spin_hint();
  }
  return true;
}

// Fills the fault record and stops the kernel. Out of line: it is named at every wait. Waits that began within one step
// end within a step's time, a twentieth of their deadline, of each other; the most urgent one is looked for a little
// longer than that, by each from its own end on. Whoever it is not, perhaps a lane of the same warp, waits for its
// record, or it could stop the kernel in the middle of that; if none comes, its own must do.
BOREAS_DEVICE_COLD void fail_wait(const StepParams& params, int32_t role, int32_t task_index, int32_t what,
                                  int32_t where, uint32_t wanted, uint32_t seen) {
  FaultRecord* fault = params.fault;
  const TaskDesc* task =
      task_index < 0 ? nullptr : params.tasks + params.list_first[block_index() * kRoles + role] + task_index;
  const uint32_t urgency = urgency_of(params, task, what, where);
  if (load_acquire_system(&fault->urgency) < urgency) raise_to(&fault->urgency, urgency);
  const uint32_t look = params.deadline / 16;
  const bool others = record_comes(fault, look) ||
                      (load_acquire_system(&fault->urgency) != urgency && record_comes(fault, look + kRecordTime));
  if (!others && claim(&fault->claimed)) {
    fault->worker = block_index();
    fault->role = role;
    fault->warp = thread_index() / 32;
    fault->task = task_index;
    fault->op = task == nullptr ? -1 : task->op;
    fault->layer = task == nullptr ? -1 : task->layer;
    fault->what = what;
    fault->hop_or_barrier = where;
    fault->wanted = wanted;
    fault->seen = seen;
    store_release_system(&fault->complete, 1);
  } else {
    record_comes(fault, kRecordTime);
  }
  fence_system();
  stop_kernel();
}

// Spins that end by a deadline. There are no calls in them (but the one that never returns): with calls in a kernel its
// registers cannot be shared out by role.
template <class At>
class Deadline {
 public:
  BOREAS_DEVICE Deadline(const StepParams& params, const At& at) : params_(params), at_(at) {}
  BOREAS_DEVICE void miss(WaitKind what, int32_t where, uint32_t wanted, uint32_t seen) {
    spin_hint();
    if (++misses_ % 64 != 0) return;
    const uint32_t now = clock_coarse();
    if (begin_ == 0) begin_ = now;
    // What stalls within a worker mostly waits for somebody who waits for a hop: let that one speak first.
    const uint32_t most = what == kWaitHop ? params_.deadline : 4 * params_.deadline;
    if (now - begin_ > most) fail_wait(params_, at_.role, at_.task, what, where, wanted, seen);
  }

 private:
  const StepParams& params_;
  const At& at_;
  uint32_t begin_ = 0, misses_ = 0;
};

// Waits for a phase of an mbarrier; `where` names it in the fault record.
template <class At>
BOREAS_DEVICE void wait_phase(const StepParams& params, const At& at, uint32_t barrier, uint32_t parity, WaitKind what,
                              int32_t where) {
  const bool is_timed = At::kTimesStalls && what == kWaitChunkFull;
  if (is_timed ? mbarrier_is_past(barrier, parity) : mbarrier_try(barrier, parity)) return;
  const uint32_t since = is_timed ? at.stopwatch() : 0;
  Deadline deadline(params, at);
  while (!mbarrier_try(barrier, parity)) deadline.miss(what, where, parity, parity ^ 1);
  if (is_timed) at.got_chunk(since);
}

// ---- hops
BOREAS_DEVICE uint32_t hop_epoch(const StepParams& params, int32_t hop, int32_t use) {
  return params.step * params.hop_uses[hop] + static_cast<uint32_t>(use) + 1;
}
BOREAS_DEVICE Word* hop_half(const StepParams& params, int32_t hop, uint32_t epoch) {
  return params.hops[hop] + static_cast<uint64_t>(epoch & 1) * params.hop_half_words[hop];
}

// Reads words until all carry the epoch; address(k): where word k is, null: nowhere, its payload is then zero. Only
// those that were not there are read again.
template <int32_t kCount, class At, class Address>
BOREAS_DEVICE void await_words(const StepParams& params, const At& at, Word (&words)[kCount], int32_t hop,
                               uint32_t epoch, Address address) {
  BOREAS_UNROLL
  for (int32_t k = 0; k < kCount; ++k) {
    const Word* at_first = address(k);
    words[k] = at_first != nullptr ? load_word(at_first) : Word{{0, 0, 0}, epoch};
  }
  Deadline deadline(params, at);
  while (true) {
    uint32_t wrong = 0, seen = 0;
    BOREAS_UNROLL
    for (int32_t k = 0; k < kCount; ++k) {
      wrong |= words[k].epoch ^ epoch;
      seen = words[k].epoch == epoch ? seen : words[k].epoch;
    }
    if (wrong == 0) return;
    deadline.miss(kWaitHop, hop, epoch, seen);
    pause_clocks(params.poll_pause);
    BOREAS_UNROLL
    for (int32_t k = 0; k < kCount; ++k)
      if (words[k].epoch != epoch) words[k] = load_word(address(k));
  }
}

// This thread's words, at most 32, in whatever order they come: `missing` says which there are, address(i) is that of
// word i (any address for others), store(there, i, word) takes it if it is there. Every look has up to kBatch words in
// flight and skips nobody who is there: when the last writer publishes, only what it wrote is left to fetch. A writer's
// words should therefore be dealt to many threads. Predicates, no branches (ptx.cuh).
template <int32_t kBatch, class At, class Address, class Store>
BOREAS_DEVICE void gather_as_they_come(const StepParams& params, const At& at, uint32_t missing, int32_t hop,
                                       uint32_t epoch, Address address, Store store) {
  Word words[kBatch] = {};
  Deadline deadline(params, at);
  while (true) {
    uint32_t seen = epoch;
    BOREAS_NO_UNROLL
    for (int32_t first = 0; first < 32; first += kBatch) {
      const uint32_t here = missing >> first;
      if (here == 0) break;
      BOREAS_UNROLL
      for (int32_t k = 0; k < kBatch; ++k) load_word_if((here >> k & 1) != 0, address(first + k), words[k]);
      uint32_t got = 0;
      BOREAS_UNROLL
      for (int32_t k = 0; k < kBatch; ++k) {
        const bool there = (here >> k & 1) != 0 && words[k].epoch == epoch;
        store(there, first + k, words[k]);
        got |= there ? 1u << k : 0;
        seen = (here >> k & 1) == 0 || there ? seen : words[k].epoch;
      }
      missing &= ~(got << first);
    }
    if (missing == 0) return;
    deadline.miss(kWaitHop, hop, epoch, seen);
    pause_clocks(params.poll_pause);
  }
}
constexpr uint32_t low_bits(int32_t count) { return count >= 32 ? ~0u : (1u << count) - 1; }

// `kThreadsOf` threads gather `total` words of a hop's half, kBatch a thread in flight at a time: place(i) is word i's
// number in the half, or -1 if nobody writes it; store(i, k, word) takes it, k the word's number in its batch.
// kComplete: total is always a multiple of it, and word i is place i; 0: not so.
template <int32_t kThreadsOf, int32_t kBatch, int32_t kComplete = 0, class At, class Place, class Store>
BOREAS_DEVICE void gather_words(const StepParams& params, const At& at, int32_t thread, int32_t total, int32_t hop,
                                uint32_t epoch, Place place, Store store) {
  const Word* half = hop_half(params, hop, epoch);
  if constexpr (kComplete > 0 && kComplete % (kThreadsOf * kBatch) == 0) {
    BOREAS_NO_UNROLL
    for (int32_t first = thread; first < total; first += kThreadsOf * kBatch) {
      Word words[kBatch];
      const Word* from = half + first;
      await_words(params, at, words, hop, epoch, [from](int32_t k) { return from + k * kThreadsOf; });
      at.mark(Moment::kGot);
      BOREAS_UNROLL
      for (int32_t k = 0; k < kBatch; ++k) store(first + k * kThreadsOf, k, words[k]);
    }
  } else {
    BOREAS_NO_UNROLL
    for (int32_t first = thread; first < total; first += kThreadsOf * kBatch) {
      Word words[kBatch];
      int32_t places[kBatch];
      uint32_t missing = 0;
      BOREAS_UNROLL
      for (int32_t k = 0; k < kBatch; ++k) {
        const int32_t i = first + k * kThreadsOf;
        places[k] = i < total ? place(i) : -1;
        if (places[k] >= 0) missing |= 1u << k;
      }
      Deadline deadline(params, at);
      while (true) {
        BOREAS_UNROLL
        for (int32_t k = 0; k < kBatch; ++k) {
          if (missing >> k & 1) words[k] = load_word(half + places[k]);
        }
        uint32_t seen = 0;
        BOREAS_UNROLL
        for (int32_t k = 0; k < kBatch; ++k) {
          if (!(missing >> k & 1)) continue;
          if (words[k].epoch == epoch) missing &= ~(1u << k);
          else seen = words[k].epoch;
        }
        if (missing == 0) break;
        deadline.miss(kWaitHop, hop, epoch, seen);
        pause_clocks(params.poll_pause);
      }
      at.mark(Moment::kGot);
      BOREAS_UNROLL
      for (int32_t k = 0; k < kBatch; ++k) {
        if (places[k] >= 0) store(first + k * kThreadsOf, k, words[k]);
      }
    }
  }
}

}  // namespace boreas::cuda
