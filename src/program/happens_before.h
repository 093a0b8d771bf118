// Vector clocks over the lanes of a program: one lane a (worker, role), and one for the host. Component l of a clock is
// how many tasks of lane l are known to be finished. Used by verify.cc only.
//
// Components are 16 bits wide: a proof moves a few hundred MB of clocks, and baseline x86-64 has a maximum of signed
// 16-bit lanes in one instruction. verify_structure.cc bounds the lists so that no count overflows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace boreas {

using ClockValue = int16_t;

// A point in a lane: its `index`-th task (counted from 1 over all unrolled steps) is finished.
struct Event {
  int32_t lane = -1;
  int32_t index = 0;
};

// Clocks of equal width, side by side in memory.
class ClockTable {
 public:
  ClockTable() = default;
  ClockTable(size_t clocks, int32_t lanes)
      : width_((lanes + kGroup - 1) / kGroup * kGroup), data_(clocks * static_cast<size_t>(width_)) {}

  ClockValue* clock(size_t index) { return data_.data() + index * static_cast<size_t>(width_); }
  const ClockValue* clock(size_t index) const { return data_.data() + index * static_cast<size_t>(width_); }
  int32_t width() const { return width_; }
  void clear(size_t index) { std::fill_n(clock(index), width_, ClockValue{0}); }

  // width is a multiple of kGroup.
  static void join(ClockValue* into, const ClockValue* from, int32_t width) {
    for (int32_t base = 0; base < width; base += kGroup) {
      Group a, b;
      std::memcpy(&a, into + base, sizeof(Group));
      std::memcpy(&b, from + base, sizeof(Group));
      a = a > b ? a : b;
      std::memcpy(into + base, &a, sizeof(Group));
    }
  }
  // First component in which `clock` is behind `required`, or -1: it covers all of it.
  static int32_t first_uncovered(const ClockValue* clock, const ClockValue* required, int32_t width) {
    Group behind = {};
    for (int32_t base = 0; base < width; base += kGroup) {
      Group a, b;
      std::memcpy(&a, clock + base, sizeof(Group));
      std::memcpy(&b, required + base, sizeof(Group));
      behind |= a < b;
    }
    int64_t any[sizeof(Group) / sizeof(int64_t)];
    std::memcpy(any, &behind, sizeof(Group));
    int64_t bits = 0;
    for (int64_t part : any) bits |= part;
    if (bits == 0) return -1;
    for (int32_t i = 0; i < width; ++i)
      if (clock[i] < required[i]) return i;
    return -1;
  }
  static bool covers(const ClockValue* clock, const Event& event) {
    return event.lane < 0 || clock[event.lane] >= event.index;
  }

 private:
  static constexpr int32_t kGroup = 8;
  typedef ClockValue Group __attribute__((vector_size(kGroup * sizeof(ClockValue))));  // one SSE2 register
  int32_t width_ = 0;
  std::vector<ClockValue> data_;
};

}  // namespace boreas
