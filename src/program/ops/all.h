// Every op's contract, and the functions that look one up by number.
#pragma once

#include "program/op_list.h"
#include "program/ops/attention.h"
#include "program/ops/attention_merge.h"
#include "program/ops/down.h"
#include "program/ops/embed.h"
#include "program/ops/filter.h"
#include "program/ops/gather.h"
#include "program/ops/gather_norm.h"
#include "program/ops/lm_head.h"
#include "program/ops/load.h"
#include "program/ops/nop.h"
#include "program/ops/out_proj.h"
#include "program/ops/qkv.h"
#include "program/ops/router_logits.h"
#include "program/ops/sample.h"
#include "program/ops/top_k.h"
#include "program/ops/up_gate.h"

namespace boreas {

inline void task_reads(const TaskDesc& task, AccessList& list) {
  switch (static_cast<Op>(task.op)) {
#define BOREAS_OP_READS(enumerator, contract, name, role) \
  case Op::enumerator:                                    \
    contract::reads(task, list);                          \
    break;
    BOREAS_OPS(BOREAS_OP_READS)
#undef BOREAS_OP_READS
  }
}

inline void task_writes(const TaskDesc& task, AccessList& list) {
  switch (static_cast<Op>(task.op)) {
#define BOREAS_OP_WRITES(enumerator, contract, name, role) \
  case Op::enumerator:                                     \
    contract::writes(task, list);                          \
    break;
    BOREAS_OPS(BOREAS_OP_WRITES)
#undef BOREAS_OP_WRITES
  }
}

// Names of args[0], args[1], ... with blanks between: the enumerators of the op's Arg.
constexpr const char* op_arg_names(Op op) {
  switch (op) {
#define BOREAS_OP_ARG_NAMES(enumerator, contract, name, role) \
  case Op::enumerator:                                        \
    return contract::kArgNames;
    BOREAS_OPS(BOREAS_OP_ARG_NAMES)
#undef BOREAS_OP_ARG_NAMES
  }
  return "";
}

}  // namespace boreas
