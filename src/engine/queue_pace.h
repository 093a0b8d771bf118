// QueuePace: how long a request that is refused now should stay away: about as long as it would have waited in the
// queue. The Engine asks it when the queue is full and tells it after every step how many requests have left the queue.
//
//   time = requests that wait, the refused one included, * time since an earlier moment / (requests that left since +
//   1)
//
// The moment is about kWindowNs ago, but not before all places were taken: what starts at once says nothing about the
// queue. The + 1 stands for the next one, so that there is an answer before any has left.
#pragma once

#include <cstdint>

namespace boreas {

class QueuePace {
 public:
  static constexpr int64_t kWindowNs = int64_t{30} * 1'000'000'000;
  // Clients must not come back at once, and the usual ones ignore more than a minute.
  static constexpr int64_t kRetryMsMin = 1'000;
  static constexpr int64_t kRetryMsMax = 60'000;

  // The first request after a time in which there was none: that time does not count.
  void begin(int64_t now_ns) { begin_ = next_ = {now_ns, left_}; }
  // must_wait: a request that came now could not start at once. left: requests that have left the queue so far.
  void observe(int64_t now_ns, bool must_wait, int64_t left);
  // waiting: requests before the refused one. Within the limits above.
  int64_t retry_after_ms(int64_t now_ns, int64_t waiting) const;

 private:
  struct Moment {
    int64_t ns = 0;
    int64_t left = 0;
  };
  Moment begin_;  // the window's
  Moment next_;   // the beginning of the window to come
  int64_t left_ = 0;
  bool must_wait_ = false;
};

}  // namespace boreas
