// What tests compute in doubles from a checkpoint's weights, beside executors and the fp32 reference.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "model/model.h"

namespace boreas::plain {

using Vector = std::vector<double>;

// weight [rows, cols] times x [cols].
inline Vector multiply(const TensorView& weight, const Vector& x) {
  CHECK(weight.cols == static_cast<int64_t>(x.size()));
  Vector out(static_cast<size_t>(weight.rows));
  for (int64_t row = 0; row < weight.rows; ++row)
    for (size_t i = 0; i < x.size(); ++i)
      out[static_cast<size_t>(row)] += double{bf16_to_float(weight.bf16_row(row)[i])} * x[i];
  return out;
}

// RoPE of heads one after the other, neighbouring dims paired.
inline void rotate(const ModelConfig& config, int32_t position, Vector& x) {
  for (size_t i = 0; i < x.size(); i += 2) {
    const double pair = static_cast<double>(i % static_cast<size_t>(config.head_dim));
    const double angle = position * std::pow(config.rope_theta, -pair / config.head_dim);
    const double a = x[i], b = x[i + 1];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[i + 1] = b * std::cos(angle) + a * std::sin(angle);
  }
}

}  // namespace boreas::plain
