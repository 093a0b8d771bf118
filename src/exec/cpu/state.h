// What the CPU interpreter works on: the step in hand, the words that travel between workers, and what each worker
// keeps for itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/cpu/kernels.h"
#include "exec/executor.h"
#include "program/compile.h"

namespace boreas::cpu {

static_assert(kLayoutPagePositions == kPagePositions);

// ---- the step
// A step computes a block of tokens, each a row of the program, of one or more sequences. Prefill is many rows of one
// sequence.
struct BlockSequence {
  int32_t slot = 0;
  std::span<const PageId> full_pages;
  std::span<const PageId> sliding_pages;
  int32_t sliding_first = 0;
  int32_t plan_row = 0;   // which row of the plan it is a piece of
  int32_t row_first = 0;  // its rows in the block are contiguous, positions ascending by one
  int32_t row_count = 0;
};

struct BlockSample {       // a token to draw
  int32_t logits_row = 0;  // index among the rows whose logits are wanted
  int32_t slot = 0;
  int32_t plan_row = 0;
  int64_t position = 0;  // of the drawn token
  TokenId forced_token = -1;
  const TokenMask* mask = nullptr;
};

struct Block {
  std::vector<TokenId> tokens;       // [rows]
  std::vector<int32_t> positions;    // [rows]
  std::vector<int32_t> sequence_of;  // [rows]
  std::vector<BlockSequence> sequences;
  std::vector<int32_t> logits_rows;  // rows whose logits are wanted, ascending
  std::vector<BlockSample> samples;
  std::vector<float> rope_cos;  // [rows, head_dim / 2]
  std::vector<float> rope_sin;
  int32_t rows() const { return static_cast<int32_t>(tokens.size()); }
};

// ---- between workers
// A hop's payload and its epochs, both halves. A writer fills its part of the payload, then releases its epoch; a
// reader acquires the epoch first.
struct alignas(64) EpochWord {
  std::atomic<int64_t> epoch{0};
};

class HopBuffer {
 public:
  void resize(int32_t workers, size_t bytes);
  std::byte* payload(int64_t epoch) { return payload_[epoch & 1].data(); }
  void publish(int32_t worker, int64_t epoch) {
    words_[index(worker, epoch)].epoch.store(epoch, std::memory_order_release);
  }
  // A word that lies beyond the wanted epoch was overwritten before it was read: the caller reports it.
  int64_t seen(int32_t worker, int64_t epoch) const {
    return words_[index(worker, epoch)].epoch.load(std::memory_order_acquire);
  }

 private:
  size_t index(int32_t worker, int64_t epoch) const {
    return static_cast<size_t>(worker) * 2 + static_cast<size_t>(epoch & 1);
  }
  std::vector<std::byte> payload_[2];
  std::unique_ptr<EpochWord[]> words_;
};

// ---- of one worker
// The experts of each row, and the same pairs sorted by expert.
struct Route {
  std::vector<int32_t> expert;  // [rows, experts_per_token], ascending id
  std::vector<float> weight;    // [rows, experts_per_token]
  std::vector<int32_t> first;   // [experts + 1]: pairs of expert e are [first[e], first[e + 1])
  std::vector<int32_t> pair;    // row * experts_per_token + j
  int32_t hit = 0;              // distinct experts
};

struct StreamItem {
  int32_t item = -1;
  int32_t stream = -1;
  int32_t layer = -1;
};

struct Worker {
  int32_t id = 0;
  size_t cursor[kRoles] = {};
  int64_t arrivals[kSlots] = {};  // of this step
  std::deque<StreamItem> ring;
  // Slots. Packed vectors where they feed products.
  std::vector<float> normed;     // [rows, padded(hidden)] packed
  std::vector<bf16> qkv;         // [rows, own heads, (queries_per_kv + 2) * head_dim]
  std::vector<float> attention;  // [rows, padded(query_width)] packed
  std::vector<float> inner;  // [rows * experts_per_token, padded(expert_width)] or [rows, padded(dense_width)] packed
  Route routes[2];
  std::vector<float> residual;   // [rows, own hidden slice]
  std::vector<float> projected;  // [rows, own hidden slice]
  // Scratch of the running task.
  std::vector<float> scratch_a, scratch_b, scratch_c;
  std::vector<float> softmax_maximum, softmax_sum, softmax_output;
  std::vector<const float*> pointers;
  std::vector<int32_t> key_first, key_end;
  // Counted for StepResult.
  int64_t bytes_read = 0;
  int64_t experts_hit = 0;
};

// Test instrument: what every layer adds, and optionally a residual that replaces the computed one before the next
// layer reads it.
struct LayerTrace {
  std::vector<std::vector<float>> attention, mlp, residual;  // per layer [positions, hidden]
  const std::vector<std::vector<float>>* forced_residual = nullptr;
};

// ---- everything the op bodies see
struct Sampler {  // of an open sequence slot
  bool open = false;
  SamplingParams params;
  PenaltyState penalties;
};

struct Shared {
  std::shared_ptr<const Model> model;
  const Kernels* kernels = nullptr;
  int32_t workers = 1;
  int32_t rows_max = 1;  // of any block
  HopBuffer hops[kHops];
  std::vector<float> logits;  // [logits rows, vocab_size]
  // [page][layer of the pool][KV head][K, V][64][head_dim]; from calloc, so that untouched pages cost no memory.
  std::unique_ptr<bf16, decltype(&std::free)> kv_full{nullptr, &std::free}, kv_sliding{nullptr, &std::free};
  std::vector<int32_t> pool_layer;    // [layers]: index among the layers of its pool
  std::vector<Sampler> samplers;      // [sequence slots]
  std::vector<SampledToken> sampled;  // [samples of the block], written by their workers
  Block block;
  int64_t step = 0;  // number of blocks run so far
  const Program* program = nullptr;
  LayerTrace* trace = nullptr;  // tests only

  const ModelConfig& config() const { return model->config(); }
  int64_t epoch(int32_t hop, int32_t use) const { return step * program->hop_uses[static_cast<size_t>(hop)] + use + 1; }
  // [64, head_dim] of K (0) or V (1).
  bf16* page(bool sliding, PageId page, int32_t layer, int32_t head, int32_t k_or_v);
};

// The parts of Shared and Worker whose size the shape, the number of workers and rows_max decide; model, workers and
// rows_max must be set. Error: no memory for the pages.
Status allocate_pages(Shared& shared, int64_t pages_full, int64_t pages_sliding);
void allocate_hops(Shared& shared);
void allocate_slots(const Shared& shared, Worker& worker);

struct OpContext {
  Shared& shared;
  Worker& worker;
  const ModelConfig& config() const { return shared.config(); }
  int32_t rows() const { return shared.block.rows(); }
  // Payload a task reads or writes, by the task's own hop and use.
  template <class T>
  T* wait_payload(const TaskDesc& task) const {
    return reinterpret_cast<T*>(shared.hops[task.wait.hop].payload(shared.epoch(task.wait.hop, task.wait.use)));
  }
  template <class T>
  T* publish_payload(const TaskDesc& task) const {
    return reinterpret_cast<T*>(
        shared.hops[task.publish.hop].payload(shared.epoch(task.publish.hop, task.publish.use)));
  }
};

// One body an op, in ops/<op>.cc. A missing one does not link.
#define BOREAS_DECLARE_BODY(enumerator, contract, name, role) \
  void run_##enumerator(OpContext& context, const TaskDesc& task);
BOREAS_OPS(BOREAS_DECLARE_BODY)
#undef BOREAS_DECLARE_BODY

}  // namespace boreas::cpu
