// OUT_PROJ: projected[row, own hidden slice] = W_o . attention[row], kept in fp32 for DOWN.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct OutProjOp {
  enum Arg { kFirst, kCount };  // own hidden slice
  static constexpr const char* kArgNames = "first count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kAttention);
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kProjected);
  }
};

}  // namespace boreas
