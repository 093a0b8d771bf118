// ROUTER_LOGITS: logit[row, e] = normed[row] . W_router[e] for the own slice of experts, fp32 sum, rounded to bf16;
// publishes hop logit.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct RouterLogitsOp {
  enum Arg { kFirst, kCount };  // own experts
  static constexpr const char* kArgNames = "first count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kNormed);
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
