// Matrix products of op bodies: a slice of a weight's rows against packed vectors. Counts the weight bytes it reads.
#pragma once

#include <span>
#include <vector>

#include "exec/cpu/state.h"

namespace boreas::cpu {

// y = [x.size(), rows.count]: y[t, r] = dot(weight row rows.first + r, x[t]). y is resized.
void multiply_rows(OpContext& context, const TensorView& weight, Range rows, std::span<const float* const> x,
                   std::vector<float>& y);

// Pointers to every row of the block in a slot of packed vectors of this width; valid until the next call (they live in
// the worker's scratch).
std::span<const float* const> rows_of(OpContext& context, const std::vector<float>& slot, int32_t width);
inline std::span<const float* const> normed_rows(OpContext& context) {
  return rows_of(context, context.worker.normed, context.config().hidden_size);
}

inline std::span<const int32_t> pairs_of_expert(const Route& route, int32_t expert) {
  const int32_t first = route.first[static_cast<size_t>(expert)], end = route.first[static_cast<size_t>(expert) + 1];
  return {route.pair.data() + first, static_cast<size_t>(end - first)};
}

}  // namespace boreas::cpu
