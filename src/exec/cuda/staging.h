// Pinned memory through which everything that goes to the device passes, and device memory of the same size beside it
// for what a kernel spreads from there. Two halves in turn: one is filled while the other's copies run. A piece stays
// valid until the half is begun again, which waits for everything that was enqueued before the other half was begun.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "exec/cuda/deadlines.h"
#include "exec/cuda/device.h"

namespace boreas::cuda {

class Staging {
 public:
  static constexpr size_t kHalfBytes = size_t{64} << 20;
  static constexpr size_t kAlign = 256;

  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    for (cudaEvent_t event : done_)
      if (event != nullptr) cudaEventDestroy(event);
    if (host_ != nullptr) cudaFreeHost(host_);
    if (device_ != nullptr) cudaFree(device_);
  }

  cudaError_t allocate() {
    cudaError_t error = cudaMallocHost(reinterpret_cast<void**>(&host_), 2 * kHalfBytes);
    if (error == cudaSuccess) error = cudaMalloc(reinterpret_cast<void**>(&device_), 2 * kHalfBytes);
    for (cudaEvent_t& event : done_)
      if (error == cudaSuccess) error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    return error;
  }

  struct Piece {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    size_t bytes = 0;  // as many as were asked for, or what a half holds
  };
  // The next piece for work on this stream; at most `bytes`, and if that is more than a half: a whole half.
  cudaError_t take(size_t bytes, cudaStream_t stream, Piece& piece) {
    piece.bytes = std::min(bytes, kHalfBytes);
    if (used_ + piece.bytes > kHalfBytes) {
      cudaError_t error = cudaEventRecord(done_[half_], stream);
      half_ ^= 1;
      used_ = 0;
      if (error == cudaSuccess) error = wait(done_[half_]);
      if (error != cudaSuccess) return error;
    }
    const size_t first = static_cast<size_t>(half_) * kHalfBytes + used_;
    piece.host = host_ + first;
    piece.device = device_ + first;
    used_ = (used_ + piece.bytes + kAlign - 1) / kAlign * kAlign;
    return cudaSuccess;
  }

 private:
  // For work of steps ago, or of uploads: a device that does not get there hangs.
  static cudaError_t wait(cudaEvent_t event) {
    cudaError_t error = cudaErrorNotReady;
    const bool answered = look_until(Device::kSynchronizeMax, &std::chrono::steady_clock::now,
                                     [&] { return (error = cudaEventQuery(event)) != cudaErrorNotReady; });
    return answered ? error : cudaErrorLaunchTimeout;
  }

  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
  cudaEvent_t done_[2] = {};
  int half_ = 0;
  size_t used_ = 0;
};

}  // namespace boreas::cuda
