// Comparing what an implementation computes with the goldens; shared by the golden tests of the reference and of every
// executor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/golden/golden_file.h"

namespace boreas {

// Every case of the family, loaded once.
inline const std::vector<GoldenCase>& golden_cases() {
  static const auto* cases = [] {
    auto* loaded = new std::vector<GoldenCase>;
    for (const std::string& name : GoldenCase::names("cohere2_moe")) {
      auto result = GoldenCase::load("cohere2_moe", name);
      if (!result.ok()) {
        ADD_FAILURE() << result.error().message;
        continue;
      }
      loaded->push_back(std::move(result).value());
    }
    return loaded;
  }();
  return *cases;
}

inline bool has_ties(const GoldenCase& golden) { return golden.has("full.logits_other_expert"); }

// The worst row of `actual` in tolerances, where a row may instead agree with the same row of the tensor that holds the
// other side of an exact router tie.
inline double ratio_to(const GoldenCase& golden, const std::string& tensor, const std::string& other,
                       std::span<const float> actual, double error) {
  const GoldenTensor expected = golden.tensor(tensor);
  if (!golden.has(other)) return worst_ratio(expected.values, actual, expected.cols, error);
  const GoldenTensor alternative = golden.tensor(other);
  const size_t width = static_cast<size_t>(expected.cols);
  double worst = 0;
  for (int64_t row = 0; row < expected.rows; ++row) {
    const auto given = actual.subspan(static_cast<size_t>(row) * width, width);
    worst = std::max(
        worst, std::min(row_ratio(expected.row(row), given, error), row_ratio(alternative.row(row), given, error)));
  }
  return worst;
}

inline double ratio_to(const GoldenCase& golden, const std::string& tensor, std::span<const float> actual,
                       double error) {
  return ratio_to(golden, tensor, tensor + "_other_expert", actual, error);
}

inline std::span<const float> from_position(const std::vector<float>& values, int64_t position, int64_t cols) {
  return std::span<const float>(values).subspan(static_cast<size_t>(position * cols));
}

}  // namespace boreas
