// How far an implementation of the model may be from the FP32 oracle, derived from its roundings. Used by the golden
// tests of every executor and of the reference; validated there against the oracle's own BF16 run, which must fit.
//
// The model of an error. Every rounding gives a value an independent relative error with root mean square `unit`:
// BF16 keeps 8 significant bits, an error is uniform in +-2^-8 of the leading power of two, 0.85 * 2^-9 of the value in
// root mean square; unit = 2^-9. A dot product with independent weights passes a relative rms error on unchanged: it
// sums squares of terms above and below alike, whatever its length. So errors are counted in squares of `unit`, a stage
// each, relative to the rms of the row they end up in:
//
//   attention  6 linear stages: h (rounded twice, as the oracle does), v, probabilities, head outputs, the projection;
//              6 S^2 for the scores: S is the rms of the scores of the layer's loudest head, an error d on a score
//              moves the output by at most d and by about d / sqrt(2) (the part in which the keys differ); stages on q
//              and k: h twice, projection, RoPE table, rotation = 10; on scores: product, scale = 2.
//   MLP        12: gate and up each see both roundings of h (4), gate, up, silu, product, down, expert weight, sigmoid
//   (7),
//              and the sum over experts (1 and more, shared among experts of a half of the square each);
//              R^2 for the router, R the rms of its logits: 3 stages (h twice, logits) on a sigmoid whose relative
//              slope, 1 - s, is below 1/sqrt(3) in rms.
//   residual   2: one rounding an add.
//   input      a relative error e of a layer's input comes out of attention as (1 + S^2) e^2, out of the MLP as
//              (2 + R^2) e^2 (it enters gate and up). Measured by adding noise to the inputs of the goldens' layers:
//              1.7^2 at most for S = 1.4, 1.5^2 for R = 1.2.
//   logits     3: final norm twice, logits.
//
// An element may be off by kSigmas times the rms error of its row. Routing choices must be the same on both sides: the
// goldens' prompts are chosen so that they are (tools/make_golden/choose_prompts.py), but in the case "ties".
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/model.h"

namespace boreas {

// Root mean squares of one layer in the oracle's FP32 run.
struct LayerScale {
  double input = 0;      // the residual that enters
  double attention = 0;  // before the residual add
  double mlp = 0;        // before the residual add
  double residual = 0;   // after both adds
  double score = 0;      // S above
  double router = 0;     // R above, 0 for a dense layer
};

struct Arithmetic {
  double unit = 0;   // rms relative error of a stored value
  double angle = 0;  // rms error of a RoPE angle, radians
};

// Everything stored is BF16, sums are FP32. Angles are far more exact than their tables.
inline Arithmetic bf16_arithmetic() { return {.unit = 0x1p-9, .angle = 0}; }

// Everything is FP32. A sum of n products rounds n times, each time relative to what has been summed up by then: at
// most sqrt(n) 2^-24. An angle is position * frequency, each with a relative error of up to 2^-24 (the power that makes
// a frequency: 2^-24 more); the first pair turns by whole radians, exactly.
inline Arithmetic fp32_arithmetic(const ModelConfig& config, int64_t positions) {
  const int32_t length = std::max({config.hidden_size, config.query_width(), config.dense_width, config.expert_width});
  double squares = 0;
  for (int32_t i = 1; i < config.head_dim / 2; ++i) squares += std::pow(config.rope_theta, -4.0 * i / config.head_dim);
  return {.unit = 0x1p-24 * std::sqrt(static_cast<double>(length)),
          .angle = static_cast<double>(positions) * 0x1p-23 * std::sqrt(squares / (config.head_dim / 2))};
}

// Relative rms errors of a layer's outputs.
struct LayerError {
  double attention = 0;
  double mlp = 0;
  double residual = 0;
};

// What a layer adds if its input has the relative rms error `input_error` (0: both sides get the same input).
inline LayerError layer_error(const LayerScale& scale, const Arithmetic& arithmetic, double input_error = 0) {
  const auto square = [](double x) { return x * x; };
  const double unit = square(arithmetic.unit);
  const double score = square(scale.score);
  const double router = square(scale.router);
  const double before = square(input_error);
  const double attention = unit * (6 + 6 * score) + score * square(arithmetic.angle) + before * (1 + score);
  const double mlp = unit * (12 + router) + before * (2 + router);
  const double residual =
      (before * square(scale.input) + attention * square(scale.attention) + mlp * square(scale.mlp)) /
          square(scale.residual) +
      2 * unit;
  return {.attention = std::sqrt(attention), .mlp = std::sqrt(mlp), .residual = std::sqrt(residual)};
}

// Of every layer of a whole forward from the embedding, which is exact.
inline std::vector<LayerError> forward_error(std::span<const LayerScale> scales, const Arithmetic& arithmetic) {
  std::vector<LayerError> errors;
  for (const LayerScale& scale : scales) {
    errors.push_back(layer_error(scale, arithmetic, errors.empty() ? 0 : errors.back().residual));
  }
  return errors;
}

inline double logits_error(std::span<const LayerScale> scales, const Arithmetic& arithmetic) {
  const double residual = forward_error(scales, arithmetic).back().residual;
  return std::sqrt(residual * residual + 3 * arithmetic.unit * arithmetic.unit);
}

// A Gaussian is beyond 6 of its standard deviations once in 5e8; rows whose own error is above the layer's need the
// rest.
inline constexpr double kSigmas = 6;

inline double rms(std::span<const float> row) {
  double squares = 0;
  for (const float value : row) squares += double{value} * double{value};
  return std::sqrt(squares / static_cast<double>(row.size()));
}

// By how much an element of `expected` may be off.
inline double row_tolerance(std::span<const float> expected, double error) { return kSigmas * error * rms(expected); }

// The largest |actual - expected| of a row in units of its tolerance; above 1 is a failure. Not a number: infinite.
inline double row_ratio(std::span<const float> expected, std::span<const float> actual, double error) {
  CHECK(expected.size() == actual.size());
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double off = std::fabs(double{actual[i]} - double{expected[i]});
    if (!(off <= worst)) worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
  }
  return worst / row_tolerance(expected, error);
}

// The same over all rows of two [rows, cols] tensors.
inline double worst_ratio(std::span<const float> expected, std::span<const float> actual, int64_t cols, double error) {
  CHECK(expected.size() == actual.size());
  const size_t width = static_cast<size_t>(cols);
  double worst = 0;
  for (size_t at = 0; at < expected.size(); at += width) {
    worst = std::max(worst, row_ratio(expected.subspan(at, width), actual.subspan(at, width), error));
  }
  return worst;
}

// Two logits of a row change places only if they are nearer than this; in units of the rms of the row's logits.
inline double gap_tolerance(double error) { return kSigmas * std::sqrt(2.0) * error; }

}  // namespace boreas
