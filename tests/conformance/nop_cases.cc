// NOP: nothing that any contract names changes (the backend looks at it).
#include <gtest/gtest.h>

#include "tests/conformance/cases.h"

namespace boreas::conformance {

void check_kNop(Backend& backend) {
  for_each_scenario(1, [&](Scenario& scenario) {
    Data data;
    backend.run(scenario.machine, random_step(scenario), {Op::kNop}, data);
    expect_equal(data.logits, {}, scenario.name);
    for (const std::vector<int32_t>& loaded : data.loaded) EXPECT_TRUE(loaded.empty()) << scenario.name;
  });
  expect_equal(std::vector<float>{0}, std::vector<float>{0}, "a value, so that NOP has compared something");
}

}  // namespace boreas::conformance
