// FILTER: between LM_HEAD and SAMPLE. For rows that draw among a part of the vocabulary (top-k, top-p, min-p) every
// worker gathers what the best entry of all is, and weighs its own vocabulary slice against it: which mass comes in all
// and which before that entry. Publishes hop mass; SAMPLE adds up and says whether the entry is inside the part. An
// executor that has all logits at hand may leave everything to SAMPLE.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct FilterOp {
  enum Arg { kFirst, kCount };  // own vocabulary slice
  static constexpr const char* kArgNames = "first count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_read(task.wait);
    list.logits(task.wait.first, task.wait.count);
    list.plan();
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
