// LOAD: the producer streams one item (weights of a consumer task, or old KV pages) into the worker's ring, whole
// chunks, in list order. It may run ahead of the consumer by as much as the ring holds. On the CPU weights are read
// where they are, so it hands over a reference.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct LoadOp {
  enum Stream : int32_t {
    kRouter,
    kQkv,
    kKvPages,
    kExpertUpGate,
    kDenseUpGate,
    kOutput,
    kExpertDown,
    kDenseDown,
    kLmHead
  };
  // kUnitBytes: bytes of one unit, 0: the item is empty whatever the step's count, and nothing is read for it;
  // kHeadFirst, kHeadCount: KV heads for kKvPages; kRouteSlot: the slot that says which experts, -1 if none.
  enum Arg { kStream, kUnitBytes, kRouteSlot, kHeadFirst, kHeadCount };
  static constexpr const char* kArgNames = "stream unit_bytes route_slot head_first head_count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    if (task.args[kUnitBytes] == 0) return;
    if (task.args[kRouteSlot] >= 0) list.slot(task.args[kRouteSlot]);
    if (task.args[kStream] == kKvPages) {
      // Rows of earlier steps only: this step's own K and V come from the qkv slot.
      list.kv(task.layer, task.args[kHeadFirst], task.args[kHeadCount]);
      list.plan();
    }
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {}
};

}  // namespace boreas
