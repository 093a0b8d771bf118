// TaskDesc: one entry of a worker's task list, 32 int32 = 128 bytes, read by the host compiler, by the CPU interpreter
// and by device code alike. Plain integers only; no containers, no pointers.
//
// A worker (an SM, or a virtual SM on the CPU) runs four lists side by side, one a role:
//
//   producer   streams weights and old KV pages into the worker's ring, in the order in which the consumer takes them
//   router     turns all router logits into the experts of each row
//   messenger  gathers what other workers published (hops), normalises, merges, samples
//   consumer   the arithmetic on streamed weights
//
// Three kinds of ordering, and no other:
//   list order       a role runs its list front to back
//   barrier          within a worker: the task waits until `target` arrivals of this step happened on barrier `id`.
//                    Stated once a role: what a role has waited for, its later tasks rely on
//   hop              between workers: the task waits until the words of writers [first, first + count) carry the
//                    epoch of `use`
// plus the ring: a consumer task takes stream item `stream_item`, which the producer task of the same item filled.
//
// Epochs. Hop h is used uses_per_step(h) times a step. Use u of step s has epoch s * uses_per_step + u + 1, and lives
// in the half of the hop's buffer that the epoch's parity names. Words start at epoch 0. A use of -1 is the last use of
// the step before.
#pragma once

#include <cstdint>

namespace boreas {

constexpr int32_t kTaskWords = 32;

enum class Role : int32_t { kProducer, kRouter, kMessenger, kConsumer };
constexpr int32_t kRoles = 4;

// What travels between workers. One buffer a hop, two halves by epoch parity, one writer a word.
enum class Hop : int32_t {
  kResidual,  // x: [rows, hidden] bf16, each worker its hidden slice
  kLogit,     // router logits: [rows, experts] bf16, each worker its expert slice
  kQkv,       // q, k, v of a KV head's group: [rows, (queries_per_kv + 2) * head_dim] bf16, written and read inside the
              // group
  kPartial,   // attention partials: [rows, pieces, queries_per_kv, head_dim + 2] (m, l, o), inside the group
  kAttention,  // merged attention output: [rows, query_width] bf16
  kInner,      // SwiGLU inner activations: [rows, experts_per_token, expert_width] or [rows, dense_width] bf16
  kLogits,     // what the LM head says of its vocabulary slice; the fp32 logits themselves lie in the logits buffer
  kMass,       // how much of a row's distribution a worker's vocabulary slice holds
  kToken,      // the drawn token of a row
};
constexpr int32_t kHops = 9;

// Memory of one worker (shared memory on a GPU), written by one role at a time.
enum class Slot : int32_t {
  kNormed,      // [rows, hidden] bf16: RMSNorm of the gathered residual
  kQkv,         // [rows, own KV heads, (queries_per_kv + 2) * head_dim] bf16
  kAttention,   // [rows, query_width] bf16
  kInner,       // bf16: [rows, dense_width]; [rows, experts_per_token, expert_width], or of these vectors, in the order
                // of their experts and then rows, those behind kInnerFirst's
  kInnerFirst,  // [inner_first_vectors(), expert_width] bf16
  kRoute,       // [rows, experts_per_token] {expert id, fp32 weight}; two halves, by the MoE layer's parity
  kRouteOdd,
  kResidual,   // [rows, own hidden slice] fp32 holding bf16 values
  kProjected,  // [rows, own hidden slice] fp32: the O projection's result until the MLP's is there
};
constexpr int32_t kSlots = 9;

// How many units a stream item has: fixed by the program or known only at run time.
enum class StreamCount : int32_t {
  kOne,      // one unit
  kExperts,  // distinct experts that this step's rows hit in this layer: 0 to min(experts, rows * experts_per_token)
  kPages,    // KV pages of this worker's attention pieces, all rows: 0 to a bound set by the context
};

// Before the task begins; but see DownOp::late_barrier.
struct BarrierWait {
  int32_t id = -1;     // -1: none
  int32_t target = 0;  // arrivals since the start of the step
};

struct HopWait {
  int32_t hop = -1;  // -1: none
  int32_t use = 0;
  int32_t first = 0;  // writers [first, first + count)
  int32_t count = 0;
};

struct HopPublish {
  int32_t hop = -1;  // -1: none
  int32_t use = 0;
};

struct TaskDesc {
  int32_t op = 0;  // Op of op_list.h; 0 is a no-op
  int32_t layer = -1;
  HopWait wait;
  HopPublish publish;
  BarrierWait barriers[3];
  int32_t arrive = -1;             // barrier that gets one arrival when the task is done
  int32_t stream_item = -1;        // producer: the item it fills; consumer: the item it takes
  int32_t stream_count = 0;        // StreamCount
  int32_t stream_unit_pieces = 0;  // pieces of one unit (weight_tiles.h); two pieces of an item share a ring chunk
  int32_t args[14] = {};           // named by the op's header
};
static_assert(sizeof(TaskDesc) == kTaskWords * sizeof(int32_t));

// For dumps, traces and messages; "none" for a number out of range.
constexpr const char* role_name(Role role) {
  constexpr const char* kNames[kRoles] = {"producer", "router", "messenger", "consumer"};
  return kNames[static_cast<int32_t>(role)];
}
constexpr const char* hop_name(int32_t hop) {
  constexpr const char* kNames[kHops] = {"residual", "logit",  "qkv",  "partial", "attention",
                                         "inner",    "logits", "mass", "token"};
  return hop >= 0 && hop < kHops ? kNames[hop] : "none";
}
constexpr const char* slot_name(int32_t slot) {
  constexpr const char* kNames[kSlots] = {"normed", "qkv",       "attention", "inner",    "inner_first",
                                          "route",  "route_odd", "residual",  "projected"};
  return slot >= 0 && slot < kSlots ? kNames[slot] : "none";
}

}  // namespace boreas
