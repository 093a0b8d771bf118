// DOWN: mlp = W_down . inner for the own hidden slice; routed: sum over the row's experts in ascending id of weight *
// (W_down_e . inner_e), fp32. residual = bf16((residual + projected) + mlp); publishes hop residual for the next layer.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct DownOp {
  // Own hidden slice; kRouteSlot -1: dense; how many inner vectors lie in slot kInnerFirst (ops/gather.h).
  enum Arg { kFirst, kCount, kRouteSlot, kFirstVectors };
  static constexpr const char* kArgNames = "first count route_slot first_vectors";

  // The one wait that DOWN leaves to its body, for when it comes to the first vector in slot kInner; it never ends
  // without it. -1: all waits come before it begins.
  static constexpr int32_t late_barrier(int32_t first_vectors) {
    return first_vectors > 0 ? static_cast<int32_t>(Slot::kInner) : -1;
  }

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kInner);
    if (task.args[kFirstVectors] > 0) list.slot(Slot::kInnerFirst);
    list.slot(Slot::kProjected);
    list.slot(Slot::kResidual);
    if (task.args[kRouteSlot] >= 0) list.slot(task.args[kRouteSlot]);
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kResidual);
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
