// The page tables of all sequence slots on the device, and what the host last wrote there: a step copies only what has
// changed, which is nothing in most decode steps.
//
//   slot 0: [entries_full | entries_sliding]   slot 1: ...      int32 page ids
//
// The first part holds page j of the sequence at j, the second the pages from the first one that a query of the range
// can see on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/cuda/device.h"
#include "exec/executor.h"

namespace boreas::cuda {

class PageTables {
 public:
  PageTables() = default;
  // Entries of a slot in either part; 0: the model has no such layers. window: as ExecutorInfo.
  PageTables(int32_t slots, int32_t entries_full, int32_t entries_sliding, int32_t window);

  size_t bytes() const { return mirror_.size() * sizeof(int32_t); }
  void set_memory(std::byte* device) { device_ = device; }  // bytes(), zeroed

  struct Place {  // of a row, as RowPlan wants it
    int32_t full = 0, sliding = 0, sliding_first = 0;
  };
  // Makes the tables of row.slot those of the row, in stream order.
  Result<Place> update(Device& device, const StepRow& row);

 private:
  Status write(Device& device, size_t first, std::span<const PageId> pages);

  int32_t entries_full_ = 0, entries_sliding_ = 0, window_ = 0;
  std::vector<int32_t> mirror_;
  std::byte* device_ = nullptr;
};

}  // namespace boreas::cuda
