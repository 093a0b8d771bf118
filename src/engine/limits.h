// EngineLimits: what the options and the executor allow together. Computed once; immutable, so any thread may read it.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace boreas {

struct EngineLimits {
  int32_t vocab_size = 0;
  int32_t running_max = 0;  // sequences in a step; leaves room for a prefill chunk beside running_max - 1 decodes
  int32_t rows_max = 0;
  int32_t step_tokens_max = 0;
  int32_t steps_in_flight_max = 0;
  // Positions of prompt and output together. Never more than the page pools hold for one sequence that is alone, so a
  // lone request always ends.
  int32_t context_max = 0;
  // Of the full pool. A model without full-attention layers has no such pages; then the engine counts pages that exist
  // nowhere, enough for all that run, because page tables and prefix cache are kept by them.
  int32_t pages_full = 0;
  bool one_arithmetic = false;
  bool prefix_cache = false;
  bool exact_pages_only = false;  // of the prefix cache
};

EngineLimits make_limits(const ExecutorInfo& info, const EngineOptions& options);

// The request alone, on an idle engine, cannot run: its prompt leaves no room for a token.
bool never_fits(const EngineLimits& limits, const Request& request);

}  // namespace boreas
