// See cuda_device.h. One stream, in order. Every call binds the GPU to its thread first: the executor is made by one
// thread and used by another.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/prng.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/deadlines.h"
#include "exec/cuda/megakernel.h"
#include "exec/cuda/prefill/cuda_kernels.h"
#include "exec/cuda/relay.h"
#include "exec/cuda/staging.h"
#include "exec/cuda/step_graphs.h"

namespace boreas::cuda {
namespace {

constexpr int kRuntimeVersionMin = 13000;  // what this file is compiled for; drivers of branch 580 have it
constexpr int kCapabilityMajor = 9, kCapabilityMinor = 0;
constexpr size_t kSharedBytesNeeded = 227 * 1024;  // as h200_spec() promises to programs
// Four times the L2 cache of a Hopper chip; measured to bring it into its good state.
constexpr size_t kWashBytes = size_t{256} << 20;

Error error_of(const char* call, cudaError_t error) {
  return Error{std::string(call) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")"};
}

#define RETURN_IF_CUDA_ERROR(call)                                       \
  do {                                                                   \
    const cudaError_t cuda_error_ = (call);                              \
    if (cuda_error_ != cudaSuccess) return error_of(#call, cuda_error_); \
  } while (0)

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::span<const MegakernelEntry> kernels) : kernels_(kernels) {}
  ~CudaDevice() override {
    if (stream_ == nullptr) return;
    bind();
    cudaStreamSynchronize(stream_);
    graphs_.clear();
    for (cudaEvent_t event : events_)
      if (event != nullptr) cudaEventDestroy(event);
    for (void* memory : device_memory_) cudaFree(memory);
    for (void* memory : host_memory_) cudaFreeHost(memory);
    cudaStreamDestroy(stream_);
  }

