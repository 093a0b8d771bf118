#include "engine/host_pages.h"

#include <utility>

#include "base/check.h"

namespace boreas {

HostPages::HostPages(int64_t bytes_max, int64_t page_bytes_full, int64_t page_bytes_sliding)
    : bytes_max_(bytes_max), page_bytes_{page_bytes_full, page_bytes_sliding} {
  CHECK(bytes_max >= 0 && page_bytes_full >= 0 && page_bytes_sliding >= 0);
}

bool HostPages::room_for(int64_t pages_full, int64_t pages_sliding) const {
  const int64_t bytes =
      pages_full * page_bytes(PagePoolKind::kFull) + pages_sliding * page_bytes(PagePoolKind::kSliding);
  return bytes <= bytes_max_ - bytes_used_;
}

HostPageId HostPages::share(uint64_t version) {
  const HostPageId id = by_version_.at(version);
  ++entries_[static_cast<size_t>(id.value)].owners;
  return id;
}

HostPageId HostPages::add(PagePoolKind kind, uint64_t version) {
  CHECK(page_bytes(kind) <= bytes_max_ - bytes_used_);
  HostPageId id;
  if (entries_free_.empty()) {
    id = HostPageId(static_cast<int32_t>(entries_.size()));
    entries_.emplace_back();
  } else {
    id = entries_free_.back();
    entries_free_.pop_back();
  }
  bytes_used_ += page_bytes(kind);
  entries_[static_cast<size_t>(id.value)] = {make_buffer(kind), kind, 1, version};
  if (version != 0) CHECK(by_version_.emplace(version, id).second);
  return id;
}

// Spare buffers are kept, because touching memory for the first time costs more than the copy, but never beyond the
// bound.
std::unique_ptr<std::byte[]> HostPages::make_buffer(PagePoolKind kind) {
  auto& spare = spare_[static_cast<size_t>(kind)];
  if (!spare.empty()) {
    bytes_spare_ -= page_bytes(kind);
    std::unique_ptr<std::byte[]> buffer = std::move(spare.back());
    spare.pop_back();
    return buffer;
  }
  const PagePoolKind other = kind == PagePoolKind::kFull ? PagePoolKind::kSliding : PagePoolKind::kFull;
  auto& others = spare_[static_cast<size_t>(other)];
  while (bytes_used_ + bytes_spare_ > bytes_max_ && !others.empty()) {
    others.pop_back();
    bytes_spare_ -= page_bytes(other);
  }
  return std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(page_bytes(kind)));
}

void HostPages::release(HostPageId id) {
  Entry& entry = entries_[static_cast<size_t>(id.value)];
  CHECK(entry.owners > 0);
  if (--entry.owners > 0) return;
  if (entry.version != 0) by_version_.erase(entry.version);
  bytes_used_ -= page_bytes(entry.kind);
  bytes_spare_ += page_bytes(entry.kind);
  spare_[static_cast<size_t>(entry.kind)].push_back(std::move(entry.buffer));
  entry = Entry();
  entries_free_.push_back(id);
}

std::span<std::byte> HostPages::bytes(HostPageId id) {
  const Entry& entry = entries_[static_cast<size_t>(id.value)];
  CHECK(entry.owners > 0);
  return {entry.buffer.get(), static_cast<size_t>(page_bytes(entry.kind))};
}

}  // namespace boreas
