// QKV: the own rows of q, k and v of one KV head's group, cut at RoPE pairs; q and k rotated by position where the
// layer has RoPE; rounded to bf16; publishes hop qkv to the group.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct QkvOp {
  // Heads [kHeadFirst, + kHeadCount); of each of them rows [kQFirst, + kQCount) of its queries_per_kv * head_dim q rows
  // and the like of its head_dim k and v rows. A worker that serves several heads computes all their rows.
  enum Arg { kHeadFirst, kHeadCount, kRope, kQFirst, kQCount, kKFirst, kKCount, kVFirst, kVCount };
  static constexpr const char* kArgNames = "head_first head_count rope q_first q_count k_first k_count v_first v_count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.slot(Slot::kNormed);
    list.plan();
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
