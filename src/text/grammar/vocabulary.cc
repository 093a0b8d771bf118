#include "text/grammar/vocabulary.h"

#include <utility>

namespace boreas::grammar {

MaskPointer MaskCache::find(const MaskKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->mask;
}

void MaskCache::add(MaskKey key, MaskPointer mask) {
  const std::lock_guard lock(mutex_);
  const auto [place, inserted] = by_key_.try_emplace(key);
  if (!inserted) return;
  entries_.push_front({std::move(key), std::move(mask)});
  place->second = entries_.begin();
  bytes_ += entries_.front().bytes();
  while (bytes_ > bytes_max_ && entries_.size() > 1) {
    bytes_ -= entries_.back().bytes();
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

size_t MaskCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace boreas::grammar
