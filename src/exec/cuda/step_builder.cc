#include "exec/cuda/step_builder.h"

#include <algorithm>
#include <cmath>

namespace boreas::cuda {
namespace {

// Tokens [first, first + count) of a plan row become rows of the launch.
void add_run(LaunchPlan& launch, const StepRow& row, int32_t plan_row, const RowChoice& choice, int32_t first,
             int32_t count) {
  const int32_t total = std::max<int32_t>(1, static_cast<int32_t>(row.tokens.size()));
  const int32_t group_first = launch.rows;
  for (int32_t i = first; i < first + count; ++i) {
    const size_t at = static_cast<size_t>(launch.rows++);
    LaunchRow& use = launch.use[at];
    use.plan_row = plan_row;
    use.token_index = i;
    use.samples = i + 1 == total && row.logits != LogitsWanted::kNone;
    use.scores = i + 1 < total && row.logits == LogitsWanted::kAll;
    RowPlan& out = launch.row[at];
    out.position = row.position + i;
    out.token = row.tokens.empty() ? choice.token : row.tokens[static_cast<size_t>(i)];
    out.slot = row.slot;
    out.page_table_full = choice.pages.full;
    out.page_table_sliding = choice.pages.sliding;
    out.sliding_first = choice.pages.sliding_first;
    out.group_first = group_first;
    if (use.samples) out.sample = choice.sample;
    if (use.scores) out.sample = kSampleHost;
    if (out.sample == kSampleDraw) out.draw = choice.draw;
    if (out.sample == kSampleForced) out.forced_token = row.forced_token;
    launch.wants_logits |= out.sample == kSampleHost;
  }
}

}  // namespace

std::vector<LaunchPlan> cut_into_launches(const StepPlan& plan, std::span<const RowChoice> choices) {
  std::vector<LaunchPlan> launches(1);
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const StepRow& row = plan.rows[r];
    const int32_t total = std::max<int32_t>(1, static_cast<int32_t>(row.tokens.size()));
    for (int32_t first = choices[r].prefilled; first < total;) {
      if (launches.back().rows == kRowsMax) launches.emplace_back();
      const int32_t count = std::min(total - first, kRowsMax - launches.back().rows);
      add_run(launches.back(), row, static_cast<int32_t>(r), choices[r], first, count);
      first += count;
    }
  }
  return launches;
}

RopeTable::RopeTable(const ModelConfig& config) {
  for (size_t i = 0; i < frequency_.size(); ++i) {
    frequency_[i] = static_cast<float>(std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / config.head_dim));
  }
}

void RopeTable::fill(int32_t position, float (&out)[kHeadDim / 2][2]) const {
  for (size_t i = 0; i < frequency_.size(); ++i) {
    const float angle = static_cast<float>(position) * frequency_[i];
    out[i][0] = static_cast<float>(std::cos(static_cast<double>(angle)));
    out[i][1] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

}  // namespace boreas::cuda
