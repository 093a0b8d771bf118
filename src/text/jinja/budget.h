// Budget: what one template (parse or render) may spend. Every operation charges steps, every live object charges
// bytes; going over raises a Fault, which parse and render turn into an Error. Faults are exceptions private to this
// folder: none leaves ChatTemplate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace boreas::jinja {

// A template's mistake, or a limit reached. `by_template` marks text that the template itself raised (raise_exception).
struct Fault {
  std::string message;
  int line = 0;  // 1-based; 0 = not known where it was thrown, the evaluator fills it in
  bool by_template = false;
};

[[noreturn]] inline void fail(std::string message) { throw Fault{std::move(message)}; }

class Budget {
 public:
  Budget(uint64_t steps, size_t live_bytes, size_t text_bytes)
      : steps_(steps), bytes_(live_bytes), text_bytes_max_(text_bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(uint64_t count = 1) {
    if (count > steps_) fail("the template runs too long: its step limit is spent");
    steps_ -= count;
  }
  // Work proportional to text: one step per 64 bytes, so that copying costs about what evaluating does.
  void step_bytes(size_t bytes) { step(1 + bytes / 64); }
  void take(size_t bytes) {
    if (bytes > bytes_) fail("the template needs too much memory: its limit of live values is spent");
    bytes_ -= bytes;
  }
  void give(size_t bytes) { bytes_ += bytes; }
  // Bounds one text under construction: the output, or a value being printed.
  void check_text(size_t bytes) const {
    if (bytes > text_bytes_max_)
      fail("the template's output is larger than " + std::to_string(text_bytes_max_) + " bytes");
  }

 private:
  uint64_t steps_;
  size_t bytes_;
  size_t text_bytes_max_;
};

}  // namespace boreas::jinja
