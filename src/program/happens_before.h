// Vector clocks over the lanes of a program: one lane a (worker, role), and one for the host. Component l of a clock is
// how many tasks of lane l are known to be finished. Used by verify.cc only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace boreas {

// A point in a lane: its `index`-th task (counted from 1 over all unrolled steps) is finished.
struct Event {
  int32_t lane = -1;
  int32_t index = 0;
};

class ClockTable {
 public:
  ClockTable(int32_t clocks, int32_t lanes)
      : width_((lanes + kGroup - 1) / kGroup * kGroup),
        data_(static_cast<size_t>(clocks) * static_cast<size_t>(width_)) {}

  int32_t* clock(int32_t index) { return data_.data() + static_cast<size_t>(index) * static_cast<size_t>(width_); }
  const int32_t* clock(int32_t index) const {
    return data_.data() + static_cast<size_t>(index) * static_cast<size_t>(width_);
  }
  int32_t width() const { return width_; }

  // width is a multiple of kGroup.
  static void join(int32_t* into, const int32_t* from, int32_t width) {
    for (int32_t base = 0; base < width; base += kGroup) {
      Group a, b;
      __builtin_memcpy(&a, into + base, sizeof(Group));
      __builtin_memcpy(&b, from + base, sizeof(Group));
      a = a > b ? a : b;
      __builtin_memcpy(into + base, &a, sizeof(Group));
    }
  }
  // First component in which `clock` is behind `required`, or -1: it covers all of it.
  static int32_t first_uncovered(const int32_t* clock, const int32_t* required, int32_t width) {
    for (int32_t base = 0; base < width; base += kGroup) {
      int32_t behind = 0;
      for (int32_t i = 0; i < kGroup; ++i) behind |= clock[base + i] - required[base + i];
      if (behind >= 0) continue;
      for (int32_t i = base; i < base + kGroup; ++i)
        if (clock[i] < required[i]) return i;
    }
    return -1;
  }
  static bool covers(const int32_t* clock, const Event& event) {
    return event.lane < 0 || clock[event.lane] >= event.index;
  }

 private:
  static constexpr int32_t kGroup = 8;
  typedef int32_t Group __attribute__((vector_size(kGroup * sizeof(int32_t))));  // two SSE2 registers
  int32_t width_;
  std::vector<int32_t> data_;
};

}  // namespace boreas
