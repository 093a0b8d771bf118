// The way of engine events to the I/O thread. The engine thread drops them here while it carries out a step and wakes
// the I/O thread once at the end of it, however many streams the step fed.
//
// Shared by the sinks of all live requests, so it outlives the server if the engine does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace boreas {

struct InboxItem {
  uint64_t generation = 0;  // Serving's key
  int32_t prompt = 0;       // which of its engine requests
  TokenEvent event;
};

class EventInbox : public std::enable_shared_from_this<EventInbox> {
 public:
  // Both are called from the engine thread: wake at most once until the next take(), fault with the executor's words.
  EventInbox(std::function<void()> wake, std::function<void(const std::string&)> fault)
      : wake_(std::move(wake)), fault_(std::move(fault)) {}

  EventSink sink(uint64_t generation, int32_t prompt);
  void step_done();                               // the engine's step hook
  void report_fault(const std::string& message);  // the engine's fault hook
  // I/O thread: everything so far, in order. `items` is swapped in, so that its memory is used again.
  void take(std::vector<InboxItem>& items);
  // Nobody listens any more: events are dropped, nothing is woken.
  void close();

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::function<void(const std::string&)> fault_;
  std::vector<InboxItem> items_;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace boreas
