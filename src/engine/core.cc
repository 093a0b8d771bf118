#include "engine/core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace boreas {
namespace {

// Choices share whole pages of the prompt. Each computes what is left, at least two tokens of it, itself: the last
// token's logits are needed for every choice anyway. Scoring rewrites the position before a slice, so it shares
// nothing.
int32_t share_end_of(const Request& request) {
  const auto length = static_cast<int32_t>(request.prompt.size());
  if (request.choices == 1 || request.prompt_top_logprobs >= 0 || length < 2) return 0;
  return page_of(length - 2) * kPagePositions;
}

}  // namespace

EngineCore::EngineCore(Executor& executor, const EngineOptions& options, const Clock& clock)
    : executor_(executor),
      clock_(clock),
      limits_(make_limits(executor.info(), options)),
      ledger_(limits_.pages_full, executor.info().pages_sliding, executor.info().window, options.prefix_hash_seed),
      host_pages_(options.swap_bytes_max, executor.info().page_bytes_full, executor.info().page_bytes_sliding),
      pacer_(int64_t{options.step_latency_ms} * 1000000, options.decode_percent) {
  for (int32_t slot = executor.info().sequence_slots - 1; slot >= 0; --slot) slots_free_.push_back(slot);
}

void EngineCore::add(RequestId id, Request request, EventSink sink) {
  CHECK(!request.prompt.empty() && request.choices > 0 && request.max_tokens >= 0);
  CHECK(!never_fits(limits_, request));
  for (const TokenId token : request.prompt) CHECK(token >= 0 && token < limits_.vocab_size);
  auto owned = std::make_unique<RequestState>();
  RequestState& state = *owned;
  CHECK(requests_.emplace(id, std::move(owned)).second);
  state.id = id;
  state.request = std::move(request);
  std::sort(state.request.stop_ids.begin(), state.request.stop_ids.end());
  state.sink = std::move(sink);
  state.arrival = arrivals_++;
  state.share_end = share_end_of(state.request);
  state.sequences = std::vector<Sequence>(static_cast<size_t>(state.request.choices));
  state.sequences_left = state.request.choices;
  sequences_left_ += state.request.choices;
  count_waiting(state, true);
  if (state.request.deadline_ns > 0) state.deadline = deadlines_.emplace(state.request.deadline_ns, id);
  for (size_t i = 0; i < state.sequences.size(); ++i) {
    state.sequences[i].request = &state;
    state.sequences[i].choice = static_cast<int32_t>(i);
    state.sequences[i].pages.writer = ++writers_;
  }
  if (limits_.prefix_cache) {
    const std::span<const TokenId> prompt = state.request.prompt;
    for (size_t end = kPagePositions; end <= prompt.size(); end += kPagePositions) {
      state.page_hashes.push_back(ledger_.cache().hash_tokens(prompt.subspan(end - kPagePositions, kPagePositions)));
    }
  }
  if (!healthy()) {
    fail_request(state, fault_);
    forget_done();
    return;
  }
  const bool scoring_only = state.request.max_tokens == 0;
  for (Sequence& sequence : state.sequences) {
    if (scoring_only && !sequence.scores_prompt()) {
      finish(sequence, FinishReason::kLength, {});  // nothing to compute
    } else if (sequence.choice == 0 || state.share_end == 0) {
      start_waiting(sequence);
    }
  }
  forget_done();
}

void EngineCore::start_waiting(Sequence& sequence) {
  sequence.state = SequenceState::kWaiting;
  sequence.bypassed = 0;
  waiting_.insert(&sequence);
}

void EngineCore::cancel(RequestId id, int32_t choice, FinishReason reason) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  for (Sequence& sequence : found->second->sequences) {
    if (choice >= 0 && sequence.choice != choice) continue;
    if (sequence.state != SequenceState::kFinished) finish(sequence, reason, {});
  }
  forget_done();
}

void EngineCore::abort_all() {
  std::vector<RequestId> ids;
  for (const auto& entry : requests_) ids.push_back(entry.first);
  std::sort(ids.begin(), ids.end());
  for (const RequestId id : ids) cancel(id);
}

