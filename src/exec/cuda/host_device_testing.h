// A Device in host memory, for tests without a GPU: copies and scatters are done plainly, the kernel is a function that
// the test gives (a made-up one, or the real source run by tests/emulation). As on a GPU, work is queued and done only
// when somebody waits, so that code which looks too early, or reuses memory too early, is found out. Only tests include
// this.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "exec/cuda/deadlines.h"
#include "exec/cuda/device.h"
#include "exec/cuda/dummy_values.h"

namespace boreas::cuda {

// Makes prefill kernels that hand their work to `enqueue`, which does it in the device's order.
using HostPrefill = std::function<Result<std::unique_ptr<prefill::PrefillKernels>>(
    const ModelConfig& config, int32_t workers, std::function<Status(std::function<Status()>)> enqueue)>;

// One segment of a step, of all workers.
using HostSegmentKernel =
    std::function<Status(size_t shared_bytes, const StepParams& params, const SegmentParams& segment)>;

struct HostDeviceOptions {
  std::string name = "host memory";
  int32_t processors = 128;
  int64_t memory_bytes = int64_t{2} << 30;  // more than the plan keeps in reserve
  bool deferred = true;                     // false: everything is done at once
  HostPrefill prefill_kernels;              // none: prompts take the step's kernel
  HostSegmentKernel segment_kernel;         // none: a step is one kernel
};

// What the tests look at; outlives the device, which the executor owns.
struct HostDeviceLog {
  int64_t launches = 0;
  int64_t segments = 0;  // of launches in segments
  int64_t copies_in = 0, bytes_in = 0;
  int64_t fills = 0;
  int64_t washes = 0;
  std::vector<std::pair<std::string, size_t>> allocations;  // what, bytes
  DeviceMemory cached;
  StepParams last_params{};
  std::vector<std::chrono::nanoseconds> wait_limits;  // of wait()
  // From now on nothing that is enqueued is ever done: waits end by their limits, which are not waited for.
  bool hangs = false;
  // When set, the next work that is done fails with it, and all that follows.
  std::string fault;
};

using HostKernel = std::function<Status(const std::string& shape_name, int32_t workers, size_t shared_bytes,
                                        const StepParams& params)>;

class HostDevice final : public Device {
 public:
  HostDevice(const HostDeviceOptions& options, HostKernel kernel, std::shared_ptr<HostDeviceLog> log)
      : options_(options), kernel_(std::move(kernel)), log_(std::move(log)), memory_free_(options.memory_bytes) {}

  const std::string& name() const override { return options_.name; }
  int32_t processors() const override { return options_.processors; }
  int64_t memory_free() const override { return memory_free_; }

  Result<DeviceMemory> allocate(size_t bytes, const std::string& what) override {
    if (static_cast<int64_t>(bytes) > memory_free_)
      return Error{"no memory for " + what + ": " + std::to_string(bytes) + " bytes asked for, " +
                   std::to_string(memory_free_) + " free"};
    memory_free_ -= static_cast<int64_t>(bytes);
    DeviceMemory memory = take(bytes, what);
    memory.host = nullptr;
    return memory;
  }
  Result<DeviceMemory> allocate_mapped(size_t bytes, const std::string& what) override { return take(bytes, what); }

  Status copy_in(std::byte* to, std::span<const std::byte> from) override {
    ++log_->copies_in;
    log_->bytes_in += static_cast<int64_t>(from.size());
    return enqueue([to, bytes = std::vector<std::byte>(from.begin(), from.end())] {
      std::memcpy(to, bytes.data(), bytes.size());
      return Status(Ok{});
    });
  }
  Status copy_out(std::span<std::byte> to, const std::byte* from) override {
    RETURN_IF_ERROR(synchronize());
    std::memcpy(to.data(), from, to.size());
    return Ok{};
  }
  Status copy_within(std::byte* to, const std::byte* from, size_t bytes) override {
    return enqueue([to, from, bytes] {
      std::memcpy(to, from, bytes);
      return Status(Ok{});
    });
  }
  Status fill_zero(std::byte* to, size_t bytes) override {
    ++log_->fills;
    return enqueue([to, bytes] {
      std::memset(to, 0, bytes);
      return Status(Ok{});
    });
  }

  Result<std::span<std::byte>> begin_stage() override {
    if (log_->hangs && !queue_.empty()) return hung(kSynchronizeMax).error();
    // No more than what was enqueued before the last stage began.
    while (done_ < stage_begun_) RETURN_IF_ERROR(do_oldest());
    stage_begun_ = enqueued_;
    stage_ ^= 1;
    stages_[stage_].assign(kStageBytes, std::byte{0xee});
    return std::span<std::byte>(stages_[stage_]);
  }
  Status scatter_stage(size_t bytes, std::span<const StagedRows> tensors) override {
    CHECK(bytes <= kStageBytes);
    const std::byte* stage = stages_[stage_].data();
    return enqueue([stage, tensors = std::vector<StagedRows>(tensors.begin(), tensors.end())] {
      for (const StagedRows& rows : tensors) {
        CHECK(rows.values % kStageAlign == 0 && rows.places % kStageAlign == 0);
        scatter(rows.base, {reinterpret_cast<const RowPlace*>(stage + rows.places), static_cast<size_t>(rows.rows)},
                rows.columns, stage + rows.values);
      }
      return Status(Ok{});
    });
  }
  Status scatter_dummy(std::byte* base, std::span<const RowPlace> places, int32_t columns,
                       const std::string& tensor_name, int32_t exponent) override {
    const uint64_t hash = fnv1a_64(tensor_name.data(), tensor_name.size());
    std::vector<uint32_t> pairs(places.size() * static_cast<size_t>(columns) / 2);
    for (size_t i = 0; i < pairs.size(); i += kDummyBlock / 2) {
      const std::array<uint32_t, 4> words = dummy_bytes(hash, i / (kDummyBlock / 2));
      for (size_t pair = 0; pair < kDummyBlock / 2; ++pair)
        pairs[i + pair] = dummy_pair(exponent, words[pair / 2], static_cast<int32_t>(pair % 2));
    }
    scatter(base, places, columns, std::as_bytes(std::span(pairs)).data());
    return Ok{};
  }

