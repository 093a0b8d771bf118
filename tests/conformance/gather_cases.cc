// GATHER: the words of a hop, to the bit, in a slot.
#include <utility>

#include "tests/conformance/cases.h"

namespace boreas::conformance {

void check_kGather(Backend& backend) {
  constexpr std::pair<Hop, Slot> kGathered[] = {
      {Hop::kQkv, Slot::kQkv}, {Hop::kAttention, Slot::kAttention}, {Hop::kInner, Slot::kInner}};
  for_each_scenario(5, [&](Scenario& scenario) {
    for (int32_t layer = 0; layer < kSweepLayers; ++layer) {
      for (const auto& pair : kGathered) {
        Data data;
        data.hop(pair.first) =
            random_values(scenario.prng, scenario.values(values_per_row(scenario.config(), layer, pair.first)));
        const std::vector<float> want = data.hop(pair.first);
        if (pair.second == Slot::kInner &&
            scenario.config().is_moe(layer))  // in two parts the route says which is where
          data.slot(route_slot(scenario.machine, layer)) = random_routes(scenario);
        backend.run(scenario.machine, random_step(scenario), {Op::kGather, layer, pair.second}, data);
        expect_equal(data.slot(pair.second), want, scenario.name + ", layer " + std::to_string(layer));
      }
    }
  });
}

}  // namespace boreas::conformance
