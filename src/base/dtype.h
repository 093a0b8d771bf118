// Element types of tensors and the bfloat16 conversions everything shares. Rounding is to nearest, ties to even, as
// PyTorch and the GPU do.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace boreas {

enum class Dtype : uint8_t {
  kBF16,
  kF16,
  kF32,
  kF64,
  kI8,
  kU8,
  kI16,
  kI32,
  kI64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kU16,
  kU32,
  kU64
};

constexpr size_t dtype_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kI8:
    case Dtype::kU8:
    case Dtype::kBool:
    case Dtype::kF8E4M3:
    case Dtype::kF8E5M2:
      return 1;
    case Dtype::kBF16:
    case Dtype::kF16:
    case Dtype::kI16:
    case Dtype::kU16:
      return 2;
    case Dtype::kF32:
    case Dtype::kI32:
    case Dtype::kU32:
      return 4;
    case Dtype::kF64:
    case Dtype::kI64:
    case Dtype::kU64:
      return 8;
  }
  return 0;
}

// A bfloat16 value by its bits.
using bf16 = uint16_t;

constexpr float bf16_to_float(bf16 bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Round to nearest even; NaN stays a (quiet) NaN, infinity stays infinity.
constexpr bf16 float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<bf16>((bits >> 16) | 0x40u);
  return static_cast<bf16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float round_to_bf16(float value) { return bf16_to_float(float_to_bf16(value)); }

}  // namespace boreas
