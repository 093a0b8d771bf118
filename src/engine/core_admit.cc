// Who runs: admission, choices that share a prompt, preemption.
#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "engine/core.h"

namespace boreas {
namespace {

// Of the queue so many that do not fit are looked at in a step.
constexpr int32_t kLookahead = 16;

// Looking for a long text in the cache takes tens of microseconds. A sequence that did not fit is looked at again when
// so many pages are there as it wanted, or after so many steps: others may have begun to use the same pages.
constexpr int64_t kStepsToNextLook = 16;

}  // namespace

// The first choice has computed what all share: the others become owners of those pages and queue up for the rest.
void EngineCore::fork_choices() {
  for (size_t i = 0; i < running_.size(); ++i) fork(*running_[i]);
}

void EngineCore::fork(const Sequence& leader) {
  RequestState& request = *leader.request;
  if (request.share_end == 0 || leader.computed != request.share_end) return;
  for (Sequence& sibling : request.sequences) {
    if (sibling.state != SequenceState::kHeld) continue;
    ledger_.share(leader.pages, sibling.pages, request.share_end);
    sibling.computed = request.share_end;
    sibling.exact = leader.exact;
    start_waiting(sibling);
  }
}

// Available pages that running sequences do not need for the tokens they already have.
EngineCore::PagesLeft EngineCore::pages_left() const {
  PagesLeft left{ledger_.available(PagePoolKind::kFull), ledger_.available(PagePoolKind::kSliding)};
  for (const Sequence* sequence : running_) {
    const int32_t positions = std::min(sequence->known_length() + 1, sequence->length_max(limits_));
    left.full -= ledger_.full_missing(sequence->pages, positions);
    left.sliding -= ledger_.sliding_missing(sequence->pages, positions);
  }
  return left;
}

// Room for all that the sequence has so far and one token more; then it is subtracted. Pages that it shares with
// running sequences cost nothing; cached pages that nobody uses are among the available ones and cost as much as
// others. hit: what it takes from the prefix cache.
bool EngineCore::take_pages(Sequence& sequence, PagesLeft& left, std::vector<NodeId>& hit) {
  hit.clear();
  const bool alone = running_.empty();
  if (!alone && left.full < sequence.pages_wanted && counters_.steps < sequence.next_look_step) return false;
  const int32_t positions = std::min(sequence.known_length() + 1, sequence.length_max(limits_));
  int32_t full = ledger_.full_missing(sequence.pages, positions);
  const int32_t sliding = ledger_.sliding_missing(sequence.pages, positions);
  if (sequence.swapped != nullptr) {
    full -= swapped_pages_in_use(sequence);
  } else if (sequence.pages.empty()) {
    find_prefix(sequence);
    // Even if all of them are in use already.
    if (full - sequence.match.pages > left.full && !alone) return false;
    hit = usable_prefix(sequence);
    const PagePool& pool = ledger_.pool(PagePoolKind::kFull);
    for (const NodeId node : hit) {
      full -= pool.references(ledger_.cache().node(node).at(PagePoolKind::kFull).page) > 1;
    }
  }
  if (full > left.full || sliding > left.sliding) {
    sequence.pages_wanted = full;
    sequence.next_look_step = counters_.steps + kStepsToNextLook;
    return false;
  }
  left.full -= full;
  left.sliding -= sliding;
  return true;
}

// Preempted sequences return in their order: none starts while an older one of them waits for pages.
void EngineCore::admit() {
  if (waiting_.empty()) return;
  const auto full_house = [&] {
    return slots_free_.empty() || static_cast<int32_t>(running_.size()) >= limits_.running_max;
  };
  if (full_house()) return;
  PagesLeft left = pages_left();
  std::vector<Sequence*> passed_over;
  std::vector<NodeId> hit;
  bool preempted_waits = false;
  const auto may_be_overtaken = [](const Sequence* sequence) { return sequence->bypassed < kBypassMax; };
  for (auto next = waiting_.begin(); healthy() && next != waiting_.end() && !full_house();) {
    Sequence& sequence = **next;
    bool fits = !(sequence.preempted && preempted_waits) && take_pages(sequence, left, hit);
    // Alone it fits by construction (limits.h), once waiting choices give up what they hold.
    while (!fits && running_.empty() && release_waiting_holder()) {
      left = pages_left();
      fits = take_pages(sequence, left, hit);
    }
    ++next;
    if (!fits && !running_.empty()) {
      passed_over.push_back(&sequence);
      preempted_waits = preempted_waits || sequence.preempted;
    } else {
      for (Sequence* older : passed_over) ++older->bypassed;
      start_running(sequence, hit);
      if (!fits) left = pages_left();  // nothing was subtracted for it
    }
    if (static_cast<int32_t>(passed_over.size()) >= kLookahead) return;
    if (!std::all_of(passed_over.begin(), passed_over.end(), may_be_overtaken)) return;
  }
}

void EngineCore::start_running(Sequence& sequence, const std::vector<NodeId>& hit) {
  CHECK(waiting_.erase(&sequence) == 1);
  sequence.state = SequenceState::kRunning;
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, RunsBefore()), &sequence);
  if (sequence.request->sequences_running++ == 0) count_waiting(*sequence.request, false);
  const Request& request = sequence.request->request;
  if (!sequence.constraint_made && request.make_constraint) sequence.constraint = request.make_constraint();
  sequence.constraint_made = true;
  // Spans of plans in flight point into the tables: they must not move.
  const auto pages_max = static_cast<size_t>(pages_for(sequence.length_max(limits_)));
  sequence.pages.full.reserve(pages_max);
  sequence.pages.sliding.reserve(pages_max);
  sequence.slot = slots_free_.back();
  slots_free_.pop_back();
  open_slot(sequence);
  if (sequence.swapped != nullptr) {
    swap_in(sequence);
    return;
  }
  adopt_prefix(sequence, hit);
  count_start(sequence);
  fork(sequence);
}

