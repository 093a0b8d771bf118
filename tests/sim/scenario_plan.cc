#include "scenario_plan.h"

#include <algorithm>
#include <memory>

#include "engine/limits.h"

namespace boreas {
namespace {

// First an even token, then tokens of another residue modulo 3 than the one before; every fourth is free.
class ResidueConstraint final : public TokenConstraint {
 public:
  explicit ResidueConstraint(int32_t vocab_size) : vocab_size_(vocab_size) {}
  std::shared_ptr<const TokenMask> mask() override {
    if (count_ % 4 == 3) return nullptr;
    auto mask = std::make_shared<TokenMask>();
    mask->bits.resize(static_cast<size_t>(vocab_size_ + 31) / 32);
    for (int32_t id = 0; id < vocab_size_; ++id) {
      if (allows(id)) mask->bits[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
    }
    return mask;
  }
  bool accept(TokenId token) override {
    const bool allowed = count_ % 4 == 3 || allows(token);
    last_ = token;
    ++count_;
    return allowed;
  }

 private:
  bool allows(TokenId id) const { return last_ < 0 ? id % 2 == 0 : id % 3 != last_ % 3; }
  int32_t vocab_size_;
  TokenId last_ = -1;
  int32_t count_ = 0;
};

}  // namespace

ScenarioPlan::ScenarioPlan(uint64_t seed, VirtualClock& clock) : prng_(seed) {
  make_options(clock);
  context_max_ = make_limits(FakeExecutor(fake).info(), options).context_max;
  make_requests();
  make_faults();
}

void ScenarioPlan::make_options(VirtualClock& clock) {
  fake.vocab_size = 64;
  fake.window = chance(10) ? 0 : pick(1, 260);
  fake.context_max = pick(64, 700);
  fake.sequence_slots = pick(1, 9);
  fake.rows_max = pick(1, 9);
  fake.tokens_max = pick(8, 300);
  fake.pages_full = pick(1, chance(50) ? 14 : 60);
  fake.pages_sliding = pick(1, chance(50) ? 12 : 40);
  if (chance(10)) fake.pages_full = pick(1, 3);
  if (chance(10)) fake.pages_sliding = pick(1, 3);
  fake.steps_in_flight_max = pick(1, 3);
  fake.one_arithmetic = chance(50);
  fake.clock = &clock;
  fake.step_ns = 1000000;
  fake.token_ns = chance(50) ? 0 : pick(1, 100000);
  options.running_max = pick(1, 9);
  options.step_tokens_max = pick(3, 300);
  if (chance(30)) options.context_max = pick(40, 600);
  options.prefix_cache = chance(85);
  options.prefix_cache_exact = chance(60);
  options.step_latency_ms = chance(30) ? 0 : pick(1, 20);
  const auto page_bytes = FakeExecutor(fake).info().page_bytes_full;
  options.swap_bytes_max = page_bytes * (chance(25) ? 0 : pick(1, chance(50) ? 12 : 100));
}

SamplingParams ScenarioPlan::make_sampling() {
  SamplingParams sampling;
  sampling.seed = prng_.next_u64();
  sampling.temperature = chance(40) ? 0.0f : 0.3f + prng_.uniform();
  if (chance(20)) sampling.top_k = pick(1, 20);
  if (chance(20)) sampling.top_p = 0.2f + 0.7f * prng_.uniform();
  if (chance(15)) sampling.repetition_penalty = 1.3f;
  if (chance(15)) sampling.frequency_penalty = 0.5f;
  if (chance(15)) sampling.presence_penalty = 0.4f;
  if (chance(20)) sampling.top_logprobs = pick(0, 3);
  return sampling;
}

// New text, or text that begins like an earlier request: another branch of its prompt, or the next turn after its
// answer, all of it or cut.
std::vector<TokenId> ScenarioPlan::make_prompt(PlannedRequest& planned) {
  std::vector<TokenId> prompt;
  if (!requests.empty() && chance(50)) {
    const auto base = static_cast<size_t>(pick(0, static_cast<int32_t>(requests.size()) - 1));
    const PlannedRequest& earlier = requests[base];
    prompt = earlier.request.prompt;
    planned.arrival_step = earlier.arrival_step + pick(0, 120);
    if (chance(85)) planned.request.cache_salt = earlier.request.cache_salt;
    if (chance(25)) {
      prompt.resize(static_cast<size_t>(pick(0, static_cast<int32_t>(prompt.size()))));
    } else if (chance(80)) {
      const LoneRun& answer = alone(base, pick(0, earlier.request.choices - 1));
      for (const SampledToken& token : answer.tokens) prompt.push_back(token.id);
      if (chance(20)) prompt.pop_back();
    }
    for (int32_t t = pick(0, 40); t > 0; --t) prompt.push_back(pick(0, 63));
  } else {
    for (int32_t t = pick(1, chance(30) ? 400 : 90); t > 0; --t) prompt.push_back(pick(0, 63));
  }
  if (prompt.empty()) prompt.push_back(pick(0, 63));
  // Whole pages, one token more or less, all of the context.
  if (chance(15)) prompt.resize(prompt.size() / kPagePositions * kPagePositions + static_cast<size_t>(pick(63, 65)), 5);
  if (chance(5)) prompt.resize(static_cast<size_t>(context_max_), 9);
  const int32_t most = context_max_ - (planned.request.max_tokens > 0);
  prompt.resize(std::min(prompt.size(), static_cast<size_t>(std::max(most, 1))));
  return prompt;
}

void ScenarioPlan::make_requests() {
  const int32_t count = pick(1, 12);
  EngineLimits limits;
  limits.context_max = context_max_;
  for (int32_t i = 0; i < count; ++i) {
    PlannedRequest planned;
    Request& request = planned.request;
    planned.arrival_step = chance(30) ? 0 : pick(0, 150);
    if (chance(10)) request.cache_salt = "another tenant";
    request.max_tokens = chance(5) ? 0 : pick(1, chance(20) ? 300 : 60);
    if (chance(5)) request.max_tokens = chance(50) ? 1 : INT32_MAX;
    request.prompt = make_prompt(planned);
    request.sampling = make_sampling();
    request.choices = chance(25) ? pick(2, chance(10) ? 20 : 4) : 1;
    for (int32_t s = chance(40) ? pick(1, 2) : 0; s > 0; --s) request.stop_ids.push_back(pick(0, 63));
    if (chance(15)) request.sampling.min_tokens = pick(1, 20);
    request.sampling.suppressed_ids = request.stop_ids;
    if (chance(15)) request.prompt_top_logprobs = pick(0, 2);
    request.priority = chance(15) ? pick(-1, 1) : 0;
    if (chance(3)) request.priority = chance(50) ? INT32_MIN : INT32_MAX;
    if (chance(5)) request.deadline_ns = pick(1, 200) * fake.step_ns;
    if (chance(2)) request.deadline_ns = chance(50) ? 1 : INT64_MAX;
    if (chance(15)) request.make_constraint = [] { return std::make_unique<ResidueConstraint>(64); };
    if (chance(20)) planned.cancel_step = planned.arrival_step + pick(0, 80);
    if (chance(50)) planned.cancel_choice = pick(0, request.choices);
    if (!never_fits(limits, request)) requests.push_back(std::move(planned));
  }
}

void ScenarioPlan::make_faults() {
  if (chance(4)) faults.submit_error_step = pick(0, 100);
  if (chance(4)) faults.wait_error_step = pick(0, 100);
  if (chance(5)) faults.swap_error_call = pick(0, 20);
  faulty = faults.submit_error_step >= 0 || faults.wait_error_step >= 0 || faults.swap_error_call >= 0;
  faults.slow_step = pick(0, 100);
  faults.slow_ns = pick(0, 50) * fake.step_ns;
  if (chance(8)) {
    const int32_t period = pick(20, 120);
    faults.corrupt_row = [period](int64_t step, const StepRow& row) { return step % period == 7 + row.slot; };
  }
}

const LoneRun& ScenarioPlan::alone(size_t request, int32_t choice) {
  const auto [found, is_missing] = alone_.try_emplace({request, choice});
  if (is_missing) found->second = lone_run(fake, requests[request].request, choice, context_max_);
  return found->second;
}

}  // namespace boreas
