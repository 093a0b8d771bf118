// What a simulated scenario consists of, made from its seed: executor shape, limits, requests with their arrivals and
// cancels, faults. scenario.cc runs it. Many requests go on from the texts of earlier ones, as turns of a chat do.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "engine/engine.h"
#include "exec/fake/fake_executor.h"
#include "lone_run.h"

namespace boreas {

struct PlannedRequest {
  Request request;
  int64_t arrival_step = 0;
  int64_t cancel_step = -1;
  int32_t cancel_choice = -1;
};

class ScenarioPlan {
 public:
  ScenarioPlan(uint64_t seed, VirtualClock& clock);

  FakeOptions fake;
  EngineOptions options;
  FakeFaults faults;
  bool faulty = false;  // the executor will fail, if the scenario lasts so long
  std::vector<PlannedRequest> requests;

  // What the choice of the request generates alone.
  const LoneRun& alone(size_t request, int32_t choice);

 private:
  int32_t pick(int32_t low, int32_t high) { return static_cast<int32_t>(prng_.between(low, high)); }
  bool chance(int32_t percent) { return pick(0, 99) < percent; }
  void make_options(VirtualClock& clock);
  void make_requests();
  void make_faults();
  SamplingParams make_sampling();
  std::vector<TokenId> make_prompt(PlannedRequest& planned);

  Prng prng_;
  int32_t context_max_ = 0;
  std::map<std::pair<size_t, int32_t>, LoneRun> alone_;
};

}  // namespace boreas
