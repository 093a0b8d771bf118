// When the tasks of a step ran: written by the traced kernels (Traced in shape.h), which are launched when
// StepParams::task_times is set; the others know nothing of it. Plain data, shared by host and device.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace boreas::cuda {

// Moments of a task, as the low half of its SM's clock. What each role means by them:
//
//             kReady            kLooked             kGot               kPublished
//   consumer  barriers passed   first chunk there   last chunk there   begins to publish
//     of one row                (of those that it had to wait for)
//   messenger barriers passed   first look at words last words there   -
//   router    the same
//   producer  barriers passed   first chunk landed  last chunk landed  first chunk issued
//
// kTaken is when the role was done with the task before; its first one: when it took that. kDone: the body has ended.
enum class Moment : int32_t { kTaken, kReady, kLooked, kGot, kPublished, kDone };
constexpr int32_t kMoments = 6;

struct alignas(16) TaskTimes {
  uint32_t at[kMoments];  // by Moment; 0: not reached
  uint32_t stalled;       // clocks that the role's first warp waited for chunks
  uint32_t late;          // and for the barrier that is waited for in the body (DownOp::late_barrier)
};
static_assert(sizeof(TaskTimes) == 32);

// A worker's clock against the clock that all of them share, and where it ran.
struct WorkerTimes {
  uint64_t nanoseconds_begin, nanoseconds_end;  // %globaltimer
  uint64_t clocks_begin, clocks_end;            // of the SM
  uint64_t processor;                           // number of the SM
};

// Of one launch. Spans are valid during the call.
struct LaunchTrace {
  int32_t rows = 0;
  int32_t rows_max = 0;              // of the program that ran: compile() with it gives tasks and list_first
  std::span<const TaskTimes> tasks;  // as Program::tasks
  std::span<const WorkerTimes> workers;
};
using TraceSink = std::function<void(const LaunchTrace&)>;

}  // namespace boreas::cuda
