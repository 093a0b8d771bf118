// SAMPLE: draws the token of the rows r with r mod workers = this worker (exec/sampling.h is the reference) from what
// FILTER found and, if it must, from all logits; writes it to the host's mailbox and publishes hop token, from which
// EMBED of the next step may take it.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct SampleOp {
  enum Arg { kWorkers };
  static constexpr const char* kArgNames = "workers";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_read(task.wait);
    list.logits(task.wait.first, task.wait.count);
    list.plan();
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.mailbox();
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
