// What the CUDA executor needs of a device: memory, copies in stream order, and the step's kernel. Implementations:
// cuda_device.cu (a GPU), host_device_testing.h (host memory; tests/emulation runs the kernel's source in it), so that
// everything above this line is tested without a GPU. Used by one thread at a time. All work is in order, as in one
// CUDA stream; calls return before it is done unless they say otherwise. Every Error names the call and the device's
// reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "exec/cuda/prefill/kernels.h"
#include "exec/cuda/segment_params.h"
#include "exec/cuda/step_params.h"
#include "exec/cuda/weight_layout.h"
#include "model/model.h"

namespace boreas::cuda {

// Memory of the device, freed with the Device. Mapped memory is pinned host memory: both sides read and write it.
struct DeviceMemory {
  std::byte* device = nullptr;  // as kernels see it
  std::byte* host = nullptr;    // as the host sees it; null unless mapped
  size_t bytes = 0;
};

// Some rows of a tensor in a stage: row-major bf16, and a RowPlace for each row. Row r goes to base + places[r].offset,
// its pairs of columns to where pair_offset() says (weight_layout.h).
struct StagedRows {
  std::byte* base = nullptr;      // of the device
  size_t values = 0, places = 0;  // bytes from the stage's begin, multiples of kStageAlign
  int32_t rows = 0, columns = 0;  // columns: a multiple of 32
};
constexpr size_t kStageAlign = 16;

constexpr int32_t kEventsMax = 64;

class Device {
 public:
  virtual ~Device() = default;

  virtual const std::string& name() const = 0;  // "NVIDIA H200, 132 SMs"
  virtual int32_t processors() const = 0;       // SMs
  virtual int64_t memory_free() const = 0;      // bytes

  // Zeroed, aligned to 256 bytes. Error: how much was asked for and how much is free.
  virtual Result<DeviceMemory> allocate(size_t bytes, const std::string& what) = 0;
  virtual Result<DeviceMemory> allocate_mapped(size_t bytes, const std::string& what) = 0;

  // `from` may be reused when the call returns.
  virtual Status copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  // Waits until it is done.
  virtual Status copy_out(std::span<std::byte> to, const std::byte* from) = 0;
  // Either side may be mapped memory, by its device address.
  virtual Status copy_within(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual Status fill_zero(std::byte* to, size_t bytes) = 0;

  // A stage: host memory that the caller fills, at any rate 256 KB of it, for scatter_stage(). There are two, in turn:
  // waits until what came from the one before last has arrived.
  virtual Result<std::span<std::byte>> begin_stage() = 0;
  // Brings the stage's first `bytes` to the device and spreads tensors from there over the re-laid weights.
  virtual Status scatter_stage(size_t bytes, std::span<const StagedRows> tensors) = 0;
  // Spreads a dummy weight of [places.size(), columns] (model/dummy_weights.h), generated on the device. exponent:
  // dummy_exponent(role).
  virtual Status scatter_dummy(std::byte* base, std::span<const RowPlace> places, int32_t columns,
                               const std::string& tensor_name, int32_t exponent) = 0;

  // This memory stays in the cache from step to step, as far as the device can say so; one range at a time.
  virtual Status keep_cached(const DeviceMemory& memory) = 0;
  // Puts the cache into a known state: lines that other kernels left are never displaced by the weight stream.
  virtual Status wash_cache() = 0;

  // One step of the megakernel: `workers` blocks with so much shared memory. Error at once: no such kernel in this
  // build, or its blocks cannot all run at the same time.
  virtual Status launch_step(const std::string& shape_name, int32_t workers, size_t shared_bytes,
                             const StepParams& params) = 0;

  // Whether this build has the kernels of launch_segments() for the shape.
  virtual bool runs_segments(const std::string& /*shape_name*/, int32_t /*workers*/) const { return false; }
  // The same step as one kernel a segment, in order (segments.h); dependent: each begins while the one before still
  // runs. A program's segments stay where they are and as they are: a device may prepare them once. Only for shapes of
  // runs_segments().
  virtual Status launch_segments(const std::string& shape_name, int32_t /*workers*/, size_t /*shared_bytes*/,
                                 const StepParams& /*params*/, std::span<const SegmentParams> /*segments*/,
                                 bool /*dependent*/) {
    return Error{"this device runs no step of shape " + shape_name + " as several kernels"};
  }

  // For prompts (prefill/), over weights that lie as row_places(config, workers, ..) says; must not outlive the device.
  // Null: this device has none. Error: a shape that they cannot take, no memory.
  virtual Result<std::unique_ptr<prefill::PrefillKernels>> make_prefill_kernels(const ModelConfig& /*config*/,
                                                                                int32_t /*workers*/) {
    return std::unique_ptr<prefill::PrefillKernels>();
  }

  // Event 0 .. kEventsMax - 1 happens when everything enqueued so far is done; a number may be used again.
  virtual Status record(int32_t event) = 0;
  // Error: a fault of the device (the caller then reads the FaultRecord), or it takes longer than `limit`.
  virtual Status wait(int32_t event, std::chrono::nanoseconds limit) = 0;
  // Device time from one event to a later one; both have been waited for.
  virtual Result<int64_t> elapsed_ns(int32_t from, int32_t to) = 0;
  // Waits for everything. Errors as wait(). The default limit is for what happens before any step: weights.
  static constexpr std::chrono::seconds kSynchronizeMax{60};
  virtual Status synchronize(std::chrono::nanoseconds limit = kSynchronizeMax) = 0;
};

}  // namespace boreas::cuda
