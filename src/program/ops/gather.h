// GATHER: copies the words of a hop into a slot of this worker, as other tasks of the worker need them.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct GatherOp {
  enum Arg { kSlot, kHeadFirst, kHeadCount };  // destination; KV heads for hop qkv
  static constexpr const char* kArgNames = "slot head_first head_count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_read(task.wait);
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(task.args[kSlot]);
  }
};

}  // namespace boreas
