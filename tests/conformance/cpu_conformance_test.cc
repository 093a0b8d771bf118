// Every op of the op list on the CPU executor, at each SIMD level that this processor has, against plain double
// arithmetic. A new op without cases does not link.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/conformance/cases.h"
#include "tests/conformance/cpu_backend.h"

namespace boreas::conformance {
namespace {

std::vector<cpu::SimdLevel> levels() {
  std::vector<cpu::SimdLevel> supported;
  for (cpu::SimdLevel level : {cpu::SimdLevel::kPortable, cpu::SimdLevel::kAvx2, cpu::SimdLevel::kAvx512})
    if (cpu::simd_supported(level)) supported.push_back(level);
    else std::cout << "SIMD level " << static_cast<int>(level) << " is not on this processor: not checked\n";
  return supported;
}

class CpuConformance : public testing::TestWithParam<cpu::SimdLevel> {
 protected:
  void check(void (*cases)(Backend&)) {
    CpuBackend backend(GetParam());
    take_compared();
    cases(backend);
    const Compared compared = take_compared();
    EXPECT_GT(compared.values, 0) << "the cases compare nothing";
    std::cout << compared.values << " values, the worst off by " << compared.worst << " tolerances\n";
  }
};

#define BOREAS_CONFORMANCE_TEST(enumerator, contract, name, role) \
  TEST_P(CpuConformance, enumerator) { check(check_##enumerator); }
BOREAS_OPS(BOREAS_CONFORMANCE_TEST)
#undef BOREAS_CONFORMANCE_TEST

INSTANTIATE_TEST_SUITE_P(, CpuConformance, testing::ValuesIn(levels()),
                         [](const auto& level) { return std::string(cpu::kernels(level.param).name); });

}  // namespace
}  // namespace boreas::conformance
