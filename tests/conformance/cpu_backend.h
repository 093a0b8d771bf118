// The CPU executor's op bodies behind the interface of the conformance cases.
#pragma once

#include "exec/cpu/kernels.h"
#include "tests/conformance/backend.h"

namespace boreas::conformance {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(cpu::SimdLevel level) : kernels_(cpu::kernels(level)) {}
  std::string name() const override { return kernels_.name; }
  // Element k goes to partial sum k mod 16; four levels of a tree add the 16 sums (kernels.h).
  int32_t additions(int32_t length) const override { return static_cast<int32_t>(ceil_div(length, cpu::kGroup)) + 4; }
  void run(const Machine& machine, const Step& step, const Call& call, Data& data) override;

 private:
  const cpu::Kernels& kernels_;
};

}  // namespace boreas::conformance
