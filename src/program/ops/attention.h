// ATTENTION: appends this step's K and V to the pages of the own pieces, then attends over these pieces: scores q . k /
// sqrt(head_dim), causal and within the window, exp in fp32, page by page with a running maximum. Publishes of every
// non-empty piece as hop partial, with c = log2(e) / sqrt(head_dim) and sums over the keys that the row sees:
// m = max q . k (not scaled), l = sum w, o = sum w v (not divided by l), w = 2^((q . k - m) c) rounded to bf16.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct AttentionOp {
  // Attends for heads [kHeadFirst, + kHeadCount) over pieces [kPieceFirst, + kPieceCount).
  enum Arg { kHeadFirst, kHeadCount, kSliding, kPieceFirst, kPieceCount };
  static constexpr const char* kArgNames = "head_first head_count sliding piece_first piece_count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kQkv);
    list.kv(task.layer, task.args[kHeadFirst], task.args[kHeadCount]);
    list.plan();
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.kv(task.layer, task.args[kHeadFirst], task.args[kHeadCount]);
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
