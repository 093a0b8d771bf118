// What a block of the megakernel keeps in shared memory: slots (offsets from the program), ring, and the scratch mapped
// here. Shared by the host (which must reserve enough: DeviceSpec::scratch_bytes) and the kernel.
#pragma once

#include <cstdint>

#include "exec/cuda/shape.h"
#include "program/task.h"

namespace boreas::cuda {

// The role whose tasks write a slot and arrive at its mbarrier.
constexpr Role slot_writer(Slot slot) {
  switch (slot) {
    case Slot::kRoute:
    case Slot::kRouteOdd:
      return Role::kRouter;
    case Slot::kResidual:
    case Slot::kProjected:
      return Role::kConsumer;
    default:
      return Role::kMessenger;
  }
}

constexpr int32_t kStagesMax = 16;
constexpr int32_t kBarrierBytes = 8;
constexpr int32_t kRouteExperts = 16;

// Partial sums of products (products.cuh), in two halves of at least so many bytes that are used in turn: one barrier a
// flush suffices. An entry, one (matrix row, plan row), takes at most kPartsMax floats. One row: all gate and up rows
// of its eight experts; eight rows: a tile of 16. What a block's shared memory has left is added: the more, the fewer
// flushes.
constexpr int32_t kPartsMax = 8;
constexpr int32_t partial_bytes(int32_t rows) {
  const int32_t entries = kTileRowsMax * rows;
  return (entries > 96 ? entries : 96) * kPartsMax * 4;
}

constexpr int32_t kPartialBytesMax = 16 * 1024;  // Worker::by_rows() counts to 8192

// Attention's second group gives its outputs to the first: [8][128 threads] floats.
constexpr int32_t kAttentionGiftBytes = 8 * kGroupThreads * 4;
static_assert(kAttentionGiftBytes <= 2 * partial_bytes(1));

constexpr int32_t kNormRowsTogether = 2;  // that GATHER_NORM awaits at once

struct ScratchMap {
  uint32_t full, empty;   // [kStagesMax] mbarriers of the ring
  uint32_t slots;         // [kSlots] mbarriers
  uint32_t published;     // [kHops] mbarriers: this worker's own publication
  uint32_t pages_ready;   // one mbarrier
  uint32_t arrived;       // chunks that have landed, in order
  uint32_t experts;       // distinct experts hit so far in this step, over layers
  uint32_t routes;        // two tables by route slot: number of distinct experts; at kRouteExperts their ids,
  uint32_t route_bytes;   // ascending, [rows * topk] bytes. All rows' choices, numbered row * topk + choice, by expert
  uint32_t route_firsts;  // and then by row: [rows * topk + 1] bytes, with which of them an expert begins;
  uint32_t route_sorted;  // [rows * topk] bytes, which choice they are;
  uint32_t route_places;  // [rows * topk] bytes, where among them a choice is. Kernels of one row leave these
  uint32_t partials;      // 2 halves of partial_half bytes; or kAttentionGiftBytes
  uint32_t partial_half;  // partial_bytes(rows) to kPartialBytesMax
  uint32_t attention_other;  // [2][kRowsMax] floats: m and l of the second group
  uint32_t logits;           // [kRowsMax] floats, of a worker's only expert
  uint32_t outputs;          // bf16 values about to be published by consumers
  uint32_t merged;           // bf16 values about to be published by messengers
  uint32_t sums;             // [2][kNormRowsTogether][kMessengerWarps] floats
  uint32_t page_ends;        // [2 pools][kRowsMax] uint16: where a row's ids end in its pool's list
  uint32_t half_seen;        // [2 pools][kRowsMax] two uint16 each: HalfSeen
  uint32_t pages;  // [rows * page_list_full] uint16 page ids of the full pool, row after row, then sliding ones
  uint32_t end;
};

template <class C>
constexpr ScratchMap map_scratch(uint32_t base, int32_t rows, int32_t pages_per_row, int32_t partial_half) {
  ScratchMap map{};
  uint32_t at = base;
  auto take = [&at](int32_t bytes) {
    const uint32_t begin = at;
    at = (at + static_cast<uint32_t>(bytes) + 15u) & ~15u;
    return begin;
  };
  const int32_t choices = rows * C::kExpertsPerToken;
  map.full = take(kStagesMax * kBarrierBytes);
  map.empty = take(kStagesMax * kBarrierBytes);
  map.slots = take(kSlots * kBarrierBytes);
  map.published = take(kHops * kBarrierBytes);
  map.pages_ready = take(kBarrierBytes);
  map.arrived = take(8);
  map.experts = map.arrived + 4;
  map.routes = take(kRouteExperts);
  take(choices);
  map.route_firsts = take(choices + 1) - map.routes;
  map.route_sorted = take(choices) - map.routes;
  map.route_places = take(choices) - map.routes;
  map.route_bytes = at - map.routes;
  take(static_cast<int32_t>(map.route_bytes));
  map.partials = take(2 * partial_half);
  map.partial_half = static_cast<uint32_t>(partial_half);
  map.attention_other = take(2 * kRowsMax * 4);
  map.logits = take(kRowsMax * 4);
  map.outputs = take(rows * C::kOutputRowBytes);
  map.merged = take(C::kOutputSliceMax * 2);
  map.sums = take(2 * kNormRowsTogether * kMessengerWarps * 4);
  map.page_ends = take(2 * kRowsMax * 2);
  map.half_seen = take(2 * kRowsMax * 4);
  map.pages = take(rows * pages_per_row * 2);
  map.end = at;
  return map;
}

}  // namespace boreas::cuda
