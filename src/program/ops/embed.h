// EMBED: residual[row, own hidden slice] = embedding[token(row), own hidden slice], unscaled; publishes it as hop
// residual, use 0. A row's token comes from the plan, or from hop token of the step before where the plan says so.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct EmbedOp {
  enum Arg { kFirst, kCount };  // own hidden slice
  static constexpr const char* kArgNames = "first count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_read(task.wait);
    list.plan();
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kResidual);
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
