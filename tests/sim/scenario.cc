#include "scenario.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "base/clock.h"
#include "engine/core.h"
#include "exec/fake/fake_executor.h"
#include "invariants.h"
#include "lone_run.h"
#include "scenario_plan.h"

namespace boreas {
namespace {

constexpr int kStepsMax = 60000;    // far more than any scenario needs: reaching it means that the engine does not move
constexpr int kContentsEvery = 32;  // steps between looks into the cached pages themselves

struct Heard {
  std::vector<SampledToken> tokens;
  std::optional<FinishReason> finish;
  bool exact = true;  // it never took a page from the cache that it would not have computed so itself
};

struct Client {
  std::vector<Heard> choices;
  std::vector<SampledToken> prompt_logprobs;
  int prompt_logprobs_events = 0;
  int32_t cached_tokens = -1;  // of the first event that came from a running sequence
};

class Scenario {
 public:
  Scenario(uint64_t seed, ScenarioCounts& counts, JudgedBy judge)
      : plan_(seed, clock_),
        counts_(counts),
        invariants_(judge != JudgedBy::kTexts),
        texts_(judge != JudgedBy::kInvariants) {
    executor_ = std::make_unique<FakeExecutor>(plan_.fake);
    executor_->set_faults(plan_.faults);
    core_ = std::make_unique<EngineCore>(*executor_, plan_.options, clock_);
    clients_.resize(plan_.requests.size());
  }

  std::string run();

