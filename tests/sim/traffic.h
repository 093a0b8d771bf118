// Random traffic through the engine over a real executor: follow-up turns, shared prompts, cancels and pools that are
// too small, compared with runs without the engine on an executor of its own: equal bits. For tests, whose expectations
// it makes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "exec/executor.h"
#include "model/model.h"

namespace boreas {

constexpr int32_t kTrafficContextMax = 640;
constexpr int32_t kTrafficSlots = 6;

// What the traffic is made of. text: so many tokens of a prompt.
struct World {
  std::string name;
  std::shared_ptr<const Model> model;
  std::function<std::vector<TokenId>(Prng&, int32_t count)> text;
};

// models/demo, and pieces of the prompts that it is judged by, as they stand in the file.
World demo_world();

// An executor of kTrafficSlots sequences whose plans hold kTrafficContextMax tokens, with pools of so many pages.
using MakeExecutor = std::function<std::unique_ptr<Executor>(const std::shared_ptr<const Model>& model,
                                                             int32_t pages_full, int32_t pages_sliding)>;

// The options of such an executor, of whatever kind.
template <class Options>
Options traffic_options(int32_t pages_full, int32_t pages_sliding) {
  Options options;
  options.sequence_slots = kTrafficSlots;
  options.tokens_max = options.context_max = kTrafficContextMax;
  options.pages_full = pages_full;
  options.pages_sliding = pages_sliding;
  return options;
}

// `count` runs of so many requests, each with its seed, and by default whatever a run should bring about did happen.
void run_traffics(const World& world, const MakeExecutor& make_executor, int32_t requests, uint64_t count = 2);

}  // namespace boreas
