#include "engine/batcher.h"

#include <algorithm>
#include <cstddef>

namespace boreas {
namespace {

constexpr int32_t kChunkMin = 3;  // with so many tokens at hand chunk_tokens() is never 0

int32_t wanted_tokens(const BatchCandidate& candidate) { return std::min(candidate.left, candidate.tokens_max); }

}  // namespace

int32_t chunk_tokens(int32_t left, int32_t limit) {
  int32_t taken = std::min(left, limit);
  if (left - taken == 1) --taken;
  return taken >= 2 || taken == left ? std::max(taken, 0) : 0;
}

std::vector<int32_t> pick_rows(std::span<const BatchCandidate> candidates, const BatchBudget& budget) {
  std::vector<int32_t> picked(candidates.size());
  std::vector<size_t> prefills;
  int32_t tokens = budget.tokens;
  int32_t rows = budget.rows;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].single) {
      prefills.push_back(i);
    } else if (tokens > 0 && rows > 0) {
      picked[i] = 1;
      --tokens;
      --rows;
    }
  }
  tokens = std::min(tokens, budget.prefill);
  if (prefills.empty() || rows == 0) return picked;

  int32_t scored = budget.scored;
  const auto take = [&](size_t index, int32_t limit) {
    const BatchCandidate& candidate = candidates[index];
    if (candidate.scored) limit = std::min(limit, scored);
    picked[index] = chunk_tokens(candidate.left, std::min(limit, candidate.tokens_max));
    tokens -= picked[index];
    if (candidate.scored) scored -= picked[index];
    rows -= picked[index] > 0;
  };
  int64_t others = 0;
  for (size_t i = 1; i < prefills.size(); ++i) others += wanted_tokens(candidates[prefills[i]]);
  const auto rest = static_cast<int32_t>(std::max<int64_t>(tokens - others, 0));
  int32_t first = std::max({rest, (tokens + 1) / 2, std::min(tokens, kChunkMin)});
  const auto scores = [&](size_t index) { return candidates[index].scored; };
  // Other scored prompts get their half too.
  if (scores(prefills[0]) && std::any_of(prefills.begin() + 1, prefills.end(), scores)) {
    first = std::min(first, std::max((scored + 1) / 2, kChunkMin));
  }
  take(prefills[0], first);
  std::stable_sort(prefills.begin() + 1, prefills.end(),
                   [&](size_t a, size_t b) { return candidates[a].left_in_all < candidates[b].left_in_all; });
  for (size_t i = 1; i < prefills.size() && rows > 0 && tokens > 0; ++i) take(prefills[i], tokens);
  return picked;
}

}  // namespace boreas
