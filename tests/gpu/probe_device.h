// A Device around another one whose kernels are probed (Probed in exec/cuda/shape.h): every launch gets the inputs of
// its rows' layers from a ProbeUser, which then sees what each layer put out. The executor above knows nothing of it.
// Around a GPU in compare_layers.cc, around the emulated device in tests/emulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "exec/cuda/device.h"
#include "exec/cuda/step_params.h"

namespace boreas {

// Rows of a launch: step.row[0 .. step.rows). Layouts as in cuda::Probe.
class ProbeUser {
 public:
  virtual ~ProbeUser() = default;
  virtual void give_inputs(const cuda::StepParams& step, std::span<uint16_t> inputs) = 0;
  virtual void take_outputs(const cuda::StepParams& step, std::span<const float> outputs,
                            std::span<const int32_t> routes) = 0;
};

struct ProbeSizes {
  int32_t layers = 0, hidden = 0, experts_per_token = 0;
  int32_t norm_roundings = 1;  // cuda::Probe::norm_roundings

  size_t inputs() const { return size_t(layers) * cuda::kRowsMax * size_t(hidden); }
  size_t outputs() const { return 2 * inputs(); }
  size_t routes() const { return size_t(layers) * cuda::kRowsMax * size_t(experts_per_token); }
};

class ProbeDevice final : public cuda::Device {
 public:
  // `user` outlives the device.
  static Result<std::unique_ptr<cuda::Device>> make(std::unique_ptr<cuda::Device> inner, const ProbeSizes& sizes,
                                                    ProbeUser& user) {
    std::unique_ptr<ProbeDevice> device(new ProbeDevice(std::move(inner), sizes, user));
    RETURN_IF_ERROR(device->allocate_buffers());
    return std::unique_ptr<cuda::Device>(std::move(device));
  }

  const std::string& name() const override { return inner_->name(); }
  int32_t processors() const override { return inner_->processors(); }
  int64_t memory_free() const override { return inner_->memory_free(); }
  Result<cuda::DeviceMemory> allocate(size_t bytes, const std::string& what) override {
    return inner_->allocate(bytes, what);
  }
  Result<cuda::DeviceMemory> allocate_mapped(size_t bytes, const std::string& what) override {
    return inner_->allocate_mapped(bytes, what);
  }
  Status copy_in(std::byte* to, std::span<const std::byte> from) override { return inner_->copy_in(to, from); }
  Status copy_out(std::span<std::byte> to, const std::byte* from) override { return inner_->copy_out(to, from); }
  Status copy_within(std::byte* to, const std::byte* from, size_t bytes) override {
    return inner_->copy_within(to, from, bytes);
  }
  Status fill_zero(std::byte* to, size_t bytes) override { return inner_->fill_zero(to, bytes); }
  Result<std::span<std::byte>> begin_stage() override { return inner_->begin_stage(); }
  Status scatter_stage(size_t bytes, std::span<const cuda::StagedRows> tensors) override {
    return inner_->scatter_stage(bytes, tensors);
  }
  Status scatter_dummy(std::byte* base, std::span<const cuda::RowPlace> places, int32_t columns,
                       const std::string& tensor_name, int32_t exponent) override {
    return inner_->scatter_dummy(base, places, columns, tensor_name, exponent);
  }
  Status keep_cached(const cuda::DeviceMemory& memory) override { return inner_->keep_cached(memory); }
  Status wash_cache() override { return inner_->wash_cache(); }
  Status record(int32_t event) override { return inner_->record(event); }
  Status wait(int32_t event, std::chrono::nanoseconds limit) override { return inner_->wait(event, limit); }
  Result<int64_t> elapsed_ns(int32_t from, int32_t to) override { return inner_->elapsed_ns(from, to); }
  Status synchronize(std::chrono::nanoseconds limit = kSynchronizeMax) override { return inner_->synchronize(limit); }

  // Waits for the step, so that what it put out can be looked at before the next one overwrites it.
  Status launch_step(const std::string& shape_name, int32_t workers, size_t shared_bytes,
                     const cuda::StepParams& params) override {
    user_.give_inputs(params, view<uint16_t>(host_inputs_, sizes_.inputs()));
    RETURN_IF_ERROR(inner_->copy_within(inputs_.device, host_inputs_.device, inputs_.bytes));
    cuda::StepParams probed = params;
    probed.probe.inputs = reinterpret_cast<const uint16_t*>(inputs_.device);
    probed.probe.outputs = reinterpret_cast<float*>(outputs_.device);
    probed.probe.routes = reinterpret_cast<int32_t*>(routes_.device);
    probed.probe.norm_roundings = sizes_.norm_roundings;
    RETURN_IF_ERROR(inner_->launch_step(shape_name, workers, shared_bytes, probed));
    RETURN_IF_ERROR(inner_->copy_within(host_outputs_.device, outputs_.device, outputs_.bytes));
    RETURN_IF_ERROR(inner_->copy_within(host_routes_.device, routes_.device, routes_.bytes));
    RETURN_IF_ERROR(inner_->synchronize());
    user_.take_outputs(params, view<float>(host_outputs_, sizes_.outputs()),
                       view<int32_t>(host_routes_, sizes_.routes()));
    return Ok{};
  }

 private:
  ProbeDevice(std::unique_ptr<cuda::Device> inner, const ProbeSizes& sizes, ProbeUser& user)
      : inner_(std::move(inner)), sizes_(sizes), user_(user) {}

  Status allocate_buffers() {
    RETURN_IF_ERROR(allocate_pair(sizes_.inputs() * sizeof(uint16_t), "layer inputs", inputs_, host_inputs_));
    RETURN_IF_ERROR(allocate_pair(sizes_.outputs() * sizeof(float), "layer outputs", outputs_, host_outputs_));
    return allocate_pair(sizes_.routes() * sizeof(int32_t), "routes", routes_, host_routes_);
  }
  Status allocate_pair(size_t bytes, const std::string& what, cuda::DeviceMemory& device, cuda::DeviceMemory& host) {
    ASSIGN_OR_RETURN(device, inner_->allocate(bytes, what));
    ASSIGN_OR_RETURN(host, inner_->allocate_mapped(bytes, what));
    return Ok{};
  }
  template <class T>
  static std::span<T> view(const cuda::DeviceMemory& memory, size_t count) {
    CHECK(memory.bytes == count * sizeof(T));
    return {reinterpret_cast<T*>(memory.host), count};
  }

  std::unique_ptr<cuda::Device> inner_;
  ProbeSizes sizes_;
  ProbeUser& user_;
  cuda::DeviceMemory inputs_, outputs_, routes_;                 // of the device
  cuda::DeviceMemory host_inputs_, host_outputs_, host_routes_;  // mapped
};

}  // namespace boreas
