// What the host hands the megakernel for one step: addresses that never change, and the step's plan. Passed by value as
// the kernel's parameter (constant memory of the launch); sliced kernels share a copy in constant memory. Plain data,
// shared by host and device.
#pragma once

#include <cstdint>
#include <limits>

#include "exec/cuda/shape.h"
#include "exec/cuda/shared_memory.h"
#include "exec/cuda/trace.h"
#include "program/ops/load.h"
#include "program/task.h"

namespace boreas::cuda {

constexpr int32_t kStreams = LoadOp::kLmHead + 1;

// A word of a hop: 12 bytes and the epoch that says whose they are, written and read by one 16-byte access.
struct alignas(16) Word {
  uint32_t payload[3];
  uint32_t epoch;
};
static_assert(sizeof(Word) == 16);

// Of the waits that the device gives up, the one that comes first in the program; lies in host memory that the device
// maps. `urgency` rises to that wait's, `claimed` goes from 0 to 1 once, the other fields follow, `complete` last.
struct FaultRecord {
  uint32_t claimed, complete;
  uint32_t urgency;
  int32_t worker, role, warp, task, op, layer;
  int32_t what;            // WaitKind
  int32_t hop_or_barrier;  // of a chunk its number, of a credit the stream (LoadOp)
  uint32_t wanted, seen;
};
enum WaitKind : int32_t { kWaitBarrier, kWaitHop, kWaitChunkFull, kWaitChunkEmpty, kWaitCredit, kWaitPublication };

// What a row drew; lies in host memory that the device maps.
struct RowOutcome {
  int32_t token;             // -1: corrupted
  uint32_t step;             // low half of the step's number, written last
  float logprob;             // natural log of the token's probability, valid if asked for
  int32_t distinct_experts;  // row 0 only: summed over layers
};

enum SampleMode : int32_t {
  kSampleNone,    // no token is wanted
  kSampleGreedy,  // largest logit, lowest id among equals
  kSampleForced,  // RowPlan::forced_token
  kSampleHost,    // the host draws from the logits; the device leaves the slot's token alone
  kSampleDraw,    // by RowPlan::draw
};

// How a row's token is drawn, as far as the device does it; exec/sampling.h says what each number means.
struct DrawPlan {
  uint64_t seed = 0;
  int32_t choice_index = 0;
  float inverse_temperature = 1;
  float score_min = std::numeric_limits<float>::lowest();  // the logarithm of min_p
  float top_p = 1;
  int32_t top_k = std::numeric_limits<int32_t>::max();
  constexpr bool filters() const {
    return top_p < 1 || top_k < std::numeric_limits<int32_t>::max() || score_min > std::numeric_limits<float>::lowest();
  }
};

struct RowPlan {
  int32_t position = 0;
  int32_t token = -1;  // -1: slot_tokens[slot]
  int32_t slot = 0;
  int32_t page_table_full = 0;  // first entry of this row in page_tables
  int32_t page_table_sliding = 0;
  int32_t sliding_first = 0;     // page index of that entry
  int32_t group_first = 0;       // rows [group_first, this row] are of one sequence, positions ascending by one
  int32_t sample = kSampleNone;  // SampleMode
  int32_t forced_token = -1;
  DrawPlan draw;  // of kSampleDraw
};

// For comparisons with another implementation, layer by layer; only probed kernels (Probed in shape.h) look at it. Rows
// as in StepParams::row.
struct Probe {
  const uint16_t* inputs;  // [layers][kRowsMax][hidden] bf16: what a layer computes on, whatever came before; null: off
  float* outputs;          // [layers][attention, MLP][kRowsMax][hidden], before the residual add; null: off
  int32_t* routes;         // [layers][kRowsMax][experts a token] ascending ids, dense layers untouched; null: off
  int32_t norm_roundings;  // 2: x * scale is rounded to bf16 before the norm's weight, as transformers does; else once
};

constexpr uint32_t kCoarseClocks = 1024;  // deadlines are counted in
// i / divisor = i * reciprocal_of(divisor) >> 16 for i < 8192 and divisors up to 8: no division in the kernel.
constexpr uint32_t reciprocal_of(int32_t divisor) { return static_cast<uint32_t>((65536 + divisor - 1) / divisor); }

constexpr uint64_t kNoRouter = ~uint64_t{0};  // LayerWeights::router of a dense layer

struct LayerWeights {  // byte offsets in weights
  uint64_t qkv, output, router, up_gate, down;
  int32_t pool_layer;  // index among the layers of its page pool
  int32_t sliding;     // 0 or 1: which pool
};

// What a LOAD task's arguments hold on the device beside LoadOp's: where its worker's unit lies (of expert 0, if it is
// routed), in bytes from the weights, or from a page, as two words; bytes from expert to expert, or for pages 1 in the
// sliding pool; bytes of a piece, if all of the unit are as long, else 0.
enum DeviceLoadArg : int32_t {
  kLoadFromLow = LoadOp::kHeadCount + 1,
  kLoadFromHigh,
  kLoadStride,
  kLoadSliding = kLoadStride,
  kLoadPieceBytes
};

struct StepParams {
  // ---- for the life of the executor
  const TaskDesc* tasks;      // of the program in use
  const int32_t* list_first;  // [workers * kRoles + 1]
  const uint8_t* weights;     // re-laid, see weight_layout.h
  const uint16_t* norms;      // [layers + 1, hidden] bf16, the final norm last
  uint64_t lm_head;           // byte offset in weights
  LayerWeights layers[kLayersMax];
  uint8_t* pages_full;  // pool memory
  uint8_t* pages_sliding;
  uint64_t page_bytes_full, page_bytes_sliding;
  const int32_t* page_tables;
  Word* hops[kHops];  // both halves: epoch's parity * hop_half_words
  uint32_t hop_half_words[kHops];
  uint32_t hop_uses[kHops];
  float* logits;         // [kRowsMax, vocabulary] fp32
  int32_t* slot_tokens;  // [sequence slots]
  RowOutcome* outcomes;  // [kRowsMax] of this step
  FaultRecord* fault;
  // ---- of the program
  uint32_t slot_offset[kSlots];  // bytes in shared memory
  uint32_t ring_offset;
  ScratchMap scratch;  // map_scratch() behind the ring, for rows_max, both page lists and what memory is left
  int32_t ring_chunks, producers;
  int32_t credits[kStreams];                  // chunks on their way at most, by LoadOp::Stream; tuned
  int32_t page_list_full, page_list_sliding;  // entries a row has in the worker's page lists (shared_memory.h)
  // ---- of the model, not part of a compiled shape
  int32_t layer_count, window;
  float rms_norm_eps, logit_scale;
  // ---- of the step
  uint32_t step;  // epochs are step * uses + use + 1
  int32_t rows;
  uint32_t row_reciprocal;  // reciprocal_of(rows)
  RowPlan row[kRowsMax];
  float rope[kRowsMax][kHeadDim / 2][2];  // cosine and sine of each pair
  // ---- of the machine
  uint32_t deadline;           // of a wait for a hop, in kCoarseClocks; other waits have four times that
  uint32_t poll_delay[kHops];  // clocks between the own publication and the first look, tuned
  uint32_t poll_pause;         // between looks
  uint32_t whole_inner;        // not 0: words of inner vectors come at once, in the end (CudaTuning::early_inner)
  // ---- for traces; null: off
  TaskTimes* task_times;      // as `tasks`
  WorkerTimes* worker_times;  // [workers]
  // ---- for tests
  Probe probe;
  uint32_t delay_seed;  // 0: off; else random pauses before every publication and wait
  int32_t silent_task;  // >= 0: worker 0's consumer task of that number publishes nothing (planted fault)
  // ---- for whoever launches
  int32_t any_rows_kernel;  // not 0: one row runs in the instance for any rows too (CudaTuning::one_row_kernel)
};
static_assert(sizeof(StepParams) < 16 * 1024, "kernel parameters");

}  // namespace boreas::cuda
