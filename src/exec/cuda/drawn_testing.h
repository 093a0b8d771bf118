// What DrawPlan asks for, by sorting the whole vocabulary and with all of the noise: the plain way, for tests of the
// device's way and of sampling.cc.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "base/ids.h"
#include "exec/cuda/step_params.h"
#include "exec/sampling_math.h"

namespace boreas::cuda {

// position: of the drawn token. Top-k cuts before top-p.
inline TokenId drawn_by_sorting(std::span<const float> logits, const DrawPlan& draw, int64_t position) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  const auto score = [&](TokenId id) {
    return sampling_math::score(logits[static_cast<size_t>(id)], largest, draw.inverse_temperature);
  };
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return score(a) > score(b); });
  while (score(ids.back()) < draw.score_min) ids.pop_back();
  ids.resize(std::min(ids.size(), static_cast<size_t>(draw.top_k)));
  uint64_t total = 0, sum = 0;
  for (const TokenId id : ids) total += sampling_math::mass(score(id));
  size_t kept = draw.top_p < 1 ? 0 : ids.size();
  while (kept < ids.size() && sum < sampling_math::mass_needed(total, draw.top_p))
    sum += sampling_math::mass(score(ids[kept++]));
  ids.resize(kept);
  uint64_t best = 0;
  for (const TokenId id : ids) {
    const auto words =
        sampling_math::noise_words(draw.seed, draw.choice_index, position, static_cast<uint32_t>(id) / 4);
    const double value = sampling_math::drawn_value(logits[static_cast<size_t>(id)], draw.inverse_temperature,
                                                    words[static_cast<size_t>(id) % 4]);
    best = std::max(best, sampling_math::draw_order(value, id));
  }
  return sampling_math::drawn_id(best);
}

}  // namespace boreas::cuda