  Status keep_cached(const DeviceMemory& memory) override {
    log_->cached = memory;
    return Ok{};
  }
  Status wash_cache() override {
    ++log_->washes;
    return Ok{};
  }

  Status launch_step(const std::string& shape_name, int32_t workers, size_t shared_bytes,
                     const StepParams& params) override {
    ++log_->launches;
    log_->last_params = params;
    return enqueue([this, shape_name, workers, shared_bytes, copy = std::make_shared<StepParams>(params)] {
      return kernel_(shape_name, workers, shared_bytes, *copy);
    });
  }

  bool runs_segments(const std::string&, int32_t) const override { return options_.segment_kernel != nullptr; }
  Status launch_segments(const std::string& shape_name, int32_t workers, size_t shared_bytes, const StepParams& params,
                         std::span<const SegmentParams> segments, bool dependent) override {
    if (!options_.segment_kernel)
      return Device::launch_segments(shape_name, workers, shared_bytes, params, segments, dependent);
    ++log_->launches;
    log_->segments += static_cast<int64_t>(segments.size());
    log_->last_params = params;
    return enqueue([this, shared_bytes, segments, copy = std::make_shared<StepParams>(params)]() -> Status {
      for (const SegmentParams& segment : segments)
        RETURN_IF_ERROR(options_.segment_kernel(shared_bytes, *copy, segment));
      return Status(Ok{});
    });
  }

  Result<std::unique_ptr<prefill::PrefillKernels>> make_prefill_kernels(const ModelConfig& config,
                                                                        int32_t workers) override {
    if (!options_.prefill_kernels) return std::unique_ptr<prefill::PrefillKernels>();
    return options_.prefill_kernels(config, workers, [this](std::function<Status()> work) { return enqueue(work); });
  }

  Status record(int32_t event) override {
    CHECK(event >= 0 && event < kEventsMax);
    ++recorded_[event];
    return enqueue([this, event] {
      ++happened_[event];
      return Status(Ok{});
    });
  }
  Status wait(int32_t event, std::chrono::nanoseconds limit) override {
    CHECK(event >= 0 && event < kEventsMax);
    log_->wait_limits.push_back(limit);
    if (log_->hangs && happened_[event] < recorded_[event]) return hung(limit);
    while (happened_[event] < recorded_[event]) RETURN_IF_ERROR(do_oldest());
    return Ok{};
  }
  Result<int64_t> elapsed_ns(int32_t from, int32_t to) override {
    CHECK(happened_[from] == recorded_[from] && happened_[to] == recorded_[to]);
    CHECK(happened_[from] > 0 && happened_[to] > 0);
    return int64_t{1};
  }
  Status synchronize(std::chrono::nanoseconds limit = kSynchronizeMax) override {
    if (log_->hangs && !queue_.empty()) return hung(limit);
    while (!queue_.empty()) RETURN_IF_ERROR(do_oldest());
    return Ok{};
  }

 private:
  using Work = std::function<Status()>;
  static constexpr size_t kStageBytes = size_t{256} << 10;

  static void scatter(std::byte* base, std::span<const RowPlace> places, int32_t columns, const std::byte* tensor) {
    for (size_t row = 0; row < places.size(); ++row)
      for (int32_t pair = 0; pair < columns / 2; ++pair)
        std::memcpy(base + pair_offset(places[row], pair),
                    tensor + (row * static_cast<size_t>(columns) / 2 + static_cast<size_t>(pair)) * 4, 4);
  }

  DeviceMemory take(size_t bytes, const std::string& what) {
    constexpr size_t kAlign = 1024;
    const size_t rounded = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
    std::byte* data = static_cast<std::byte*>(std::aligned_alloc(kAlign, rounded));
    CHECK(data != nullptr);
    std::memset(data, 0, rounded);
    blocks_.emplace_back(data, &std::free);
    log_->allocations.emplace_back(what, bytes);
    return {data, data, bytes};
  }

  Status hung(std::chrono::nanoseconds limit) {
    fault_ = not_done_within(options_.name, limit).message;
    return Error{fault_};
  }
  Status enqueue(Work work) {
    if (!fault_.empty()) return Error{fault_};
    queue_.push_back(std::move(work));
    ++enqueued_;
    return options_.deferred ? Status(Ok{}) : synchronize();
  }
  Status do_oldest() {
    if (!log_->fault.empty()) fault_ = log_->fault;
    if (!fault_.empty()) return Error{fault_};
    CHECK(!queue_.empty());
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    ++done_;
    const Status status = work();
    if (!status.ok()) fault_ = status.error().message;
    return status;
  }

  HostDeviceOptions options_;
  HostKernel kernel_;
  std::shared_ptr<HostDeviceLog> log_;
  int64_t memory_free_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> blocks_;
  std::deque<Work> queue_;
  int64_t enqueued_ = 0, done_ = 0, stage_begun_ = 0;  // works; how many there were when the last stage began
  std::vector<std::byte> stages_[2];
  int stage_ = 0;
  int64_t recorded_[kEventsMax] = {}, happened_[kEventsMax] = {};
  std::string fault_;
};

}  // namespace boreas::cuda
