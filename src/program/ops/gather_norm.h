// GATHER_NORM: gathers the residual of all workers and applies RMSNorm with the layer's (or the final) weight:
// y = x * rsqrt(mean(x^2) + eps) * w, statistics in fp32, one rounding to bf16. Every worker computes it for itself.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct GatherNormOp {
  static constexpr const char* kArgNames = "";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_read(task.wait);
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kNormed);
  }
};

}  // namespace boreas
