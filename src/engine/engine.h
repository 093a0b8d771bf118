// The door of engine/: when a request runs. One thread owns requests, pages, prefix cache and the executor; others hand
// in requests and get events. The engine knows token ids and pages: no strings, no tensors, no tasks.
//
//   submit() ==bounded queue==> engine thread: Batcher -> StepPlan -> Executor -> StepResult -> events -> EventSink
//   (called on the engine thread)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "exec/executor.h"
#include "exec/sampling.h"

namespace boreas {

enum class FinishReason : uint8_t {
  kStop,    // an EOS or stop token was generated (it is the last token event), or cancel() says so
  kLength,  // max_tokens or the context is used up
  kAbort,   // cancelled: the client left, or the server shuts down
  kError,   // executor fault, corrupted logits, deadline
};

struct Request {
  std::vector<TokenId> prompt;       // not empty, ids below vocab_size
  SamplingParams sampling;           // of choice 0; choice i gets choice_index i
  int32_t choices = 1;               // n
  int32_t max_tokens = 1;            // generated tokens per choice; 0 = score the prompt only
  std::vector<TokenId> stop_ids;     // generation ends after one of these (EOS ids included unless ignored)
  int32_t prompt_top_logprobs = -1;  // >= 0: score the prompt
  int32_t priority = 0;              // lower runs earlier, strictly: higher ones may starve
  std::string cache_salt;            // isolates the prefix cache; opaque bytes
  int64_t deadline_ns = 0;           // by the engine's clock; 0 = none
  std::function<std::unique_ptr<TokenConstraint>()> make_constraint;  // one a choice; empty: none
};

// What a request's owner hears, in order. Exactly one event with `finish` per choice, after which nothing more comes
// for it.
struct TokenEvent {
  RequestId request;
  int32_t choice = 0;
  std::vector<SampledToken> tokens;           // usually one; empty with kAbort, kError and pure prompt scoring
  std::vector<SampledToken> prompt_logprobs;  // once, with the first event of choice 0, if asked for
  std::optional<FinishReason> finish;
  std::string error;  // with kError
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // prompt tokens taken from the prefix cache
  int32_t output_tokens = 0;  // so far, of this choice
};

// Called on the engine thread; must return quickly and never block. Outlives the request.
using EventSink = std::function<void(TokenEvent&&)>;

// A prompt is never cut into ranges of one token, so sometimes three must be taken at once.
constexpr int32_t kStepTokensMin = 3;

struct EngineOptions {
  int32_t running_max = 64;                       // --max-num-seqs; also bounded by the executor's slots
  int32_t waiting_max = 1024;                     // --max-num-queued-reqs
  int64_t waiting_tokens_max = int64_t{1} << 22;  // --max-num-queued-tokens
  int32_t step_tokens_max = 0;  // --max-num-batched-tokens, at least kStepTokensMin; 0: as the executor allows
  int32_t context_max = 0;      // --max-model-len; 0: the executor's
  bool prefix_cache = true;
  bool prefix_cache_exact = false;  // reuse only pages whose KV a prefill made
  uint64_t prefix_hash_seed = 0;    // makes hash collisions unpredictable to clients; 0: the Engine draws one
  // Host memory for the pages of preempted sequences (--swap-space). Without room for all of a sequence's pages they
  // are dropped and computed again; the text is the same.
  int64_t swap_bytes_max = int64_t{4} << 30;
  // Prefill may delay the decode rows of its step by about so much; 0 = no bound but step_tokens_max.
  int32_t step_latency_ms = 70;
  // Of the time, while others prefill; 0 to 99. Their prompts take so much longer.
  int32_t decode_percent = 55;
};

// What decoding read, of the finished steps that did nothing else and whose reads the executor counted: sums over them.
// What a step reads decides how long it may take, and is not the same for all streams: rows that hit the same experts
// read them once.
struct DecodeReads {
  int64_t steps = 0;
  int64_t rows = 0;
  int64_t positions = 0;         // of the rows: how long each sequence was, itself included
  int64_t distinct_experts = 0;  // over layers, too
  int64_t bytes = 0;             // weights and KV in sight, as StepResult::bytes_read
};

// Counters and gauges for /metrics; a snapshot.
struct EngineStats {
  int32_t running = 0;
  int32_t waiting = 0;
  int64_t waiting_tokens = 0;   // prompt tokens of requests of which nothing runs
  int32_t pages_full_free = 0;  // also counts pages that only the prefix cache holds: they are there for the taking
  int32_t pages_full = 0;
  int32_t pages_sliding_free = 0;
  int32_t pages_sliding = 0;
  int64_t steps = 0;
  int64_t step_ns = 0;        // of finished steps, as the executor measures them
  int64_t prefill_ns = 0;     // of that, what prefill added
  int64_t decode_steps = 0;   // finished ones with decode rows
  int64_t decode_rows = 0;    // of all of them
  DecodeReads decode_reads;   // of most of them
  int64_t prompt_tokens = 0;  // of requests that started, once each, without the cached ones
  int64_t cached_tokens = 0;  // the others: taken from the prefix cache (hits, in tokens)
  int64_t output_tokens = 0;
  int64_t preemptions = 0;
  int64_t finished[4] = {};  // by FinishReason
  bool healthy = true;       // false after an executor fault; the process should exit
  bool draining = false;
  int64_t prefix_query_tokens = 0;  // prompt tokens of requests that looked into the prefix cache
  int64_t computed_tokens = 0;      // by rows of all kinds, repeated work included
  int32_t pages_full_cached = 0;    // of the free ones, those that the prefix cache holds
  int32_t pages_sliding_cached = 0;
  int64_t swapped_out_pages = 0;  // to host memory
  int64_t swapped_in_pages = 0;   // and back
  int64_t recomputations = 0;     // preemptions for which host memory had no room
  int64_t swap_bytes_used = 0;
  int64_t swap_bytes_max = 0;
};

enum class SubmitError : uint8_t { kQueueFull, kDraining, kDead, kNeverFits };

// Owns the engine thread. All methods may be called from any thread.
class Engine {
 public:
  // The executor must outlive the engine. clock: for deadlines and retry_after_ms; read by several threads.
  Engine(Executor& executor, const EngineOptions& options, const Clock& clock);
  ~Engine();  // cancels what is left and joins
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  struct Submitted {
    std::optional<SubmitError> error;
    RequestId id;                // valid without error
    int64_t retry_after_ms = 0;  // with kQueueFull: about when those who wait now have started; 1 s to 60 s
  };
  Submitted submit(Request request, EventSink sink);
  // Ends all choices of a request (or one of them) at the next step boundary. Unknown or finished ids are ignored.
  // reason: kStop if the owner found the text complete (a stop string), which no statistics should take for an abort.
  void cancel(RequestId id, int32_t choice = -1, FinishReason reason = FinishReason::kAbort);
  EngineStats stats() const;
  int32_t context_max() const;
  int32_t running_max() const;  // sequences that run at once: EngineOptions::running_max, or what the executor allows
  // No new requests; returns when all have finished or the deadline passed (then they are cancelled). Not from a sink
  // or hook.
  void drain(int64_t timeout_ms);
  // Called (on the engine thread) once after every step that produced events: lets the server flush many streams with
  // one wake-up.
  void set_step_hook(std::function<void()> hook);
  // Called once on the engine thread if the executor faults, after all requests got kError.
  void set_fault_hook(std::function<void(const std::string&)> hook);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boreas
