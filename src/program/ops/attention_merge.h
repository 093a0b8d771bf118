// ATTENTION_MERGE: combines the pieces of its slice of (query head, dim) in ascending piece order:
// o = sum_p w_p o_p / sum_p w_p l_p with w_p = 2^((m_p - M) c), M = max m_p, c = log2(e) / sqrt(head_dim): m_p is the
// largest q . k of the piece without scale (attention.h). Rounded to bf16; publishes hop attention.
#pragma once

#include "program/access.h"
#include "program/task.h"

namespace boreas {

struct AttentionMergeOp {
  // Rows [kFirst, + kCount) of the queries_per_kv * head_dim outputs of each of the heads [kHeadFirst, + kHeadCount).
  enum Arg { kHeadFirst, kHeadCount, kSliding, kFirst, kCount };
  static constexpr const char* kArgNames = "head_first head_count sliding first count";

  static void reads([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_read(task.wait);
    list.plan();
  }
  static void writes([[maybe_unused]] const TaskDesc& task, [[maybe_unused]] AccessList& list) {
    list.hop_write(task.publish);
  }
};

}  // namespace boreas
