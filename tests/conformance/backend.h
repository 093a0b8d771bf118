// How a conformance case reaches an executor: "with this model on so many workers, this step and these inputs, run this
// op of this layer, and give me what it leaves". One backend an executor; the cases know nothing else of it.
//
// All values are in natural order over all workers: the backend hands each worker its slice and puts the slices
// together again. Which arrays an op reads and writes is its contract's business (reads(), writes() of program/ops/):
// the backend fills nothing else but with NaN, and fails the test if anything else changes, or if workers that compute
// the same for themselves disagree.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "model/model.h"
#include "program/compile.h"

namespace boreas::conformance {

// A model, and its program for so many workers and rows.
struct Machine {
  std::string name;
  std::shared_ptr<const Model> model;
  Program program;
  const ModelConfig& config() const { return program.config; }
};

// The plan that the ops see. Row r of a step is the r-th token of its plan.
struct Step {
  StepPlan plan;                             // every row has tokens; at most Program::rows_max in all
  std::vector<SequenceSpec> sequences;       // by slot
  std::vector<std::vector<TokenId>> tokens;  // what the spans above look at
  std::vector<std::vector<PageId>> pages;
  Step() = default;
  Step(Step&&) = default;
  Step& operator=(Step&&) = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
};

struct Call {
  Op op = Op::kNop;
  int32_t layer = -1;
  Slot slot = Slot::kNormed;  // GATHER: where to
};

// Values by row. Widths: values_per_row() below.
struct Data {
  std::array<std::vector<float>, kHops> hops;
  std::array<std::vector<float>, kSlots> slots;
  std::vector<float> logits;                 // [rows whose logits are wanted, vocab_size]
  std::vector<bf16> kv_full, kv_sliding;     // [page][layer of the pool][KV head][K, V][64][head_dim]
  std::vector<SampledToken> sampled;         // one a plan row that draws a token, in order
  std::vector<std::vector<int32_t>> loaded;  // by worker: stream items, in the order in which they were loaded

  std::vector<float>& hop(Hop which) { return hops[static_cast<size_t>(which)]; }
  std::vector<float>& slot(Slot which) { return slots[static_cast<size_t>(which)]; }
};

// Hop residual: [hidden]; logit: [experts]; qkv: [KV head][queries_per_kv q heads, k, v][head_dim]; partial: [KV head]
// [piece][query][m, l, o[head_dim]] with m the largest q . k of the piece (not scaled), l and o relative to it;
// attention: [query_width]; inner: [experts_per_token][expert_width] or [dense_width]; logits, mass and token: none.
inline int64_t values_per_row(const ModelConfig& config, int32_t layer, Hop hop) {
  const int64_t queries = config.queries_per_kv(), dim = config.head_dim;
  switch (hop) {
    case Hop::kResidual:
      return config.hidden_size;
    case Hop::kLogit:
      return config.experts;
    case Hop::kQkv:
      return config.kv_heads * (queries + 2) * dim;
    case Hop::kPartial:
      return config.kv_heads * kAttentionPieces * queries * (dim + 2);
    case Hop::kAttention:
      return config.query_width();
    case Hop::kInner:
      return config.is_moe(layer) ? int64_t{config.experts_per_token} * config.expert_width : config.dense_width;
    case Hop::kLogits:
    case Hop::kMass:
    case Hop::kToken:
      break;
  }
  return 0;
}

// Slots as the hops of the same name, all inner vectors in slot inner; normed, residual, projected: [hidden]; route:
// [experts_per_token][id, weight].
inline int64_t values_per_row(const ModelConfig& config, int32_t layer, Slot slot) {
  switch (slot) {
    case Slot::kNormed:
    case Slot::kResidual:
    case Slot::kProjected:
      return config.hidden_size;
    case Slot::kQkv:
      return values_per_row(config, layer, Hop::kQkv);
    case Slot::kAttention:
      return values_per_row(config, layer, Hop::kAttention);
    case Slot::kInner:
      return values_per_row(config, layer, Hop::kInner);
    case Slot::kInnerFirst:
      return 0;
    case Slot::kRoute:
    case Slot::kRouteOdd:
      return int64_t{config.experts_per_token} * 2;
  }
  return 0;
}

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // The longest chain of rounded fp32 additions that a term of a dot product of this length passes through.
  virtual int32_t additions(int32_t length) const = 0;
  // Reads inputs from data and replaces outputs. What no worker wrote of an output is NaN afterwards.
  virtual void run(const Machine& machine, const Step& step, const Call& call, Data& data) = 0;
};

}  // namespace boreas::conformance
