// The parts of verify, and the state that verify.cc keeps while it walks an unrolled program: what every hop word,
// slot, barrier and buffer holds, who wrote it and who read it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "program/compile.h"
#include "program/happens_before.h"

namespace boreas::verification {

// ---- before any order is looked at; empty if well-formed
// Lists, one task at a time: roles, id ranges, an op's hops, layers, uses, targets, streams, memory. (verify_structure)
std::string check_structure(const Program& program);
// All workers together: slices cover every matrix exactly once, and a task waits for every worker that has a part of
// what it needs. (verify_cover)
std::string check_cover(const Program& program);

// Of each slot: the slots whose memory it shares, itself included.
std::array<std::vector<int32_t>, kSlots> overlapping_slots(const Program& program);

// [tasks of the list]: how many of the producer's tasks of this step are known to be done once the task has taken its
// item; 0: none, or it takes no item. (verify_ring)
std::vector<int32_t> loads_known_done(std::span<const TaskDesc> consumer, int32_t producers);

// The hop an op gathers and the one it publishes, -1: none. GATHER's depends on its slot: see gathered_hop.
struct OpHops {
  int32_t wait = -1;
  int32_t publish = -1;
};
OpHops op_hops(Op op);
// The hop that GATHER copies to this slot, -1 if none belongs there.
int32_t gathered_hop(int32_t slot);

// "worker 3 consumer task 17 (qkv, layer 4)".
std::string describe_task(const Program& program, int32_t worker, Role role, size_t index);

// ---- the walk
// Steps that are unrolled. Every edge of the order goes from a step to itself or a later one, and all steps but the
// first look the same; so a pair of conflicting accesses that is ordered in one place is ordered everywhere. Conflicts
// reach two steps back at most (a hop with one use a step; host_steps_ahead, which the structure check bounds).
constexpr int32_t kUnrolledSteps = 3;
constexpr int32_t kHostStepsAheadMax = kUnrolledSteps - 1;
// So that counts of unrolled tasks fit a clock's components.
constexpr int32_t kListTasksMax = INT16_MAX / kUnrolledSteps;

// The words of writers [first, first + count) in one half (parity) of a hop's buffer, as the tasks that wait for
// exactly these writers see them. All requirements are kept as clocks, so that "covers every read" is one comparison of
// vectors.
struct Hub {
  int32_t first = 0;
  int32_t count = 0;
  int64_t epoch = 0;       // of the newest publication; words start at 0
  int32_t published = 0;   // writers that have published it
  size_t known = 0;        // clock: join of the writers' clocks at publication, what a waiter learns
  int64_t read_epoch = 0;  // of the newest reads
  size_t reads = 0;        // clock: component of each reader's lane: its read of read_epoch
  bool contains(int32_t worker) const { return worker >= first && worker < first + count; }
};

struct HopHalf {
  std::vector<int64_t> epochs;  // [workers], what each word holds
  std::vector<Event> events;    // [workers], the task that published it
  std::vector<Hub> hubs;

  void begin(int32_t workers) {
    epochs.assign(static_cast<size_t>(workers), 0);
    events.assign(static_cast<size_t>(workers), Event{});
  }
  // Every range of writers that some task waits for has a hub in either half.
  Hub* find(const HopWait& wait) {
    for (Hub& hub : hubs)
      if (hub.first == wait.first && hub.count == wait.count) return &hub;
    return nullptr;
  }
  // clock: what the words tell whoever waits for them.
  void publish(int32_t worker, int64_t epoch, const Event& event, const ClockValue* clock, ClockTable& clocks) {
    epochs[static_cast<size_t>(worker)] = epoch;
    events[static_cast<size_t>(worker)] = event;
    for (Hub& hub : hubs) {
      if (!hub.contains(worker)) continue;
      if (hub.epoch != epoch) {
        hub.epoch = epoch;
        hub.published = 0;
        clocks.clear(hub.known);
      }
      ++hub.published;
      ClockTable::join(clocks.clock(hub.known), clock, clocks.width());
    }
  }
  // What a worker's wait for an epoch adds to its clock. Its own publication it waits for as a whole, whenever the
  // words came (Worker::wait_own_publication).
  void learn(int32_t worker, int64_t epoch, const HopWait& wait, ClockValue* clock, const ClockTable& clocks) {
    const Hub* hub = find(wait);
    if (hub->epoch != epoch) return;
    ClockTable::join(clock, clocks.clock(hub->known), clocks.width());
    const size_t own = static_cast<size_t>(worker);
    if (!hub->contains(worker) || epochs[own] != epoch) return;
    ClockValue& of_publisher = clock[events[own].lane];
    of_publisher = std::max(of_publisher, static_cast<ClockValue>(events[own].index));
  }
};

struct Barrier {
  int64_t arrivals = 0;      // clock of the newest one: barrier_clocks_
  std::vector<Event> waits;  // since the newest arrival
};

// Which value a buffer holds: written for this layer in this step.
struct Value {
  int32_t step = -1;
  int32_t layer = -2;
  bool operator==(const Value&) const = default;
};

struct SlotState {
  Event write;
  Value value;
  std::vector<Event> reads;  // since the last write; the latest of each lane
  void add_read(const Event& event) {
    for (Event& read : reads) {
      if (read.lane != event.lane) continue;
      read.index = event.index;
      return;
    }
    reads.push_back(event);
  }
};

// What an access was to; a message is made of it only when it is needed.
struct What {
  const char* text = "";
  int32_t number = -1;
};

}  // namespace boreas::verification
