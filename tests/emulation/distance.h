// How far two executors' logits may be apart that round in other places. For the tests on the emulated device.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace boreas {

// Relative RMS distance.
inline double distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

// Both round about six vectors a layer to BF16 (norm, q and k, softmax weights, attention, inner, residual), each a
// relative error of at most 2^-9 that is independent of the others.
inline double bf16_distance(int32_t layers) { return std::sqrt(2.0 * 6 * layers) * std::ldexp(1.0, -9); }

}  // namespace boreas
