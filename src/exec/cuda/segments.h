// Cuts a step into kernels that never wait for each other's blocks: the comparison arms. Every kernel runs one segment
// of all workers' lists, by the bodies, barriers and hop words of the megakernel. program_set.cc calls it,
// cuda_device.cu launches what comes out.
//
// A verified program's order has edges of three kinds; the number of a task's segment may
//
//   list order    not fall; with KernelCut::kOps it rises from each consumer task to the next
//   barrier       not fall from the task that arrives to the one that waits
//   hop           rises: who waits for words finds them published by an earlier kernel
//
// and a LOAD is in the segment of the task that takes its item. As few segments as that allows; in them, tasks come as
// late as they can, so that little is kept from kernel to kernel; the router's as early as they can, since loads of
// experts hang on them. Any such order is one in which the program may run, so what verify() proved of slots, words and
// pages holds.
//
//   kLevels   embed | norm router qkv | gather attention, top-k | merge, up_gate | gathers out_proj down | norm ...
//   kOps      embed | norm router | qkv | gather attention ... | merge, up_gate | gather out_proj | gather down | ...
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "exec/cuda/arm.h"
#include "exec/cuda/segment_params.h"
#include "exec/cuda/shared_memory.h"
#include "program/compile.h"

namespace boreas::cuda {

// What tasks leave in a worker's shared memory for later ones: each slot (a route slot with its table), the number of
// distinct experts so far, and what FILTER leaves for SAMPLE.
constexpr int32_t kKeptExperts = kSlots, kKeptBest = kSlots + 1, kKeptPlaces = kSlots + 2;
// The role whose tasks write it.
constexpr Role writer_of(int32_t place) {
  if (place == kKeptExperts) return Role::kRouter;
  if (place == kKeptBest) return Role::kMessenger;
  return slot_writer(static_cast<Slot>(place));
}

// Of every worker alike.
struct Segment {
  std::array<Range, kRoles> tasks{};       // of the role's list
  std::array<int32_t, kSlots> arrivals{};  // of each barrier, in segments before
  uint32_t restored = 0, saved = 0;  // bit p: place p is found as an earlier segment left it, left for a later one
  uint32_t waiting = 0;              // SegmentParams::waiting
  int32_t pools = 0;                 // SegmentParams::pools
};

// Error: workers whose lists are not of one kind, task by task (place() makes none).
Result<std::vector<Segment>> cut_into_segments(const Program& program, KernelCut cut);

// The kernels' parameters, `kept` still null. slot_offset: of the slots in shared memory; scratch: laid out for the
// program's rows.
std::vector<SegmentParams> segment_params(const Program& program, std::span<const Segment> segments,
                                          std::span<const uint32_t, kSlots> slot_offset, const ScratchMap& scratch);

}  // namespace boreas::cuda
