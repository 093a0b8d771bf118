// What a request must generate, computed without the engine: one sequence, page j of both pools is page j, the whole
// prompt in one range, then one token at a time. Simulation compares every request with it.
#pragma once

#include <vector>

#include "engine/engine.h"
#include "exec/fake/fake_executor.h"

namespace boreas {

struct LoneRun {
  std::vector<SampledToken> tokens;
  std::vector<SampledToken> prompt_logprobs;  // choice 0 of a request that asks for them
  FinishReason finish = FinishReason::kLength;
};

// On slot 0 of an idle executor whose pools and plans hold context_max positions. context_max: the engine's.
LoneRun lone_run_on(Executor& executor, const Request& request, int32_t choice, int32_t context_max);
// options: as in the simulation; pools and limits are replaced by ample ones.
LoneRun lone_run(FakeOptions options, const Request& request, int32_t choice, int32_t context_max);

bool same_token(const SampledToken& a, const SampledToken& b);

}  // namespace boreas
