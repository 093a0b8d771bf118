// The state that verify.cc keeps while it walks an unrolled program: what every hop word, slot, barrier and buffer
// holds, who wrote it and who read it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "program/compile.h"
#include "program/happens_before.h"

namespace boreas::verification {

// The words of writers [first, first + count) in one half (parity) of a hop's buffer, as the tasks that wait for
// exactly these writers see them. All requirements are kept as clocks, so that "covers every publication" and "covers
// every read" are one comparison of vectors.
struct Hub {
  int32_t first = 0;
  int32_t count = 0;
  int64_t epoch = -1;           // of the newest publication
  int32_t published = 0;        // writers that have published it
  std::vector<int32_t> known;   // join of the writers' clocks at publication: what a waiter learns
  std::vector<int32_t> writes;  // component of each writer's lane: its publication
  int64_t read_epoch = -1;
  std::vector<int32_t> reads;  // component of each reader's lane: its read of read_epoch
};

struct HopHalf {
  std::vector<int64_t> epochs;  // [workers], what each word holds
  std::vector<Hub> hubs;
};

// Clocks of the last arrivals of a barrier, so that a waiter joins exactly the arrivals it asked for.
struct Barrier {
  static constexpr int32_t kKept = 4;
  int64_t arrivals = 0;
  ClockTable clocks{0, 0};  // [kKept], arrival a at a % kKept
};

// A buffer with one writing task at a time: a slot, a logits slice, a plan.
struct Buffer {
  Event write;
  std::vector<Event> reads;  // since the last write; the latest of each lane
  void add_read(const Event& event) {
    for (Event& read : reads) {
      if (read.lane == event.lane) {
        read.index = event.index;
        return;
      }
    }
    reads.push_back(event);
  }
};

// Lists violate something before any order is looked at: wrong role, ids out of range, streams that do not match. Empty
// if well-formed.
std::string check_structure(const Program& program);

// "worker 3 consumer task 17 (qkv, layer 4)".
std::string describe_task(const Program& program, int32_t worker, Role role, size_t index);
const char* role_name(Role role);
const char* hop_name(int32_t hop);
const char* slot_name(int32_t slot);

}  // namespace boreas::verification
