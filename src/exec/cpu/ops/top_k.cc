// Body of top_k: see program/ops/top_k.h. Selection is on the bf16 logits, before the sigmoid, ties to the lowest id.
// NaN counts as the largest, as in PyTorch: a broken router shows in the logits instead of losing an expert.
#include <algorithm>
#include <cmath>

#include "exec/cpu/exp2.h"
#include "exec/cpu/state.h"

namespace boreas::cpu {
namespace {

bool before(const float* logits, int32_t a, int32_t b) {
  const bool a_nan = std::isnan(logits[a]), b_nan = std::isnan(logits[b]);
  if (a_nan != b_nan) return a_nan;
  if (a_nan || logits[a] == logits[b]) return a < b;
  return logits[a] > logits[b];
}

// The `count` largest of `logits` by (value descending, id ascending), returned in ascending id.
void select(const float* logits, int32_t experts, int32_t count, std::vector<int32_t>& order, int32_t* chosen) {
  order.resize(static_cast<size_t>(experts));
  for (int32_t e = 0; e < experts; ++e) order[static_cast<size_t>(e)] = e;
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int32_t a, int32_t b) { return before(logits, a, b); });
  std::copy_n(order.begin(), count, chosen);
  std::sort(chosen, chosen + count);
}

}  // namespace

void run_kTopK(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  const int32_t rows = context.rows(), per_row = config.experts_per_token, experts = config.experts;
  Route& route = context.worker.routes[task.args[TopKOp::kSlot] == static_cast<int32_t>(Slot::kRouteOdd)];
  const float* logits = context.wait_payload<const float>(task);
  const size_t pairs = static_cast<size_t>(rows) * static_cast<size_t>(per_row);
  route.expert.resize(pairs);
  route.weight.resize(pairs);
  route.pair.resize(pairs);
  route.first.assign(static_cast<size_t>(experts) + 1, 0);
  std::vector<int32_t> order;
  for (int32_t row = 0; row < rows; ++row) {
    const float* row_logits = logits + int64_t{row} * experts;
    int32_t* chosen = route.expert.data() + int64_t{row} * per_row;
    select(row_logits, experts, per_row, order, chosen);
    for (int32_t j = 0; j < per_row; ++j) {
      route.weight[static_cast<size_t>(row * per_row + j)] = sigmoid(row_logits[chosen[j]]);
      ++route.first[static_cast<size_t>(chosen[j]) + 1];
    }
  }
  route.hit = 0;
  for (int32_t e = 0; e < experts; ++e) {
    route.hit += route.first[static_cast<size_t>(e) + 1] > 0;
    route.first[static_cast<size_t>(e) + 1] += route.first[static_cast<size_t>(e)];
  }
  std::vector<int32_t> next(route.first.begin(), route.first.end() - 1);
  for (int32_t pair = 0; pair < static_cast<int32_t>(pairs); ++pair)
    route.pair[static_cast<size_t>(next[static_cast<size_t>(route.expert[static_cast<size_t>(pair)])]++)] = pair;
  context.worker.experts_hit += route.hit;
}

}  // namespace boreas::cpu
