#include "engine/queue_pace.h"

#include <algorithm>

namespace boreas {

void QueuePace::observe(int64_t now_ns, bool must_wait, int64_t left) {
  if (!must_wait || !must_wait_) begin_ = next_ = {now_ns, left};
  if (now_ns - next_.ns >= kWindowNs / 2) {
    begin_ = next_;
    next_ = {now_ns, left};
  }
  must_wait_ = must_wait;
  left_ = left;
}

int64_t QueuePace::retry_after_ms(int64_t now_ns, int64_t waiting) const {
  const auto elapsed_ms = static_cast<double>(std::max<int64_t>(now_ns - begin_.ns, 0)) / 1e6;
  const double wait_ms = elapsed_ms * static_cast<double>(waiting + 1) / static_cast<double>(left_ - begin_.left + 1);
  return static_cast<int64_t>(std::clamp(wait_ms, double{kRetryMsMin}, double{kRetryMsMax}));
}

}  // namespace boreas
