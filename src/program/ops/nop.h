// Does nothing: padding of a list, and opcode 0 of zeroed memory.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct NopOp {
  static constexpr const char* kArgNames = "";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {}
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {}
};

}  // namespace boreas
