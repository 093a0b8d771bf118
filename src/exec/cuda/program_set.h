// The programs of all launch sizes on the device: compiled and proved once when the executor is made, all tasks in one
// allocation. A launch of r rows runs the smallest program that holds r.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/cuda/arm.h"
#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/device.h"
#include "exec/cuda/tuning.h"
#include "program/compile.h"

namespace boreas::cuda {

// Entries that a row needs in a worker's lists of page ids (shared_memory.h): the worker's attention pieces of all
// pages of a context, and of those that a window can reach.
struct PageListSizes {
  int32_t full = 0, sliding = 0;
};
PageListSizes page_list_sizes(const ModelConfig& config, int32_t workers, int32_t context_max);

class ProgramSet {
 public:
  // context_max: the longest that is wanted; the lists of page ids in shared memory may allow less. Error: a program
  // that does not verify or leaves no room for any list. cut: for launches in segments.
  static Result<ProgramSet> compile(const ModelConfig& config, const DeviceSpec& spec, const CompiledShape& shape,
                                    int32_t context_max, std::optional<KernelCut> cut = std::nullopt);
  int64_t bytes() const { return bytes_; }  // on the device
  // Once, before select(). Error: no device memory.
  Status upload(Device& device);

  int32_t context_max() const { return context_max_; }
  std::span<const uint32_t, kHops> hop_uses() const { return hop_uses_; }      // a step
  int32_t rows_max_of(int32_t rows) const { return entry_of(rows).rows_max; }  // of the program that so many rows run
  size_t tasks_of(int32_t rows) const { return entry_of(rows).task_count; }
  size_t tasks_max() const;
  // ---- with a cut
  int64_t kept_bytes() const;        // of device memory that segments need, for all workers of any program
  void set_kept(std::byte* device);  // that memory
  std::span<const SegmentParams> segments_of(int32_t rows) const { return entry_of(rows).segments; }
  // The program's part of the parameters, for a launch of so many rows; returns the bytes of shared memory.
  size_t select(int32_t rows, const CudaTuning& tuning, StepParams& params) const;

 private:
  struct Entry {
    int32_t rows_max = 0;
    int64_t tasks = 0, list_first = 0;  // where they begin in the allocation
    size_t task_count = 0;
    uint32_t slot_offset[kSlots] = {};
    uint32_t ring_offset = 0;
    ScratchMap scratch{};
    int32_t ring_chunks = 0, producers = 0;
    size_t shared_bytes = 0;
    std::vector<SegmentParams> segments;  // empty without a cut
  };
  const Entry& entry_of(int32_t rows) const;
  // spares: what is left of a block's shared memory becomes room for partial sums.
  Entry lay_out(const Program& program, const CompiledShape& shape, bool spares) const;
  Status shorten_lists(const ModelConfig& config, const CompiledShape& shape, const std::vector<Program>& programs);

  std::vector<Entry> entries_;    // by rows, ascending
  std::vector<std::byte> image_;  // of the allocation, until upload()
  int64_t bytes_ = 0;
  std::byte* device_ = nullptr;
  uint32_t hop_uses_[kHops] = {};
  PageListSizes lists_;
  int32_t context_max_ = 0;
  int32_t workers_ = 0;
  int32_t ring_chunks_min_ = 0;  // a multiple of the consumer groups
};

}  // namespace boreas::cuda
