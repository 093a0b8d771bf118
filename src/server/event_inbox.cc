#include "server/event_inbox.h"

#include <utility>

namespace boreas {

EventSink EventInbox::sink(uint64_t generation, int32_t prompt) {
  return [inbox = shared_from_this(), generation, prompt](TokenEvent&& event) {
    const std::lock_guard lock(inbox->mutex_);
    if (!inbox->closed_) inbox->items_.push_back({generation, prompt, std::move(event)});
  };
}

void EventInbox::step_done() {
  const std::lock_guard lock(mutex_);
  if (closed_ || woken_ || items_.empty()) return;
  woken_ = true;
  wake_();
}

void EventInbox::report_fault(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (!closed_) fault_(message);
}

void EventInbox::take(std::vector<InboxItem>& items) {
  items.clear();
  const std::lock_guard lock(mutex_);
  items.swap(items_);
  woken_ = false;
}

void EventInbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  items_.clear();
}

}  // namespace boreas