 private:
  void arrive(size_t index);
  void hear(size_t index, TokenEvent&& event);
  void look();
  void look_at(const Sequence& sequence);
  void check_results();
  void check_rest();
  void check_choice(size_t index, int32_t choice);
  void count();
  void wrong(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  VirtualClock clock_;
  ScenarioPlan plan_;
  ScenarioCounts& counts_;
  const bool invariants_, texts_;
  std::unique_ptr<FakeExecutor> executor_;
  std::unique_ptr<EngineCore> core_;
  std::vector<Client> clients_;
  std::set<std::pair<uint64_t, int32_t>> shared_;  // sequences seen with shared pages
  int64_t looks_ = 0;
  std::string problem_;
};

void Scenario::arrive(size_t index) {
  clients_[index].choices.resize(static_cast<size_t>(plan_.requests[index].request.choices));
  core_->add(RequestId(index + 1), plan_.requests[index].request,
             [this, index](TokenEvent&& event) { hear(index, std::move(event)); });
  ++counts_.requests;
}

void Scenario::hear(size_t index, TokenEvent&& event) {
  Client& client = clients_[index];
  Heard& heard = client.choices[static_cast<size_t>(event.choice)];
  const auto prompt_length = static_cast<int32_t>(plan_.requests[index].request.prompt.size());
  if (heard.finish) wrong("an event after the last one");
  if (event.request != RequestId(index + 1)) wrong("an event of another request");
  if (event.prompt_tokens != prompt_length) wrong("prompt_tokens");
  if (event.cached_tokens % kPagePositions != 0 || event.cached_tokens >= prompt_length) wrong("cached_tokens");
  if (!event.tokens.empty()) {
    if (client.cached_tokens < 0) client.cached_tokens = event.cached_tokens;
    if (client.cached_tokens != event.cached_tokens) wrong("cached_tokens changed");
  }
  for (SampledToken& token : event.tokens) heard.tokens.push_back(std::move(token));
  if (event.output_tokens != static_cast<int32_t>(heard.tokens.size())) wrong("output_tokens");
  if (!event.prompt_logprobs.empty()) {
    ++client.prompt_logprobs_events;
    client.prompt_logprobs = std::move(event.prompt_logprobs);
  }
  heard.finish = event.finish;
  if (event.finish == FinishReason::kError && event.error.empty()) wrong("an error without a text");
  const auto& state = core_->requests().at(event.request);
  heard.exact = heard.exact && state->sequences[static_cast<size_t>(event.choice)].exact;
}

std::string Scenario::run() {
  for (int64_t step = 0; problem_.empty(); ++step) {
    bool more = false;
    for (size_t i = 0; i < plan_.requests.size(); ++i) {
      const PlannedRequest& planned = plan_.requests[i];
      if (planned.arrival_step == step) arrive(i);
      if (planned.cancel_step == step) core_->cancel(RequestId(i + 1), planned.cancel_choice);
      more = more || planned.arrival_step > step;
    }
    look();
    if (!more && core_->idle()) break;
    if (!core_->idle()) core_->step();
    look();
    if (step > kStepsMax) wrong("does not end");
  }
  if (problem_.empty()) check_results();
  count();
  return problem_;
}

void Scenario::count() {
  const EngineStats stats = core_->stats();
  counts_.steps += stats.steps;
  counts_.tokens += stats.output_tokens;
  counts_.cached_tokens += stats.cached_tokens;
  counts_.preemptions += stats.preemptions;
  counts_.recomputations += stats.recomputations;
  counts_.swapped_in_pages += stats.swapped_in_pages;
  counts_.aborted += stats.finished[static_cast<size_t>(FinishReason::kAbort)];
  counts_.failed += stats.finished[static_cast<size_t>(FinishReason::kError)];
  counts_.choices_shared += static_cast<int64_t>(shared_.size());
  counts_.faults += !stats.healthy;
}

void Scenario::look() {
  if (invariants_) {
    const std::string broken = broken_invariant(*core_, *executor_, looks_++ % kContentsEvery == 0);
    if (!broken.empty()) wrong(broken);
  }
  for (const auto& entry : core_->requests()) {
    for (const Sequence& sequence : entry.second->sequences) look_at(sequence);
  }
}

void Scenario::look_at(const Sequence& sequence) {
  if (sequence.state == SequenceState::kFinished) return;
  const uint64_t id = sequence.request->id.value;
  Heard& heard = clients_[id - 1].choices[static_cast<size_t>(sequence.choice)];
  heard.exact = heard.exact && sequence.exact;
  const SequencePages& pages = sequence.pages;
  const PageLedger& ledger = core_->ledger();
  if (!pages.full.empty()) {
    const bool cached =
        !pages.path.empty() && ledger.cache().node(pages.path[0]).at(PagePoolKind::kFull).page == pages.full[0];
    const int32_t owners = ledger.pool(PagePoolKind::kFull).references(pages.full[0]) - cached;
    if (owners > 1) shared_.insert({id, sequence.choice});
  }
  // A chunk or a fork that starts at a page: no more sliding pages than the window and the chunk need.
  if (!invariants_) return;
  const int32_t chunk_max = plan_.options.step_tokens_max + kPagePositions;
  if (pages.sliding_live() > PageLedger::sliding_pages_max(plan_.fake.window, chunk_max)) wrong("pages kept");
}

void Scenario::check_results() {
  if (invariants_) check_rest();
  for (size_t i = 0; texts_ && i < plan_.requests.size(); ++i) {
    for (int32_t choice = 0; choice < plan_.requests[i].request.choices; ++choice) check_choice(i, choice);
  }
}

// Nothing may be left over.
void Scenario::check_rest() {
  const EngineStats stats = core_->stats();
  if (!core_->requests().empty() && core_->healthy()) wrong("a finished request is remembered");
  if (stats.pages_full_free != stats.pages_full || stats.pages_sliding_free != stats.pages_sliding) wrong("page leak");
  if (stats.swap_bytes_used != 0) wrong("host memory leak");
  if (core_->healthy() && executor_->open_slots() != 0) wrong("slot leak");
  if (stats.running != 0 || stats.waiting != 0 || stats.waiting_tokens != 0) wrong("gauges not back at zero");
  if (core_->requests_waiting() != 0) wrong("requests_waiting not back at zero");
  if (!core_->healthy() && !plan_.faulty) wrong("unhealthy without a fault");
}

void Scenario::check_choice(size_t index, int32_t choice) {
  const Request& request = plan_.requests[index].request;
  const Client& client = clients_[index];
  const Heard& heard = client.choices[static_cast<size_t>(choice)];
  const std::string name = "request " + std::to_string(index) + " choice " + std::to_string(choice) + ": ";
  if (!heard.finish) return wrong(name + "no last event");
  if (!heard.exact) {
    ++counts_.inexact;  // "same distribution": its pages were looked at, its tokens may be others
    if (plan_.fake.one_arithmetic || plan_.options.prefix_cache_exact) wrong(name + "not exact, and yet promised");
    return;
  }
  const LoneRun& lone = plan_.alone(index, choice);
  const bool complete = *heard.finish == FinishReason::kStop || *heard.finish == FinishReason::kLength;
  if (complete && *heard.finish != lone.finish) wrong(name + "another finish reason than alone");
  if (complete ? heard.tokens.size() != lone.tokens.size() : heard.tokens.size() > lone.tokens.size()) {
    return wrong(name + std::to_string(heard.tokens.size()) + " tokens, alone " + std::to_string(lone.tokens.size()));
  }
  for (size_t i = 0; i < heard.tokens.size(); ++i) {
    if (!same_token(heard.tokens[i], lone.tokens[i])) return wrong(name + "token " + std::to_string(i) + " differs");
  }
  counts_.compared += complete;
  const bool wants_scores = choice == 0 && request.prompt_top_logprobs >= 0 && request.prompt.size() > 1;
  if (!wants_scores || (!complete && heard.tokens.empty())) return;
  if (client.prompt_logprobs_events != 1) wrong(name + "prompt logprobs not sent once");
  if (!std::equal(client.prompt_logprobs.begin(), client.prompt_logprobs.end(), lone.prompt_logprobs.begin(),
                  lone.prompt_logprobs.end(), same_token)) {
    wrong(name + "prompt logprobs differ");
  }
}

}  // namespace

std::string run_scenario(uint64_t seed, ScenarioCounts& counts, JudgedBy judge) {
  return Scenario(seed, counts, judge).run();
}

}  // namespace boreas
