// DOWN: mlp = W_down . inner for the own hidden slice; routed: sum over the row's experts in ascending id of weight *
// (W_down_e . inner_e), fp32. residual = bf16((residual + projected) + mlp); publishes hop residual for the next layer.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct DownOp {
  enum Arg { kFirst, kCount, kRouteSlot };  // own hidden slice; kRouteSlot -1: dense
  static constexpr const char* kArgNames = "first count route_slot";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kInner);
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
