// UP_GATE: inner = silu(gate . h) * (up . h) for the own rows of the inner width, of the dense MLP or of every expert
// that a row hits; fp32 until one rounding to bf16; publishes hop inner. Where inner vectors are gathered in two parts
// (ops/gather.h), the words of the first part may come while it is still at work on the others.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct UpGateOp {
  // Own inner rows; kRouteSlot -1: dense; how many inner vectors the first part has, 0: all come as one.
  enum Arg { kFirst, kCount, kRouteSlot, kFirstVectors };
  static constexpr const char* kArgNames = "first count route_slot first_vectors";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kNormed);
    if (task.args[kRouteSlot] >= 0) list.slot(task.args[kRouteSlot]);
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
