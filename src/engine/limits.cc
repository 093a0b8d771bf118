#include "engine/limits.h"

#include <algorithm>

#include "base/check.h"
#include "engine/page_ledger.h"

namespace boreas {
namespace {

constexpr int64_t kCountedPagesMax = 1 << 20;  // of a pool that exists nowhere: 8 MiB of reference counts

}  // namespace

EngineLimits make_limits(const ExecutorInfo& info, const EngineOptions& options) {
  EngineLimits limits;
  limits.vocab_size = info.vocab_size;
  limits.rows_max = info.rows_max;
  limits.step_tokens_max =
      options.step_tokens_max > 0 ? std::min(options.step_tokens_max, info.tokens_max) : info.tokens_max;
  limits.steps_in_flight_max = info.steps_in_flight_max;
  limits.one_arithmetic = info.one_arithmetic;
  limits.prefix_cache = options.prefix_cache;
  limits.exact_pages_only = options.prefix_cache_exact && !info.one_arithmetic;
  static_assert(kStepTokensMin == PageLedger::kChunkPositionsMin);
  CHECK(limits.step_tokens_max >= kStepTokensMin);
  CHECK(info.rows_max > 0 && info.sequence_slots > 0 && info.steps_in_flight_max > 0);
  limits.running_max = std::min({options.running_max, info.sequence_slots, info.rows_max,
                                 limits.step_tokens_max - PageLedger::kChunkPositionsMin + 1});
  CHECK(limits.running_max > 0);

  const bool has_full_layers = info.page_bytes_full > 0;
  int64_t context = info.context_max;
  if (options.context_max > 0) context = std::min<int64_t>(context, options.context_max);
  if (has_full_layers) context = std::min(context, int64_t{info.pages_full} * kPagePositions);
  if (info.window > 0 &&
      info.pages_sliding < PageLedger::sliding_pages_max(info.window, PageLedger::kChunkPositionsMin)) {
    context = std::min(context, int64_t{info.pages_sliding} * kPagePositions);
  }
  CHECK(context > 0);
  limits.context_max = static_cast<int32_t>(context);
  const int64_t pages_of_one = pages_for(limits.context_max);
  limits.pages_full =
      has_full_layers
          ? info.pages_full
          : static_cast<int32_t>(std::min(pages_of_one * limits.running_max, std::max(pages_of_one, kCountedPagesMax)));
  return limits;
}

bool never_fits(const EngineLimits& limits, const Request& request) {
  const int64_t generated_min = request.max_tokens > 0 ? 1 : 0;
  return static_cast<int64_t>(request.prompt.size()) + generated_min > limits.context_max;
}

}  // namespace boreas
