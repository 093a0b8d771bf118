// A warp's view of its role's task list. The 32 words of a task lie one a lane; fields are broadcast by shuffles, and
// the next task is fetched while the current one runs, so that no task waits for global memory.
#pragma once

#include <cstddef>

#include "exec/cuda/ptx.cuh"
#include "program/layout.h"
#include "program/op_list.h"
#include "program/task.h"

namespace boreas::cuda {

struct Task {
  uint32_t lane_word = 0;
  int32_t index = 0;  // in the list

  BOREAS_DEVICE int32_t word(int32_t i) const { return static_cast<int32_t>(shuffle(lane_word, i)); }
  BOREAS_DEVICE int32_t op() const { return word(offsetof(TaskDesc, op) / 4); }
  BOREAS_DEVICE int32_t layer() const { return word(offsetof(TaskDesc, layer) / 4); }
  BOREAS_DEVICE HopWait wait() const {
    constexpr int32_t kAt = offsetof(TaskDesc, wait) / 4;
    return {word(kAt), word(kAt + 1), word(kAt + 2), word(kAt + 3)};
  }
  BOREAS_DEVICE HopPublish publish() const {
    constexpr int32_t kAt = offsetof(TaskDesc, publish) / 4;
    return {word(kAt), word(kAt + 1)};
  }
  BOREAS_DEVICE BarrierWait barrier(int32_t i) const {
    const int32_t at = static_cast<int32_t>(offsetof(TaskDesc, barriers) / 4) + 2 * i;
    return {word(at), word(at + 1)};
  }
  BOREAS_DEVICE int32_t arrive() const { return word(offsetof(TaskDesc, arrive) / 4); }
  BOREAS_DEVICE int32_t stream_unit_pieces() const { return word(offsetof(TaskDesc, stream_unit_pieces) / 4); }
  BOREAS_DEVICE int32_t arg(int32_t i) const { return word(static_cast<int32_t>(offsetof(TaskDesc, args) / 4) + i); }
};

class TaskReader {
 public:
  BOREAS_DEVICE TaskReader(const StepParams& params, int32_t worker, Role role, int32_t lane) : lane_(lane) {
    const int32_t list = worker * kRoles + static_cast<int32_t>(role);
    const int32_t first = static_cast<int32_t>(load_constant_32(params.list_first + list));
    end_ = static_cast<int32_t>(load_constant_32(params.list_first + list + 1)) - first;
    tasks_ = params.tasks + first;
    fetch();
  }
  // Of a list that begins at `list`, the tasks in `range`.
  BOREAS_DEVICE TaskReader(const TaskDesc* list, Range range, int32_t lane)
      : tasks_(list), end_(range.end()), next_(range.first), lane_(lane) {
    fetch();
  }
  // False at the end of the list.
  BOREAS_DEVICE bool take(Task& task) {
    if (next_ >= end_) return false;
    task.lane_word = ahead_;
    task.index = next_++;
    fetch();
    return true;
  }

 private:
  BOREAS_DEVICE void fetch() {
    if (next_ < end_) ahead_ = load_constant_32(reinterpret_cast<const uint32_t*>(tasks_ + next_) + lane_);
  }
  const TaskDesc* tasks_ = nullptr;
  int32_t end_ = 0, next_ = 0, lane_;
  uint32_t ahead_ = 0;
};

}  // namespace boreas::cuda
