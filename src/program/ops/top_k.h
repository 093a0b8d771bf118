// TOP_K: of all router logits of a row the experts_per_token largest (equal values: lowest id), weight = sigmoid(logit)
// in fp32, not renormalised. Stored by ascending expert id. Every worker computes it for itself.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct TopKOp {
  enum Arg { kSlot };  // kRoute or kRouteOdd
  static constexpr const char* kArgNames = "slot";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_read(task.wait);
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(task.args[kSlot]);
  }
};

}  // namespace boreas
