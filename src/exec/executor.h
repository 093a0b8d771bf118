// The door of exec/: who carries out a step. The engine fills a StepPlan, an Executor runs it. Implementations:
// exec/cpu, exec/cuda, exec/fake.
//
// A plan's row is a token range of one sequence. Prefill is a long range, decode a range of one; nothing else tells
// them apart. Memory: the executor owns weights, KV pages and the device; the engine owns which page belongs to whom. A
// page holds kPagePositions positions of all layers of its pool. Full-attention layers live in the full pool,
// sliding-window layers in the sliding pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "exec/sampling.h"

namespace boreas {

constexpr int32_t kPagePositions = 64;

enum class PagePoolKind : uint8_t { kFull, kSliding };

struct MemoryUse {
  std::string what;
  int64_t bytes = 0;
};

struct ExecutorInfo {
  std::string name;    // "cpu", "cuda", "fake"
  std::string device;  // human-readable: processor or GPU, threads or SMs, SIMD level
  int32_t vocab_size = 0;
  int32_t context_max = 0;     // positions a sequence may have
  int32_t window = 0;          // visible keys of sliding layers; 0: the model has none
  int32_t sequence_slots = 0;  // sequences that may be open at once
  int32_t rows_max = 0;        // rows of one plan
  int32_t tokens_max = 0;      // tokens of one plan, all rows together
  int32_t pages_full = 0;      // pages in the pool; ids 0..pages-1
  int32_t pages_sliding = 0;
  int64_t page_bytes_full = 0;  // 0: the model has no such layers; rows may then name any full pages
  int64_t page_bytes_sliding = 0;
  int32_t steps_in_flight_max = 1;  // plans that may be submitted and not yet waited for
  bool one_arithmetic =
      false;  // decode computes the same bits as prefill (then cached pages of generated tokens are exact)
  std::vector<MemoryUse> memory;  // what it keeps where the model runs, pages last; empty: not counted
};

// Everything about a sequence that sampling needs over its life. Copied by open_sequence.
struct SequenceSpec {
  SamplingParams sampling;
  std::span<const TokenId> prompt;  // for the repetition penalty
  // Tokens already generated (resume after preemption), for penalties and min_tokens. Their KV is recomputed by rows
  // with LogitsWanted::kNone and explicit tokens: nothing is sampled or counted again.
  std::span<const TokenId> output;
};

enum class LogitsWanted : uint8_t {
  kNone,  // prefill chunk that is not the last
  kLast,  // of the last token: a token is sampled from them
  kAll,   // of every token: log-probabilities of the following prompt token, and a token is sampled from the last
};

struct StepRow {
  int32_t slot = 0;      // an open sequence slot
  int32_t position = 0;  // position of the first token of the range
  // The range; empty: one token, the one that the previous plan sampled for this slot. A prompt of two or more tokens
  // is never cut into ranges of one, so an executor with two arithmetics may tell prefill from decode by the length. A
  // range with kAll may begin with the last token of the range before it: it rewrites that position with equal bits.
  std::span<const TokenId> tokens;
  // Page tables. full_pages[j] covers positions 64 j .. 64 j + 63, for all j up to the end of the range.
  // sliding_pages[j] covers page index sliding_first + j; every page that a query of this range can see under the
  // window is there. The spans stay valid until wait() returns.
  std::span<const PageId> full_pages;
  std::span<const PageId> sliding_pages;
  int32_t sliding_first = 0;
  LogitsWanted logits = LogitsWanted::kNone;
  // What is wanted of a prompt's range when it is computed for the first time; after preemption, when it is computed
  // again for its pages alone, `logits` no longer says it. An executor with two arithmetics may compute the tokens
  // whose logits are wanted in another one than the rest, and must then do so again.
  LogitsWanted replays = LogitsWanted::kNone;
  TokenId forced_token = -1;              // >= 0: this is the outcome, nothing is drawn (replay after preemption)
  std::shared_ptr<const TokenMask> mask;  // null: everything allowed
  int32_t prompt_top_logprobs = -1;       // with kAll: as SamplingParams::top_logprobs, for the prompt tokens
};

struct StepPlan {
  std::vector<StepRow> rows;
};

struct RowResult {
  SampledToken sampled;  // for kLast and kAll
  std::vector<SampledToken>
      prompt_logprobs;  // kAll: entry i scores tokens[i + 1] given tokens[0..i]; tokens.size() - 1 entries
};

struct StepResult {
  std::vector<RowResult> rows;   // as in the plan
  int64_t elapsed_ns = 0;        // of the step itself
  int64_t bytes_read = 0;        // weights and KV, counted by the executor from what it really touched; 0 = not counted
  int32_t distinct_experts = 0;  // summed over layers; 0 = not counted
};

using StepTicket = uint64_t;

// For executors: CHECKs a plan, which the engine makes, so that a wrong one is a bug.
struct SlotState {
  bool open = false;
  bool has_token = false;  // that a row without tokens would take
};
void check_plan(const StepPlan& plan, const ExecutorInfo& info, const std::function<SlotState(int32_t slot)>& state_of);

// Used by one thread (the engine's). Every Error is a fault of the executor (device lost, deadline passed): the engine
// fails its requests and stops. Bad plans are bugs and CHECKed.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorInfo& info() const = 0;

  virtual void open_sequence(int32_t slot, const SequenceSpec& spec) = 0;
  virtual void close_sequence(int32_t slot) = 0;

  // Enqueues a step; at most steps_in_flight_max may be outstanding. Steps run in order. The plan's spans must stay
  // valid until wait(ticket).
  virtual Result<StepTicket> submit(const StepPlan& plan) = 0;
  // Waits for a step; tickets are waited for in order, each once.
  virtual Result<StepResult> wait(StepTicket ticket) = 0;

  // Page content to and from host memory (swap) and page to page (a shared page that gets its own copy). Ordered after
  // all submitted steps. Sizes: ExecutorInfo::page_bytes_*.
  virtual Status save_page(PagePoolKind pool, PageId page, std::span<std::byte> out) = 0;
  virtual Status restore_page(PagePoolKind pool, PageId page, std::span<const std::byte> in) = 0;
  virtual Status copy_page(PagePoolKind pool, PageId from, PageId to) = 0;
};

}  // namespace boreas