void EngineCore::count_start(Sequence& sequence) {
  RequestState& request = *sequence.request;
  if (request.started) return;
  mark_started(request);
  const int32_t prompt = sequence.prompt_length();
  request.cached_tokens = sequence.computed;
  counters_.cached_tokens += sequence.computed;
  counters_.prompt_tokens += prompt - sequence.computed;
  if (limits_.prefix_cache && !sequence.scores_prompt()) counters_.prefix_query_tokens += prompt;
}

void EngineCore::open_slot(Sequence& sequence) {
  SequenceSpec spec;
  spec.sampling = sequence.request->request.sampling;
  spec.sampling.choice_index = sequence.choice;
  spec.prompt = sequence.request->request.prompt;
  spec.output = sequence.output;
  executor_.open_sequence(sequence.slot, spec);
}

// Takes a sequence out of the running ones. The slot is closed now, or when its last row in flight is applied.
void EngineCore::stop_running(Sequence& sequence) {
  const auto place = std::find(running_.begin(), running_.end(), &sequence);
  CHECK(place != running_.end());
  running_.erase(place);
  if (--sequence.request->sequences_running == 0) count_waiting(*sequence.request, true);
  if (sequence.rows_in_flight > 0) {
    // The tables are still read: only the references go. A copy is released, the original stays as it is.
    SequencePages copy = sequence.pages;
    ledger_.release(copy);
    sequence.pages.sliding_first = static_cast<int32_t>(sequence.pages.sliding.size());
    sequence.pages.path.clear();
    sequence.pages.root = kNoNode;
    return;
  }
  ledger_.release(sequence.pages);
  if (healthy()) executor_.close_sequence(sequence.slot);
  slots_free_.push_back(sequence.slot);
  sequence.slot = -1;
}

// Back to the queue, without pages. They go to host memory; without room there the tokens are computed again when it
// returns: the prompt as a prefill, generated tokens as the executor's arithmetic asks for. The outcome is known, so
// nothing is drawn twice.
void EngineCore::preempt(Sequence& sequence) {
  CHECK(sequence.state == SequenceState::kRunning && sequence.rows_in_flight == 0);
  const bool swapped = swap_out(sequence);
  if (!healthy()) return;
  stop_running(sequence);
  if (!swapped) {
    counters_.recomputations += sequence.computed > 0;
    sequence.computed = 0;
    sequence.exact = true;
    sequence.match = PrefixMatch();
    if (sequence.scores_prompt()) sequence.request->prompt_logprobs.clear();
  }
  sequence.preempted = true;
  start_waiting(sequence);
  ++counters_.preemptions;
}

// The youngest waiting choice that owns prompt pages without running gives them up.
bool EngineCore::release_waiting_holder() {
  for (auto holder = waiting_.rbegin(); holder != waiting_.rend(); ++holder) {
    if ((*holder)->pages.empty()) continue;
    ledger_.release((*holder)->pages);
    (*holder)->computed = 0;
    (*holder)->exact = true;
    return true;
  }
  return false;
}

// Makes pages available, youngest owners first: waiting choices give up the prompt pages they share, then a running
// sequence is preempted. The oldest sequence is never a victim while there is another, so it always ends.
void EngineCore::make_room() {
  CHECK(in_flight_.empty());
  if (release_waiting_holder()) return;
  CHECK(running_.size() > 1);  // a lone sequence fits (limits.h)
  preempt(*running_.back());
}

}  // namespace boreas
