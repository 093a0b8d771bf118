// The door of program/: what one step does, compiled once and proved.
//
//   lower(ModelConfig, rows_max) -> TaskGraph -> place(TaskGraph, DeviceSpec, rows_max) -> Program -> verify(Program)
//   -> Verdict
//
// compile() does all three and refuses a program that does not verify. A Program is immutable. It depends on the
// model's shape, the machine and the largest number of rows; what changes from step to step (tokens, positions, pages,
// rows in use) travels in the plan.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "program/device_spec.h"
#include "program/layout.h"
#include "program/op_list.h"
#include "program/ops/all.h"
#include "program/task.h"

namespace boreas {

// ---- lower
// A node is one op of one layer for all workers together. It says what flows in and out; nothing about workers.
enum class Cut : int32_t {  // along what a node is cut into slices
  kHidden,
  kExperts,
  kHeads,
  kInner,
  kVocabulary,
  kEveryWorker,
  kRows,
};

struct TaskNode {
  Op op = Op::kNop;
  int32_t layer = -1;
  Cut cut = Cut::kEveryWorker;
  int32_t hop_in = -1;  // gathered from all writers, or from the head group for kQkv and kPartial
  int32_t hop_in_use = 0;
  int32_t hop_out = -1;
  int32_t hop_out_use = 0;
  int32_t slots_in[3] = {-1, -1, -1};  // [1]: of the route
  int32_t slot_out = -1;
  int32_t stream = -1;  // LoadOp::Stream of what it consumes, -1: nothing
  int32_t total = 0;    // length of the cut dimension
};

struct TaskGraph {
  ModelConfig config;
  std::vector<TaskNode> nodes;            // in the order in which each role runs its own
  std::array<int32_t, kHops> hop_uses{};  // uses a step
};

// rows_max: how many rows a step may have; decides in which order a layer's ops run.
TaskGraph lower(const ModelConfig& config, int32_t rows_max);

// ---- place
struct SlotSpec {
  int64_t bytes = 0;
  int64_t offset = 0;
};

struct Program {
  ModelConfig config;
  DeviceSpec device;
  int32_t rows_max = 0;
  std::array<int32_t, kHops> hop_uses{};
  std::array<SlotSpec, kSlots> slots{};
  int64_t slot_bytes = 0;     // of one worker, all slots
  int32_t ring_chunks = 0;    // stages left for the ring, a multiple of consumer groups and of producers
  int32_t producers = 1;      // warps that fill it in turn, at most the device's
  int32_t barrier_count = 0;  // barrier i announces slot i
  // Lists of all workers and roles in one array: that of worker w, role r is tasks [list_first[i], list_first[i + 1]),
  // i = w * kRoles + r.
  std::vector<TaskDesc> tasks;
  std::vector<int32_t> list_first;  // [workers * kRoles + 1]

  int32_t workers() const { return device.workers; }
  std::span<const TaskDesc> list(int32_t worker, Role role) const {
    const size_t index = static_cast<size_t>(worker) * kRoles + static_cast<size_t>(role);
    return {tasks.data() + list_first[index], static_cast<size_t>(list_first[index + 1] - list_first[index])};
  }
};

// Error: the shape does not fit the machine (slots and the smallest ring exceed its memory), with the numbers.
Result<Program> place(const TaskGraph& graph, const DeviceSpec& device, int32_t rows_max);

// ---- verify
struct Verdict {
  bool ok = false;
  std::string problem;        // first violation found: worker, role, task, and what is not ordered with what
  int64_t tasks_checked = 0;  // over all unrolled steps
  int64_t accesses_checked = 0;
};

// Proves that a program computes what its graph says, in every execution:
//   lists      every op in its role, waiting for and publishing the hops and uses of its layer; streams, sizes, memory
//   cover      slices cover each matrix once; a task waits for everybody who has a part of what it reads
//   order      by vector clocks over unrolled steps: every read after its write, every overwrite after all reads of the
//              old value (slot, hop half, logits, KV row, plan, mailbox), one writer a word, each slot holding the
//              value of the reader's layer and step, no barrier a full parity ahead of a waiter
//   progress   every wait met, no cycle, also not between a worker's load order and its compute order; for every
//              run-time count from 0 on, every ring size, and launches that may overlap
Verdict verify(const Program& program);

Result<Program> compile(const ModelConfig& config, const DeviceSpec& device, int32_t rows_max);

// ---- look at it
// Of one op, over all workers and layers.
struct OpTotals {
  int64_t tasks = 0;
  int64_t bytes = 0;             // streamed in a step
  int64_t worker_bytes_min = 0;  // of that, the least and most loaded worker
  int64_t worker_bytes_max = 0;
  int64_t chunks_max = 0;  // of one task, and so of the ring, the most loaded worker's
};

// A step of `rows` rows that have `context` positions each and hit as many distinct experts as they can.
struct ProgramSummary {
  std::array<OpTotals, kOps> ops{};  // streams count for the op that takes them, not for LOAD
  int64_t tasks = 0;
  int32_t hops_per_layer = 0;       // hand-offs in a MoE layer
  int32_t hop_chain_per_layer = 0;  // of them one after the other
  int64_t worker_bytes_min = 0;     // streamed by the least and most loaded worker: weights and whole KV pages
  int64_t worker_bytes_max = 0;
  int64_t chunks_max = 0;   // chunks that the most loaded worker's ring turns over in a step
  int64_t step_bytes = 0;   // what the step must read: weights, visible KV rows, norms, embedding rows
  double predicted_us = 0;  // step_bytes at the data-sheet bandwidth; 0 if the device has none
};
ProgramSummary summarize(const Program& program, int32_t rows, int32_t context);

std::string dump_json(const Program& program);                  // every list of every worker
std::string dump_text(const Program& program, int32_t worker);  // one worker's lists, a task a line
// The lists of one layer of two workers by role, with barriers and hops, over an estimated time axis.
std::string draw_layer_svg(const Program& program, int32_t layer);

// Of one page, of all weights.
int64_t page_bytes_full(const ModelConfig& config);
int64_t page_bytes_sliding(const ModelConfig& config);
int64_t weight_bytes(const ModelConfig& config);

}  // namespace boreas
