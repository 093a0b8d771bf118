#include "scenario.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "engine/core.h"
#include "exec/fake/fake_executor.h"
#include "lone_run.h"

namespace boreas {
namespace {

constexpr int kStepsMax = 60000;  // far more than any scenario needs: reaching it means that the engine does not move

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

struct Planned {
  Request request;
  int64_t arrival_step = 0;
  int64_t cancel_step = -1;
  int32_t cancel_choice = -1;
};

struct Heard {
  std::vector<SampledToken> tokens;
  std::optional<FinishReason> finish;
};

struct Client {
  std::vector<Heard> choices;
  std::vector<SampledToken> prompt_logprobs;
  int prompt_logprobs_events = 0;
};

class Scenario {
 public:
  Scenario(uint64_t seed, ScenarioCounts& counts) : prng_(seed), counts_(counts) {
    make_options();
    executor_ = std::make_unique<FakeExecutor>(fake_);
    core_ = std::make_unique<EngineCore>(*executor_, options_, clock_);
    make_requests();
    make_faults();
  }

  std::string run();

 private:
  int32_t pick(int32_t low, int32_t high) { return static_cast<int32_t>(prng_.between(low, high)); }
  bool chance(int32_t percent) { return pick(0, 99) < percent; }
  void make_options();
  void make_requests();
  void make_faults();
  SamplingParams make_sampling();
  void arrive(size_t index);
  void hear(size_t index, TokenEvent&& event);
  void check_pages();
  void check_pool(const PagePool& pool, const std::map<int32_t, int32_t>& owners, const char* name);
  void check_results();
  void check_choice(size_t index, int32_t choice);
  void wrong(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  Prng prng_;
  ScenarioCounts& counts_;
  VirtualClock clock_;
  FakeOptions fake_;
  EngineOptions options_;
  std::unique_ptr<FakeExecutor> executor_;
  std::unique_ptr<EngineCore> core_;
  std::vector<Planned> planned_;
  std::vector<Client> clients_;
  std::set<std::pair<uint64_t, int32_t>> shared_;             // sequences seen with shared pages
  std::map<std::pair<uint64_t, int32_t>, int32_t> computed_;  // at the last look
  bool faulty_ = false;
  std::string problem_;
};

void Scenario::make_options() {
  fake_.vocab_size = 64;
  fake_.window = chance(10) ? 0 : pick(1, 260);
  fake_.context_max = pick(64, 700);
  fake_.sequence_slots = pick(1, 9);
  fake_.rows_max = pick(1, 9);
  fake_.tokens_max = pick(8, 300);
  fake_.pages_full = pick(2, chance(50) ? 14 : 60);
  fake_.pages_sliding = pick(2, chance(50) ? 12 : 40);
  fake_.steps_in_flight_max = pick(1, 3);
  fake_.one_arithmetic = chance(50);
  fake_.clock = &clock_;
  fake_.step_ns = 1000000;
  options_.running_max = pick(1, 9);
  options_.step_tokens_max = pick(3, 300);
  if (chance(30)) options_.context_max = pick(40, 600);
}

SamplingParams Scenario::make_sampling() {
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

void Scenario::make_requests() {
  const int32_t count = pick(1, 12);
  const int32_t context = core_->limits().context_max;
  for (int32_t i = 0; i < count; ++i) {
    Planned planned;
    Request& request = planned.request;
    const int32_t length = std::min(pick(1, chance(30) ? 400 : 90), context - 1);
    for (int32_t t = 0; t < std::max(length, 1); ++t) request.prompt.push_back(pick(0, 63));
    request.sampling = make_sampling();
    request.choices = chance(25) ? pick(2, 4) : 1;
    request.max_tokens = chance(5) ? 0 : pick(1, chance(20) ? 300 : 60);
    for (int32_t s = chance(40) ? pick(1, 2) : 0; s > 0; --s) request.stop_ids.push_back(pick(0, 63));
    if (chance(15)) request.sampling.min_tokens = pick(1, 20);
    request.sampling.suppressed_ids = request.stop_ids;
    if (chance(15)) request.prompt_top_logprobs = pick(0, 2);
    request.priority = chance(15) ? pick(-1, 1) : 0;
    if (chance(5)) request.deadline_ns = pick(1, 200) * fake_.step_ns;
    if (chance(15)) request.make_constraint = [] { return std::make_unique<ResidueConstraint>(64); };
    planned.arrival_step = chance(30) ? 0 : pick(0, 150);
    if (chance(20)) planned.cancel_step = planned.arrival_step + pick(0, 80);
    if (chance(50)) planned.cancel_choice = pick(0, request.choices);
    if (!never_fits(core_->limits(), request)) planned_.push_back(std::move(planned));
  }
  clients_.resize(planned_.size());
}

void Scenario::make_faults() {
  FakeFaults faults;
  if (chance(4)) faults.submit_error_step = pick(0, 100);
  if (chance(4)) faults.wait_error_step = pick(0, 100);
  faulty_ = faults.submit_error_step >= 0 || faults.wait_error_step >= 0;
  faults.slow_step = pick(0, 100);
  faults.slow_ns = pick(0, 50) * fake_.step_ns;
  if (chance(8)) {
    const int32_t period = pick(20, 120);
    faults.corrupt_row = [period](int64_t step, const StepRow& row) { return step % period == 7 + row.slot; };
  }
  executor_->set_faults(std::move(faults));
}

void Scenario::arrive(size_t index) {
  clients_[index].choices.resize(static_cast<size_t>(planned_[index].request.choices));
  core_->add(RequestId(index + 1), planned_[index].request,
             [this, index](TokenEvent&& event) { hear(index, std::move(event)); });
  ++counts_.requests;
}

void Scenario::hear(size_t index, TokenEvent&& event) {
  Client& client = clients_[index];
  Heard& heard = client.choices[static_cast<size_t>(event.choice)];
  if (heard.finish) wrong("an event after the last one");
  if (event.request != RequestId(index + 1)) wrong("an event of another request");
  if (event.prompt_tokens != static_cast<int32_t>(planned_[index].request.prompt.size())) wrong("prompt_tokens");
  for (SampledToken& token : event.tokens) heard.tokens.push_back(std::move(token));
  if (event.output_tokens != static_cast<int32_t>(heard.tokens.size())) wrong("output_tokens");
  if (!event.prompt_logprobs.empty()) {
    ++client.prompt_logprobs_events;
    client.prompt_logprobs = std::move(event.prompt_logprobs);
  }
  heard.finish = event.finish;
  if (event.finish == FinishReason::kError && event.error.empty()) wrong("an error without a text");
}

std::string Scenario::run() {
  for (int64_t step = 0; problem_.empty(); ++step) {
    bool more = false;
    for (size_t i = 0; i < planned_.size(); ++i) {
      if (planned_[i].arrival_step == step) arrive(i);
      if (planned_[i].cancel_step == step) core_->cancel(RequestId(i + 1), planned_[i].cancel_choice);
      more = more || planned_[i].arrival_step > step;
    }
    check_pages();
    if (!more && core_->idle()) break;
    if (!core_->idle()) core_->step();
    check_pages();
    if (step > kStepsMax) wrong("does not end");
  }
  if (problem_.empty()) check_results();
  const EngineStats stats = core_->stats();
  counts_.steps += stats.steps;
  counts_.tokens += stats.output_tokens;
  counts_.preemptions += stats.preemptions;
  counts_.aborted += stats.finished[static_cast<size_t>(FinishReason::kAbort)];
  counts_.failed += stats.finished[static_cast<size_t>(FinishReason::kError)];
  counts_.choices_shared += static_cast<int64_t>(shared_.size());
  counts_.faults += !stats.healthy;
  return problem_;
}

// The naive model: count owners over all page tables and compare with the pools.
void Scenario::check_pages() {
  std::map<int32_t, int32_t> full, sliding;
  for (const auto& entry : core_->requests()) {
    for (const Sequence& sequence : entry.second->sequences) {
      if (sequence.state == SequenceState::kFinished) continue;
      const SequencePages& pages = sequence.pages;
      for (const PageId page : pages.full) ++full[page.value];
      for (size_t i = static_cast<size_t>(pages.sliding_first); i < pages.sliding.size(); ++i) {
        ++sliding[pages.sliding[i].value];
      }
      if (!pages.full.empty() && core_->ledger().pool(PagePoolKind::kFull).references(pages.full[0]) > 1) {
        shared_.insert({entry.first.value, sequence.choice});
      }
      if (sequence.computed > static_cast<int32_t>(pages.full.size()) * kPagePositions)
        wrong("positions without pages");
      // A sequence in decode holds (window - 2) / 64 + 2 sliding pages at most, 65 for a window of 4096.
      int32_t& computed_before = computed_[{entry.first.value, sequence.choice}];
      const int32_t chunk = std::max(sequence.computed - computed_before, 0);
      computed_before = sequence.computed;
      if (chunk == 1 && pages.sliding_live() > PageLedger::sliding_pages_max(fake_.window, 1)) wrong("pages kept");
      const int32_t chunk_max = options_.step_tokens_max + kPagePositions;  // a fork starts at a page
      if (pages.sliding_live() > PageLedger::sliding_pages_max(fake_.window, chunk_max)) wrong("pages kept");
    }
  }
  check_pool(core_->ledger().pool(PagePoolKind::kFull), full, "full");
  check_pool(core_->ledger().pool(PagePoolKind::kSliding), sliding, "sliding");
  if (executor_->wrong_reads() > 0) wrong("a page table leads to the wrong page");
}

void Scenario::check_pool(const PagePool& pool, const std::map<int32_t, int32_t>& owners, const char* name) {
  if (pool.pages_free() + static_cast<int32_t>(owners.size()) != pool.pages()) {
    wrong(std::string(name) + " pool: free and owned pages are not all pages");
  }
  for (int32_t page = 0; page < pool.pages(); ++page) {
    const auto found = owners.find(page);
    const int32_t expected = found == owners.end() ? 0 : found->second;
    if (pool.references(PageId(page)) != expected) wrong(std::string(name) + " pool: reference count");
  }
}

void Scenario::check_results() {
  const EngineStats stats = core_->stats();
  if (!core_->requests().empty() && core_->healthy()) wrong("a finished request is remembered");
  if (stats.pages_full_free != stats.pages_full || stats.pages_sliding_free != stats.pages_sliding) wrong("page leak");
  if (core_->healthy() && executor_->open_slots() != 0) wrong("slot leak");
  if (stats.running != 0 || stats.waiting != 0 || stats.waiting_tokens != 0) wrong("gauges not back at zero");
  if (core_->requests_not_started() != 0) wrong("requests_not_started not back at zero");
  if (!core_->healthy() && !faulty_) wrong("unhealthy without a fault");
  for (size_t i = 0; i < planned_.size(); ++i) {
    for (int32_t choice = 0; choice < planned_[i].request.choices; ++choice) check_choice(i, choice);
  }
}

void Scenario::check_choice(size_t index, int32_t choice) {
  const Request& request = planned_[index].request;
  const Client& client = clients_[index];
  const Heard& heard = client.choices[static_cast<size_t>(choice)];
  const std::string name = "request " + std::to_string(index) + " choice " + std::to_string(choice) + ": ";
  if (!heard.finish) return wrong(name + "no last event");
  const LoneRun lone = lone_run(fake_, request, choice, core_->limits().context_max);
  const bool complete = *heard.finish == FinishReason::kStop || *heard.finish == FinishReason::kLength;
  if (complete && *heard.finish != lone.finish) wrong(name + "another finish reason than alone");
  if (complete ? heard.tokens.size() != lone.tokens.size() : heard.tokens.size() > lone.tokens.size()) {
    return wrong(name + std::to_string(heard.tokens.size()) + " tokens, alone " + std::to_string(lone.tokens.size()));
  }
  for (size_t i = 0; i < heard.tokens.size(); ++i) {
    if (!same_token(heard.tokens[i], lone.tokens[i])) return wrong(name + "token " + std::to_string(i) + " differs");
  }
  const bool wants_scores = choice == 0 && request.prompt_top_logprobs >= 0 && request.prompt.size() > 1;
  if (!wants_scores || (!complete && heard.tokens.empty())) return;
  if (client.prompt_logprobs_events != 1) wrong(name + "prompt logprobs not sent once");
  if (!std::equal(client.prompt_logprobs.begin(), client.prompt_logprobs.end(), lone.prompt_logprobs.begin(),
                  lone.prompt_logprobs.end(), same_token)) {
    wrong(name + "prompt logprobs differ");
  }
}

}  // namespace

std::string run_scenario(uint64_t seed, ScenarioCounts& counts) { return Scenario(seed, counts).run(); }

}  // namespace boreas
