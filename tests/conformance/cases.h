// What a cases file needs: machines and random inputs to sweep over, plain double arithmetic that carries its own error
// bounds, and comparison. Each <op>_cases.cc defines check_<enumerator>(backend); an op without one does not link.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/prng.h"
#include "program/op_list.h"
#include "tests/conformance/backend.h"

namespace boreas::conformance {

#define BOREAS_DECLARE_CASES(enumerator, contract, name, role) void check_##enumerator(Backend& backend);
BOREAS_OPS(BOREAS_DECLARE_CASES)
#undef BOREAS_DECLARE_CASES

// ---- sweep
// Shapes with odd and even widths, more heads than workers and fewer, long reductions; 1, 3, 16 and 128 workers, so
// that slices are uneven or empty; 1 to 40 rows. Layers of every shape: 0 dense, sliding, RoPE; 1 routed, sliding,
// RoPE; 2 routed, full, no position encoding; 3 dense, full, RoPE.
constexpr int32_t kSweepLayers = 4;

struct Scenario {
  const Machine& machine;
  int32_t rows;
  Prng& prng;
  std::string name;
  const ModelConfig& config() const { return machine.config(); }
  size_t values(int64_t per_row) const { return static_cast<size_t>(rows * per_row); }
};
// The seed is printed with every failure.
void for_each_scenario(uint64_t seed, const std::function<void(Scenario&)>& body);
// Without rows of its own: 1, 3, 16, 128 workers of every shape, rows_max as given.
void for_each_machine(int32_t rows_max, const std::function<void(const Machine&)>& body);

// `rows` tokens of several sequences, some drawing a token, some not. No page tables.
Step random_step(Scenario& scenario);
// bf16 values in [-scale, scale), some of them 0 or tiny.
std::vector<float> random_values(Prng& prng, size_t count, float scale = 1);
// Distinct experts of each row, ascending, with weights in (0, 1).
std::vector<float> random_routes(Scenario& scenario);
// The slot that holds the routes of a layer.
Slot route_slot(const Machine& machine, int32_t layer);

// ---- arithmetic
// A value and how far an fp32 computation of it may be off.
struct Bounded {
  double value = 0;
  double error = 0;
};
constexpr double kFp32Unit = 0x1p-24;  // relative error of one rounding

// n roundings one after the other, relative.
inline double roundings(double n) { return n * kFp32Unit / (1 - n * kFp32Unit); }
// The sum of w[i] * x[i]; products of bf16 values are exact in fp32, so only additions round.
Bounded dot(const Backend& backend, const bf16* w, std::span<const float> x);
// Rounded once to bf16: half a unit of the last of 8 bits.
Bounded to_bf16(const Bounded& x);
double sigmoid(double x);
// Of the power e^-|x|: its exponent x log2(e) is rounded twice, which it magnifies by |x|; its polynomial is good to a
// few units (12 allowed). Then an addition and a division. Below 2^-126 it stays there.
Bounded sigmoid(const Bounded& x);

inline double as_double(bf16 x) { return double{bf16_to_float(x)}; }

// ---- comparison
// `got` against a bound a value, and exactly, bit for bit. A failure names the array and the first value that is off.
void expect_near(std::span<const float> got, std::span<const Bounded> want, const std::string& what);
void expect_equal(std::span<const float> got, std::span<const float> want, const std::string& what);
// What has been compared since the last call: a check that compares nothing is a failure.
struct Compared {
  int64_t values = 0;
  double worst = 0;  // largest deviation, in units of its bound
};
Compared take_compared();

}  // namespace boreas::conformance