  Status init(int32_t index) {
    RETURN_IF_ERROR(check_driver(index));
    index_ = index;
    cudaDeviceProp properties{};
    RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, index));
    processors_ = properties.multiProcessorCount;
    name_ = std::string(properties.name) + ", " + std::to_string(processors_) + " SMs";
    if (properties.major != kCapabilityMajor || properties.minor != kCapabilityMinor)
      return Error{"GPU " + std::to_string(index) + " (" + properties.name + ") has compute capability " +
                       std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                       ", this build needs 9.0 (Hopper: H100, H200)",
                   "device"};
    if (properties.sharedMemPerBlockOptin < kSharedBytesNeeded)
      return Error{name_ + " gives a block " + std::to_string(properties.sharedMemPerBlockOptin) +
                       " bytes of shared memory, the kernel needs " + std::to_string(kSharedBytesNeeded),
                   "device"};
    cached_bytes_max_ = static_cast<size_t>(properties.persistingL2CacheMaxSize);
    window_bytes_max_ = static_cast<size_t>(properties.accessPolicyMaxWindowSize);
    return make_context();
  }

  const std::string& name() const override { return name_; }
  int32_t processors() const override { return processors_; }
  int64_t memory_free() const override {
    bind();
    size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(free) : 0;
  }

  Result<DeviceMemory> allocate(size_t bytes, const std::string& what) override {
    bind();
    DeviceMemory memory;
    memory.bytes = bytes;
    void* pointer = nullptr;
    const cudaError_t error = cudaMalloc(&pointer, std::max<size_t>(bytes, 1));
    if (error != cudaSuccess) {
      cudaGetLastError();  // out of memory is not a fault
      return Error{"no memory for " + what + " on " + name_ + ": " + std::to_string(bytes) + " bytes asked for, " +
                   std::to_string(memory_free()) + " free (" + cudaGetErrorName(error) + ")"};
    }
    device_memory_.push_back(pointer);
    memory.device = static_cast<std::byte*>(pointer);
    RETURN_IF_ERROR(fill_zero(memory.device, bytes));
    return memory;
  }

  Result<DeviceMemory> allocate_mapped(size_t bytes, const std::string& what) override {
    bind();
    DeviceMemory memory;
    memory.bytes = bytes;
    void* host = nullptr;
    const cudaError_t error = cudaHostAlloc(&host, std::max<size_t>(bytes, 1), cudaHostAllocMapped);
    if (error != cudaSuccess)
      return Error{"no pinned host memory for " + what + ": " + std::to_string(bytes) + " bytes asked for (" +
                   cudaGetErrorName(error) + ")"};
    host_memory_.push_back(host);
    void* mapped = nullptr;
    RETURN_IF_CUDA_ERROR(cudaHostGetDevicePointer(&mapped, host, 0));
    std::memset(host, 0, bytes);
    memory.host = static_cast<std::byte*>(host);
    memory.device = static_cast<std::byte*>(mapped);
    return memory;
  }

  Status copy_in(std::byte* to, std::span<const std::byte> from) override {
    bind();
    while (!from.empty()) {
      Staging::Piece piece;
      RETURN_IF_CUDA_ERROR(staging_.take(from.size(), stream_, piece));
      std::memcpy(piece.host, from.data(), piece.bytes);
      RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to, piece.host, piece.bytes, cudaMemcpyHostToDevice, stream_));
      to += piece.bytes;
      from = from.subspan(piece.bytes);
    }
    return Ok{};
  }
  Status copy_out(std::span<std::byte> to, const std::byte* from) override {
    bind();
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_));
    RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    return Ok{};
  }
  Status copy_within(std::byte* to, const std::byte* from, size_t bytes) override {
    bind();
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
    return Ok{};
  }
  Status fill_zero(std::byte* to, size_t bytes) override {
    bind();
    RETURN_IF_CUDA_ERROR(cudaMemsetAsync(to, 0, bytes, stream_));
    return Ok{};
  }

  Result<std::span<std::byte>> begin_stage() override {
    bind();
    RETURN_IF_CUDA_ERROR(staging_.take(Staging::kHalfBytes, stream_, stage_));
    return std::span<std::byte>(stage_.host, stage_.bytes);
  }
  Status scatter_stage(size_t bytes, std::span<const StagedRows> tensors) override {
    bind();
    CHECK(bytes <= stage_.bytes);
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(stage_.device, stage_.host, bytes, cudaMemcpyHostToDevice, stream_));
    for (const StagedRows& rows : tensors) {
      RETURN_IF_CUDA_ERROR(launch_scatter(rows.base, reinterpret_cast<const RowPlace*>(stage_.device + rows.places),
                                          rows.rows, rows.columns, stage_.device + rows.values, stream_));
    }
    return Ok{};
  }

  Status scatter_dummy(std::byte* base, std::span<const RowPlace> places, int32_t columns,
                       const std::string& tensor_name, int32_t exponent) override {
    const uint64_t hash = fnv1a_64(tensor_name.data(), tensor_name.size());
    bind();
    constexpr size_t kRowsMax = Staging::kHalfBytes / sizeof(RowPlace);
    for (size_t first = 0; first < places.size(); first += kRowsMax) {
      const std::span<const RowPlace> some = places.subspan(first, std::min(kRowsMax, places.size() - first));
      Staging::Piece piece;
      RETURN_IF_CUDA_ERROR(staging_.take(some.size_bytes(), stream_, piece));
      std::memcpy(piece.host, some.data(), some.size_bytes());
      RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(piece.device, piece.host, piece.bytes, cudaMemcpyHostToDevice, stream_));
      RETURN_IF_CUDA_ERROR(launch_dummy(base, reinterpret_cast<const RowPlace*>(piece.device),
                                        static_cast<int32_t>(first), static_cast<int32_t>(some.size()), columns, hash,
                                        exponent, stream_));
    }
    return Ok{};
  }

  Status keep_cached(const DeviceMemory& memory) override {
    bind();
    const size_t bytes = std::min({memory.bytes, cached_bytes_max_, window_bytes_max_});
    if (bytes == 0) return Ok{};  // a device that cannot: only slower
    RETURN_IF_CUDA_ERROR(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes));
    window_.base_ptr = memory.device;
    window_.num_bytes = bytes;
    window_.hitRatio = 1.0f;
    window_.hitProp = cudaAccessPropertyPersisting;
    window_.missProp = cudaAccessPropertyStreaming;
    cudaLaunchAttributeValue value{};
    value.accessPolicyWindow = window_;
    RETURN_IF_CUDA_ERROR(cudaStreamSetAttribute(stream_, cudaLaunchAttributeAccessPolicyWindow, &value));
    return Ok{};
  }

  Status wash_cache() override {
    bind();
    void* memory = nullptr;
    RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, kWashBytes));
    const cudaError_t error = cudaMemsetAsync(memory, 0, kWashBytes, stream_);
    const cudaError_t freed = cudaFree(memory);  // waits for the device
    if (error != cudaSuccess) return error_of("cudaMemsetAsync of the cache wash", error);
    RETURN_IF_CUDA_ERROR(freed);
    return Ok{};
  }

  Status launch_step(const std::string& shape_name, int32_t workers, size_t shared_bytes,
                     const StepParams& params) override {
    bind();
    const MegakernelEntry* found = find_kernels(shape_name, workers);
    if (found == nullptr)
      return Error{"this build has no kernel for shape " + shape_name + " on " + std::to_string(workers) + " workers"};
    const void* kernel = (params.task_times == nullptr ? found->plain : found->traced).of(params);
    RETURN_IF_ERROR(prepare(*found, kernel, shared_bytes));
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(workers));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream_;
    void* arguments[] = {const_cast<StepParams*>(&params)};
    RETURN_IF_CUDA_ERROR(cudaLaunchKernelExC(&config, kernel, arguments));
    return Ok{};
  }

  bool runs_segments(const std::string& shape_name, int32_t workers) const override {
    const MegakernelEntry* found = find_kernels(shape_name, workers);
    return found != nullptr && found->sliced_any_rows.kernel != nullptr;
  }
  Status launch_segments(const std::string& shape_name, int32_t workers, size_t shared_bytes, const StepParams& params,
                         std::span<const SegmentParams> segments, bool dependent) override {
    bind();
    const MegakernelEntry* found = find_kernels(shape_name, workers);
    CHECK(runs_segments(shape_name, workers));
    const SlicedKernel sliced = found->sliced_of(params.rows);
    RETURN_IF_ERROR(prepare(*found, sliced.kernel, shared_bytes));
    Staging::Piece piece;
    RETURN_IF_CUDA_ERROR(staging_.take(sizeof(StepParams), stream_, piece));
    std::memcpy(piece.host, &params, sizeof(StepParams));
    RETURN_IF_CUDA_ERROR(
        cudaMemcpyToSymbolAsync(sliced.step, piece.host, sizeof(StepParams), 0, cudaMemcpyHostToDevice, stream_));
    RETURN_IF_CUDA_ERROR(graphs_.launch({sliced.kernel, workers, shared_bytes, segments, dependent, window_}, stream_));
    return Ok{};
  }

  Result<std::unique_ptr<prefill::PrefillKernels>> make_prefill_kernels(const ModelConfig& config,
                                                                        int32_t workers) override {
    bind();
    return make_cuda_prefill_kernels(config, workers, stream_);
  }

  Status record(int32_t event) override {
    bind();
    CHECK(event >= 0 && event < kEventsMax);
    RETURN_IF_CUDA_ERROR(cudaEventRecord(events_[event], stream_));
    return Ok{};
  }
  Status wait(int32_t event, std::chrono::nanoseconds limit) override {
    CHECK(event >= 0 && event < kEventsMax);
    return poll(limit, [&] { return cudaEventQuery(events_[event]); });
  }
  Result<int64_t> elapsed_ns(int32_t from, int32_t to) override {
    bind();
    float milliseconds = 0;
    RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, events_[from], events_[to]));
    return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
  }
  Status synchronize(std::chrono::nanoseconds limit) override {
    return poll(limit, [&] { return cudaStreamQuery(stream_); });
  }

 private:
  // A thread's GPU is bound once; errors show in the call that follows.
  void bind() const {
    thread_local int32_t bound = -1;
    if (bound == index_) return;
    if (cudaSetDevice(index_) == cudaSuccess) bound = index_;
  }

  static Status check_driver(int32_t index) {
    int driver = 0;
    cudaError_t error = cudaDriverGetVersion(&driver);
    if (error != cudaSuccess || driver == 0) return Error{"no NVIDIA driver found; use --device cpu", "device"};
    if (driver < kRuntimeVersionMin)
      return Error{"the NVIDIA driver is too old: it supports CUDA " + version_text(driver) + ", this build needs " +
                       version_text(kRuntimeVersionMin) + " (driver 580 or newer)",
                   "device"};
    int count = 0;
    error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
      Error problem = error_of("cudaGetDeviceCount", error);
      return Error{"no usable GPU: " + problem.message, "device"};
    }
    if (index < 0 || index >= count)
      return Error{"there is no GPU " + std::to_string(index) + "; this machine shows " + std::to_string(count),
                   "device"};
    return Ok{};
  }

  // The first calls that touch the device: here a busy one shows.
  Status make_context() {
    const cudaError_t error = cudaSetDevice(index_);
    if (error == cudaErrorDevicesUnavailable)
      return Error{name_ + " is busy: another process has it to itself (compute mode exclusive or prohibited)",
                   "device"};
    if (error == cudaErrorMemoryAllocation)
      return Error{name_ + " has no memory left for a context; see nvidia-smi for who uses it", "device"};
    if (error != cudaSuccess) return error_of("cudaSetDevice", error);
    RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (cudaEvent_t& event : events_) RETURN_IF_CUDA_ERROR(cudaEventCreate(&event));
    RETURN_IF_CUDA_ERROR(staging_.allocate());
    return Ok{};
  }

  // Null: this build has none.
  const MegakernelEntry* find_kernels(const std::string& shape_name, int32_t workers) const {
    for (const MegakernelEntry& entry : kernels_)
      if (entry.shape == shape_name && entry.workers == workers) return &entry;
    return nullptr;
  }

  // Once a kernel and size: more shared memory than the default, and all blocks at the same time, or the step would
  // wait for blocks that never start.
  Status prepare(const MegakernelEntry& entry, const void* kernel, size_t shared_bytes) {
    size_t& prepared = prepared_[kernel];
    if (prepared >= shared_bytes) return Ok{};
    RETURN_IF_CUDA_ERROR(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
    int blocks_per_processor = 0;
    RETURN_IF_CUDA_ERROR(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_processor, kernel, kThreads, shared_bytes));
    if (blocks_per_processor < 1 || entry.workers > processors_)
      return Error{"the kernel of shape " + std::string(entry.shape) + " cannot run on " + name_ + ": " +
                   std::to_string(entry.workers) + " blocks must run at once, " + std::to_string(blocks_per_processor) +
                   " fit an SM"};
    prepared = shared_bytes;
    return Ok{};
  }

  // Looks until it is done: a blocking wait would cost the wake-up of this thread in every step.
  template <class Query>
  Status poll(std::chrono::nanoseconds limit, const Query& query) const {
    bind();
    cudaError_t error = cudaErrorNotReady;
    const bool answered =
        look_until(limit, &std::chrono::steady_clock::now, [&] { return (error = query()) != cudaErrorNotReady; });
    if (!answered) return not_done_within(name_, limit);
    return error == cudaSuccess ? Status(Ok{}) : error_of("waiting for the GPU", error);
  }

  std::span<const MegakernelEntry> kernels_;
  int32_t index_ = 0, processors_ = 0;
  std::string name_;
  size_t cached_bytes_max_ = 0, window_bytes_max_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t events_[kEventsMax] = {};
  Staging staging_;
  Staging::Piece stage_;  // of begin_stage()
  StepGraphs graphs_;
  cudaAccessPolicyWindow window_{};  // of keep_cached(); kernels in graphs are told one by one
  std::vector<void*> device_memory_, host_memory_;
  std::map<const void*, size_t> prepared_;  // kernels and the shared memory they may have
};

}  // namespace

Result<std::unique_ptr<Device>> make_cuda_device(int32_t index, std::span<const MegakernelEntry> kernels) {
  auto device = std::make_unique<CudaDevice>(kernels);
  RETURN_IF_ERROR(device->init(index));
  return std::unique_ptr<Device>(std::move(device));
}

double memory_bytes_per_s(int32_t index) {
  int kilohertz = 0, bits = 0;
  if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, index) != cudaSuccess ||
      cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, index) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return 2.0 * kilohertz * 1e3 * bits / 8;  // two transfers a clock
}

}  // namespace boreas::cuda
