// Sustained mixed load on a server in this process: prompts of several kinds from so many clients, joins and leaves,
// for so many tokens or seconds; what it made of them, and whether memory and pages came back. A part of `boreas bench
// serve --all`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_serve_fair.h"
#include "bench_serve_load.h"
#include "bench_serve_stats.h"
#include "eval_local.h"

namespace boreas {

struct MixedLoadOptions {
  ServeLoadOptions load;  // clients are set here
  int64_t total_tokens = 200'000;
  double seconds = 0;         // no request begins after so many; 0: any
  int32_t prompt_tokens = 0;  // of every first turn; 0: as the workloads have them
  int32_t prompt_tokens_max = 0;
  int32_t answer_tokens_max = 1024;
};

constexpr int32_t kMixedClients = 8;
// What a run may leave in memory: buffers that grow to the largest request, caches of the allocator. Not more with more
// tokens, so a run must be long to show a small leak.
constexpr int64_t kMixedResidentBytesMax = int64_t{32} << 20;

struct MixedLoadResult {
  ServeSummary summary;
  std::string first_error;
  int64_t tokens = 0;              // that the engine generated meanwhile
  double prefill_s = 0;            // of summary.seconds
  int64_t decode_rows = 0;         // of its decode steps: all tokens but the first of each answer
  double decode_tok_s = 0;         // of the executor, while it decoded: of its own time
  std::optional<DecodeWork> work;  // of a decode step on average
  double batch = 0;                // rows of a decode step on average; 0: none was made
  int64_t pages_lost = 0;          // free before the run and not after it
  // Resident memory after the run less before it, both idle, without KV pages of a processor that were used for the
  // first time.
  int64_t resident_added = 0;
  bool healthy = true;  // the engine, at the end
  bool idle = true;     // likewise
};

// A tenth of the tokens to warm up, then the run. Error: the server cannot be reached.
Result<MixedLoadResult> run_mixed_load(const LocalServer& server, const MixedLoadOptions& options);

// Everything that a good run has not: requests that failed, pages or memory that did not come back, no token at all.
std::vector<std::string> problems_of(const MixedLoadResult& result);

}  // namespace boreas
