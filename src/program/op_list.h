// The one list of ops. Numbers, names, roles, both interpreters' dispatch, the dump and the conformance run come from
// it: an op missing on one side does not compile. To add one: a header in ops/, a line here, a body in exec/cpu/ops/
// (and exec/cuda/ops/), its cases in tests/conformance/.
#pragma once

#include <cstdint>

#include "program/task.h"

// X(enumerator, struct with the contract, "name", role)
#define BOREAS_OPS(X)                                                 \
  X(kNop, NopOp, "nop", kConsumer)                                    \
  X(kLoad, LoadOp, "load", kProducer)                                 \
  X(kEmbed, EmbedOp, "embed", kConsumer)                              \
  X(kGatherNorm, GatherNormOp, "gather_norm", kMessenger)             \
  X(kGather, GatherOp, "gather", kMessenger)                          \
  X(kRouterLogits, RouterLogitsOp, "router_logits", kConsumer)        \
  X(kTopK, TopKOp, "top_k", kRouter)                                  \
  X(kQkv, QkvOp, "qkv", kConsumer)                                    \
  X(kAttention, AttentionOp, "attention", kConsumer)                  \
  X(kAttentionMerge, AttentionMergeOp, "attention_merge", kMessenger) \
  X(kUpGate, UpGateOp, "up_gate", kConsumer)                          \
  X(kOutProj, OutProjOp, "out_proj", kConsumer)                       \
  X(kDown, DownOp, "down", kConsumer)                                 \
  X(kLmHead, LmHeadOp, "lm_head", kConsumer)                          \
  X(kFilter, FilterOp, "filter", kMessenger)                          \
  X(kSample, SampleOp, "sample", kMessenger)

namespace boreas {

enum class Op : int32_t {
#define BOREAS_OP_ENUM(enumerator, contract, name, role) enumerator,
  BOREAS_OPS(BOREAS_OP_ENUM)
#undef BOREAS_OP_ENUM
};

#define BOREAS_OP_COUNT(enumerator, contract, name, role) +1
constexpr int32_t kOps = 0 BOREAS_OPS(BOREAS_OP_COUNT);
#undef BOREAS_OP_COUNT

constexpr const char* op_name(Op op) {
  switch (op) {
#define BOREAS_OP_NAME(enumerator, contract, name, role) \
  case Op::enumerator:                                   \
    return name;
    BOREAS_OPS(BOREAS_OP_NAME)
#undef BOREAS_OP_NAME
  }
  return "?";
}

constexpr Role op_role(Op op) {
  switch (op) {
#define BOREAS_OP_ROLE(enumerator, contract, name, role) \
  case Op::enumerator:                                   \
    return Role::role;
    BOREAS_OPS(BOREAS_OP_ROLE)
#undef BOREAS_OP_ROLE
  }
  return Role::kConsumer;
}

}  // namespace boreas
