// GATHER: copies the words of a hop into a slot of this worker, as other tasks of the worker need them. Inner vectors
// of routed layers may come in two parts (kFirstVectors > 0): in the order of their experts and then rows, so many go
// into slot kInnerFirst, the others into kInner.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct GatherOp {
  // Destination; KV heads for hop qkv; for inner vectors in two parts the slot of their route, else -1.
  enum Arg { kSlot, kHeadFirst, kHeadCount, kRouteSlot, kFirstVectors };
  static constexpr const char* kArgNames = "slot head_first head_count route_slot first_vectors";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_read(task.wait);
    if (task.args[kRouteSlot] >= 0) list.slot(task.args[kRouteSlot]);
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(task.args[kSlot]);
  }
};

}  // namespace boreas