// Ends a sequence in any state. Its pages go back at once: steps in flight run before any later step that could get
// them. Its slot and its page tables stay until its last row in flight has been applied.
void EngineCore::finish(Sequence& sequence, FinishReason reason, TokenEvent event) {
  RequestState& request = *sequence.request;
  const SequenceState before = std::exchange(sequence.state, SequenceState::kFinished);
  CHECK(before != SequenceState::kFinished);
  if (before == SequenceState::kWaiting) CHECK(waiting_.erase(&sequence) == 1);
  if (before == SequenceState::kRunning) stop_running(sequence);
  if (before != SequenceState::kRunning) ledger_.release(sequence.pages);
  drop_swapped(sequence);
  sequence.constraint.reset();
  --sequences_left_;
  --request.sequences_left;
  ++counters_.finished[static_cast<size_t>(reason)];
  if (request.sequences_left == 0) {
    mark_started(request);
    count_waiting(request, false);
  }

  // A choice that others waited for is gone: the next one computes the shared pages.
  const auto is = [](SequenceState state) { return [state](const Sequence& s) { return s.state == state; }; };
  const auto held = std::find_if(request.sequences.begin(), request.sequences.end(), is(SequenceState::kHeld));
  const bool anyone_ahead = std::any_of(request.sequences.begin(), request.sequences.end(), [](const Sequence& s) {
    return s.state == SequenceState::kWaiting || s.state == SequenceState::kRunning;
  });
  if (before != SequenceState::kHeld && held != request.sequences.end() && !anyone_ahead) start_waiting(*held);

  event.finish = reason;
  send(request, std::move(event), sequence);
  forget_if_done(request);
}

void EngineCore::fail_request(RequestState& request, const std::string& error) {
  for (Sequence& sequence : request.sequences) {
    if (sequence.state == SequenceState::kFinished) continue;
    TokenEvent event;
    event.error = error;
    finish(sequence, FinishReason::kError, std::move(event));
  }
}

// The executor is lost. Plans in flight are never applied; what they point to stays until the core is destroyed.
void EngineCore::fault(const std::string& message) {
  fault_ = message.empty() ? "executor fault" : message;
  std::vector<RequestId> ids;
  for (const auto& entry : requests_) ids.push_back(entry.first);
  std::sort(ids.begin(), ids.end());
  for (const RequestId id : ids) fail_request(*requests_.at(id), fault_);
  for (auto& step : in_flight_) spare_.push_back(std::move(step));
  in_flight_.clear();
}

void EngineCore::send(RequestState& request, TokenEvent event, const Sequence& sequence) {
  event.request = request.id;
  event.choice = sequence.choice;
  event.prompt_tokens = sequence.prompt_length();
  event.cached_tokens = request.cached_tokens;
  event.output_tokens = static_cast<int32_t>(sequence.output.size());
  ++events_;
  request.sink(std::move(event));
}

void EngineCore::forget_if_done(RequestState& request) {
  if (request.sequences_left > 0) return;
  for (const Sequence& sequence : request.sequences) {
    if (sequence.rows_in_flight > 0) return;
  }
  done_.push_back(request.id);
}

void EngineCore::forget_done() {
  for (const RequestId id : done_) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) continue;
    if (found->second->request.deadline_ns > 0) deadlines_.erase(found->second->deadline);
    requests_.erase(found);
  }
  done_.clear();
}

void EngineCore::mark_started(RequestState& request) {
  if (!std::exchange(request.started, true)) ++requests_started_;
}

// Requests that have begun wait, too, if none of their choices runs: nothing else bounds their number, because more
// urgent ones may keep them waiting.
void EngineCore::count_waiting(RequestState& request, bool waits) {
  const auto tokens = static_cast<int64_t>(request.request.prompt.size());
  requests_waiting_ += waits ? 1 : -1;
  counters_.waiting_tokens += waits ? tokens : -tokens;
}

void EngineCore::expire_deadlines() {
  if (deadlines_.empty()) return;
  const int64_t now_ns = clock_.now_ns();
  for (auto entry = deadlines_.begin(); entry != deadlines_.end() && entry->first <= now_ns; ++entry) {
    fail_request(*requests_.at(entry->second), "the request's deadline passed");
  }
}

EngineStats EngineCore::stats() const {
  EngineStats stats = counters_;
  stats.running = static_cast<int32_t>(running_.size());
  stats.waiting = static_cast<int32_t>(waiting_.size());
  stats.pages_full_free = ledger_.available(PagePoolKind::kFull);
  stats.pages_full = ledger_.pool(PagePoolKind::kFull).pages();
  stats.pages_full_cached = ledger_.cache().idle(PagePoolKind::kFull);
  stats.pages_sliding_free = ledger_.available(PagePoolKind::kSliding);
  stats.pages_sliding = ledger_.pool(PagePoolKind::kSliding).pages();
  stats.pages_sliding_cached = ledger_.cache().idle(PagePoolKind::kSliding);
  stats.swap_bytes_used = host_pages_.bytes_used();
  stats.swap_bytes_max = host_pages_.bytes_max();
  stats.healthy = healthy();
  return stats;
}

}  // namespace boreas
