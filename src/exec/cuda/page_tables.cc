#include "exec/cuda/page_tables.h"

#include <algorithm>

#include "base/check.h"
#include "program/layout.h"

namespace boreas::cuda {

PageTables::PageTables(int32_t slots, int32_t entries_full, int32_t entries_sliding, int32_t window)
    : entries_full_(entries_full),
      entries_sliding_(entries_sliding),
      window_(window),
      mirror_(static_cast<size_t>(slots) * static_cast<size_t>(entries_full + entries_sliding)) {}

Result<PageTables::Place> PageTables::update(Device& device, const StepRow& row) {
  const int32_t end = row.position + std::max<int32_t>(1, static_cast<int32_t>(row.tokens.size()));
  const int32_t page_end = (end - 1) / kPagePositions + 1;
  Place place;
  place.full = row.slot * (entries_full_ + entries_sliding_);
  place.sliding = place.full + entries_full_;
  if (entries_full_ > 0) {
    CHECK(page_end <= entries_full_);
    RETURN_IF_ERROR(
        write(device, static_cast<size_t>(place.full), row.full_pages.first(static_cast<size_t>(page_end))));
  }
  if (entries_sliding_ > 0) {
    place.sliding_first = first_visible(row.position, true, window_) / kPagePositions;
    CHECK(place.sliding_first >= row.sliding_first && page_end - place.sliding_first <= entries_sliding_);
    RETURN_IF_ERROR(write(device, static_cast<size_t>(place.sliding),
                          row.sliding_pages.subspan(static_cast<size_t>(place.sliding_first - row.sliding_first),
                                                    static_cast<size_t>(page_end - place.sliding_first))));
  }
  return place;
}

Status PageTables::write(Device& device, size_t first, std::span<const PageId> pages) {
  const auto differs = [&](size_t i) { return mirror_[first + i] != pages[i].value; };
  size_t begin = 0, end = pages.size();
  while (begin < end && !differs(begin)) ++begin;
  while (end > begin && !differs(end - 1)) --end;
  if (begin == end) return Ok{};
  for (size_t i = begin; i < end; ++i) mirror_[first + i] = pages[i].value;
  const std::span<const int32_t> changed(mirror_.data() + first + begin, end - begin);
  return device.copy_in(device_ + (first + begin) * sizeof(int32_t), std::as_bytes(changed));
}

}  // namespace boreas::cuda
