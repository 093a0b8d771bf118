// LOAD: the items of a layer arrive in the order in which the worker's consumer takes them.
#include <gtest/gtest.h>

#include "tests/conformance/cases.h"

namespace boreas::conformance {

void check_kLoad(Backend& backend) {
  for_each_scenario(2, [&](Scenario& scenario) {
    const Step step = random_step(scenario);
    for (int32_t layer = -1; layer < kSweepLayers; ++layer) {
      Data data;
      // Routes and pages decide how much an item has, not that it comes.
      for (Slot slot : {Slot::kRoute, Slot::kRouteOdd}) data.slot(slot) = random_routes(scenario);
      backend.run(scenario.machine, step, {Op::kLoad, layer}, data);
      ASSERT_EQ(static_cast<int32_t>(data.loaded.size()), scenario.machine.program.workers());
      for (int32_t worker = 0; worker < scenario.machine.program.workers(); ++worker) {
        std::vector<float> taken;
        for (const TaskDesc& task : scenario.machine.program.list(worker, Role::kConsumer))
          if (task.layer == layer && task.stream_item >= 0) taken.push_back(static_cast<float>(task.stream_item));
        const std::vector<int32_t>& loaded = data.loaded[static_cast<size_t>(worker)];
        expect_equal(std::vector<float>(loaded.begin(), loaded.end()), taken,
                     scenario.name + ", layer " + std::to_string(layer) + ", worker " + std::to_string(worker));
      }
    }
  });
}

}  // namespace boreas::conformance
