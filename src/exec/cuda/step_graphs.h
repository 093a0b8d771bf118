// CUDA graphs of steps that are cut into kernels: one a program and way of launching, captured at its first launch and
// used again for every step. cuda_device.cu owns one; it must be gone before the stream is.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <span>
#include <tuple>

#include "exec/cuda/segment_params.h"
#include "exec/cuda/shape.h"

namespace boreas::cuda {

class StepGraphs {
 public:
  StepGraphs() = default;
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;
  ~StepGraphs() { clear(); }
  void clear() {
    for (auto& [key, graph] : graphs_) cudaGraphExecDestroy(graph);
    graphs_.clear();
  }

  // Every segment by `kernel`, one after the other; `window`: what stays in L2, if its size is not 0.
  struct Step {
    const void* kernel = nullptr;
    int32_t workers = 0;
    size_t shared_bytes = 0;
    std::span<const SegmentParams> segments;
    bool dependent = false;
    cudaAccessPolicyWindow window{};
  };
  cudaError_t launch(const Step& step, cudaStream_t stream) {
    cudaGraphExec_t& graph = graphs_[{step.kernel, step.segments.data(), step.dependent}];
    if (graph == nullptr)
      if (const cudaError_t error = capture(step, stream, graph); error != cudaSuccess) return error;
    return cudaGraphLaunch(graph, stream);
  }

 private:
  static cudaError_t capture(const Step& step, cudaStream_t stream, cudaGraphExec_t& made) {
    cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess) return error;
    for (const SegmentParams& segment : step.segments)
      if (error == cudaSuccess) error = launch_kernel(step, segment, stream);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);  // also after an error, or the stream is lost
    if (error == cudaSuccess) error = ended;
    if (error == cudaSuccess) error = cudaGraphInstantiate(&made, graph, 0);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return error == cudaSuccess ? cudaGraphUpload(made, stream) : error;
  }

  static cudaError_t launch_kernel(const Step& step, const SegmentParams& segment, cudaStream_t stream) {
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(step.workers));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = step.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    if (step.window.num_bytes > 0) {
      cudaLaunchAttribute& window = attributes[config.numAttrs++];
      window.id = cudaLaunchAttributeAccessPolicyWindow;
      window.val.accessPolicyWindow = step.window;
    }
    // The first waits for what the stream did before, plainly.
    if (step.dependent && &segment != step.segments.data()) {
      cudaLaunchAttribute& dependent = attributes[config.numAttrs++];
      dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      dependent.val.programmaticStreamSerializationAllowed = 1;
    }
    void* arguments[] = {const_cast<SegmentParams*>(&segment)};
    return cudaLaunchKernelExC(&config, step.kernel, arguments);
  }

  using Key = std::tuple<const void*, const SegmentParams*, bool>;
  std::map<Key, cudaGraphExec_t> graphs_;
};

}  // namespace boreas::cuda
