// HostPages: the content of swapped pages in host memory, bounded. The engine core fills and reads the buffers through
// the executor; one thread. A page that several preempted sequences share is stored once: the version of a cached page
// (prefix_cache.h) names its content.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "exec/executor.h"

namespace boreas {

using HostPageId = Id<struct HostPageTag, int32_t>;
constexpr HostPageId kNoHostPage{-1};

class HostPages {
 public:
  HostPages(int64_t bytes_max, int64_t page_bytes_full, int64_t page_bytes_sliding);

  // Whether so many pages more would fit.
  bool room_for(int64_t pages_full, int64_t pages_sliding) const;
  bool contains(uint64_t version) const { return by_version_.contains(version); }
  // The caller becomes another owner of a stored page.
  HostPageId share(uint64_t version);
  // A buffer to be filled by the caller, its first owner. There must be room. version: 0 = this content has no name.
  HostPageId add(PagePoolKind kind, uint64_t version);
  void release(HostPageId id);
  std::span<std::byte> bytes(HostPageId id);

  int64_t bytes_used() const { return bytes_used_; }
  int64_t bytes_max() const { return bytes_max_; }

 private:
  struct Entry {
    std::unique_ptr<std::byte[]> buffer;
    PagePoolKind kind = PagePoolKind::kFull;
    int32_t owners = 0;
    uint64_t version = 0;
  };
  int64_t page_bytes(PagePoolKind kind) const { return page_bytes_[static_cast<size_t>(kind)]; }
  std::unique_ptr<std::byte[]> make_buffer(PagePoolKind kind);

  const int64_t bytes_max_;
  const std::array<int64_t, 2> page_bytes_;  // by PagePoolKind
  std::vector<Entry> entries_;
  std::vector<HostPageId> entries_free_;
  std::unordered_map<uint64_t, HostPageId> by_version_;
  std::array<std::vector<std::unique_ptr<std::byte[]>>, 2> spare_;  // buffers of released pages, by PagePoolKind
  int64_t bytes_used_ = 0;
  int64_t bytes_spare_ = 0;
};

}  // namespace boreas
