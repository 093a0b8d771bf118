// What a kernel of a comparison arm (sliced.cuh) is told beside the step: which tasks of its worker's lists are its
// own, and what goes through memory because shared memory does not survive a kernel. The same for all workers, so it is
// the kernel's parameter; made once a program by segments.cc. Plain data, shared by host and device.
#pragma once

#include <cstdint>

#include "program/layout.h"
#include "program/task.h"

namespace boreas::cuda {

// Bytes that one kernel leaves and a later one finds: at `shared` in a block's shared memory (from its start), at
// `kept` in the worker's part of SegmentParams::kept. Multiples of 16, or one word of 4 bytes.
struct KeptRange {
  uint32_t shared, kept, bytes;
  int32_t role;  // who writes it there
};
constexpr int32_t kKeptRangesMax = kSlots + 4;  // slots, two route tables, experts hit, best entries

struct SegmentParams {
  uint8_t* kept;             // [workers][kept_bytes]
  uint32_t kept_bytes;       // a multiple of 16
  int32_t worker_tasks;      // of all roles: where the next worker's begin
  Range lists[kRoles];       // of a worker's tasks: the role's whole list
  Range tasks[kRoles];       // of the list: this kernel's
  int32_t arrivals[kSlots];  // of each barrier, in kernels before
  int32_t pools;             // whose page lists are needed: 1 the full one, 2 the sliding one
  uint32_t waiting;          // bit r: role r reads what is restored
  int32_t restored, saved;   // ranges in use
  KeptRange restore[kKeptRangesMax], save[kKeptRangesMax];
};
static_assert(sizeof(SegmentParams) < 4096, "kernel parameters");

}  // namespace boreas::cuda
