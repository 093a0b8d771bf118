// How long anybody waits for a launch before it is taken for hung: the kernel's waits (StepParams::deadline) and the
// host's for the device (Device::wait). All follow from predicted times, which take the memory's bandwidth by its clock
// and width and the data sheet's arithmetic for granted, times 20, at least 100 ms, times a scale for sanitizers.
//
//   who waits              for how long                      North on an H200, a launch of
//                                                            1 row at 8K   8 rows at 256K  8 rows at 387K
//   predicted              bytes / bandwidth                    1.5 ms          19 ms             24 ms
//   for a hop        D     20 * predicted, >= 100 ms            100 ms         378 ms            488 ms
//   else in a kernel W     4 D (signal.cuh)                     400 ms         1.5 s             2.0 s
//   the host         H     W + 100 ms, <= 1.2 s (or 2 D)        500 ms         1.2 s             1.2 s
//
// Somebody nearly always waits for a hop of whoever hangs, so D is what ends a hung step, and D / 16 to D / 8
// later, when others who wait in vain for a hop have said so, the record says where. Should no wait of the kernel
// end, the host's does. A server whose engine is dead answers for another 0.4 s, so that clients see why, and takes at
// most 0.2 s to end its streams (server.cc): 1.2 + 0.6 leave 0.2 s of the two seconds within which a hung kernel ends
// the process, for what it computes before it hangs and for the exit. Where H cuts W short, the kernel has had its say
// about hops already. A launch of which 2 D is more than 1.2 s (none of North is) is given up later.
//
// What a wait may span without anything being wrong:
//   a hop            the whole launch: the last worker to have anything to do waits from the first microsecond on. Not
//                    the launch before it: blocks begin when that is done. (Kernels that begin earlier, of the
//                    comparison arm, wait for the one before with griddepcontrol.wait, which has no deadline.)
//                    Not the load of a module, nor a stopped host: no kernel waits for the host.
//   else in a kernel the same; producers wait for consumers who wait for hops, so theirs are the longer ones.
//   the host         from when it begins to look, all that lies between the event before and this one: events are
//                    waited for in order, so that is one launch (never the other step in flight), the prefill of its
//                    plan if it is the plan's first, and copies of at most the staging memory (128 MB: some
//                    milliseconds). Modules are loaded within the calls that launch, before anybody looks. A process
//                    that was stopped meanwhile looks once more before it gives up (look_until).
//   both             a GPU that is shared with other processes in turns, or has its memory clock down: 20 times is for
//                    that. The kernel counts clocks, at the highest rate there is: a slower one waits longer.
//   both             random pauses of tests: the executor takes ten times as long then (kPausedScale).
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "exec/cuda/prefill/batch.h"
#include "exec/cuda/step_builder.h"
#include "exec/cuda/step_bytes.h"
#include "model/model.h"

namespace boreas::cuda {

constexpr double kPausedScale = 10;  // of deadlines in launches with StepParams::delay_seed

class Deadlines {
 public:
  using Time = std::chrono::nanoseconds;

  Deadlines() = default;
  // read_bytes_per_s: the device's; 0: unknown, deadlines are the shortest. prefill_tokens: of a batch at most.
  Deadlines(const ModelConfig& config, double read_bytes_per_s, int32_t prefill_tokens, double scale);

  Time of_hop_wait(const LaunchPlan& launch) const;
  // The host's, for a launch with nothing before it.
  Time of_launch(const LaunchPlan& launch) const;
  // What is added for a prefill before it. Its kernels wait for no other block, and give up after a second.
  Time of_prefill(std::span<const PrefillRange> ranges) const;

 private:
  double of_hop_wait_s(const LaunchPlan& launch) const;

  StepBytes bytes_;
  double read_bytes_per_s_ = 0, scale_ = 1;
  int32_t prefill_tokens_ = 1;
  double layer_operations_ = 0;  // of attention: a token and a key of one layer
  int32_t full_layers_ = 0, sliding_layers_ = 0, window_ = 0;
};

// What Device::wait() says when its limit is over.
Error not_done_within(const std::string& device, Deadlines::Time limit);

// As StepParams::deadline counts.
uint32_t coarse_clocks_of(Deadlines::Time time);

// Looks until look() says true; false: it did not for so long. now() is asked before each look, so whoever was stopped
// for longer than that still sees what was done meanwhile.
template <class Now, class Look>
bool look_until(Deadlines::Time limit, const Now& now, const Look& look) {
  const auto start = now();
  while (true) {
    const bool is_last = now() - start > limit;
    if (look()) return true;
    if (is_last) return false;
  }
}

}  // namespace boreas::cuda
