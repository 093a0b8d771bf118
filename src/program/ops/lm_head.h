// LM_HEAD: logits[row, own vocabulary slice] = logit_scale * (embedding . normed[row]) in fp32, for rows whose logits
// are wanted; publishes hop logits.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct LmHeadOp {
  enum Arg { kFirst, kCount };  // own vocabulary slice
  static constexpr const char* kArgNames = "first count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kNormed);
    list.plan();
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.logits(0, 1);
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
