// Clock: time as a dependency, so that the engine runs under simulation with a virtual one. Monotonic nanoseconds since
// an arbitrary start.
#pragma once

#include <chrono>
#include <cstdint>

namespace boreas {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() const = 0;
};

class SteadyClock final : public Clock {
 public:
  int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Advances only when told to.
class VirtualClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }
  void advance_ns(int64_t delta_ns) { now_ns_ += delta_ns; }

 private:
  int64_t now_ns_ = 0;
};

}  // namespace boreas
