#include "engine/sequence.h"

#include <algorithm>
#include <tuple>

namespace boreas {

int32_t Sequence::prompt_length() const { return static_cast<int32_t>(request->request.prompt.size()); }

int32_t Sequence::known_length() const { return prompt_length() + static_cast<int32_t>(output.size()); }

TokenId Sequence::token_at(int32_t position) const {
  const int32_t prompt = prompt_length();
  return position < prompt ? request->request.prompt[static_cast<size_t>(position)]
                           : output[static_cast<size_t>(position - prompt)];
}

bool Sequence::has_scored_prompt() const { return choice == 0 && request->request.prompt_top_logprobs >= 0; }

bool Sequence::scores_prompt() const { return has_scored_prompt() && output.empty(); }

bool Sequence::computes_as_scored(const EngineLimits& limits) const {
  return scores_prompt() || (!limits.one_arithmetic && has_scored_prompt());
}

int32_t Sequence::prefill_end(const EngineLimits& limits) const {
  return limits.one_arithmetic && !output.empty() ? known_length() - 1 : prompt_length();
}

int32_t Sequence::length_max(const EngineLimits& limits) const {
  const int64_t wanted = int64_t{prompt_length()} + request->request.max_tokens;
  return static_cast<int32_t>(std::min<int64_t>(wanted, limits.context_max));
}

bool RunsBefore::operator()(const Sequence* a, const Sequence* b) const {
  const auto key = [](const Sequence* s) {
    return std::tuple(s->request->request.priority, s->request->arrival, s->choice);
  };
  return key(a) < key(b);
}

}  // namespace boreas
