// Who runs: admission, choices that share a prompt, preemption.
#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "engine/core.h"

namespace boreas {
namespace {

// A sequence that must wait for pages may be overtaken by so many younger ones in all; of the queue so many are looked
// at in a step. Both bound what one large request costs the others, and the others it.
constexpr int32_t kBypassMax = 32;
constexpr int32_t kLookahead = 16;

}  // namespace

// The first choice has computed what all share: the others become owners of those pages and queue up for the rest.
void EngineCore::fork_choices() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& leader = *running_[i];
    RequestState& request = *leader.request;
    if (request.share_end == 0 || leader.computed != request.share_end) continue;
    for (Sequence& sibling : request.sequences) {
      if (sibling.state != SequenceState::kHeld) continue;
      ledger_.share(leader.pages, sibling.pages, request.share_end);
      sibling.computed = request.share_end;
      start_waiting(sibling);
    }
  }
}

// Free pages that running sequences do not need for the tokens they already have.
EngineCore::PagesLeft EngineCore::pages_left() const {
  PagesLeft left{ledger_.pool(PagePoolKind::kFull).pages_free(), ledger_.pool(PagePoolKind::kSliding).pages_free()};
  for (const Sequence* sequence : running_) {
    const int32_t positions = std::min(sequence->known_length() + 1, sequence->length_max(limits_));
    left.full -= ledger_.full_missing(sequence->pages, positions);
    left.sliding -= ledger_.sliding_missing(sequence->pages, positions);
  }
  return left;
}

// Room for all that the sequence has so far and one token more; then it is subtracted.
bool EngineCore::take_pages(const Sequence& sequence, PagesLeft& left) const {
  const int32_t positions = std::min(sequence.known_length() + 1, sequence.length_max(limits_));
  const int32_t full = ledger_.full_missing(sequence.pages, positions);
  const int32_t sliding = ledger_.sliding_missing(sequence.pages, positions);
  if (full > left.full || sliding > left.sliding) return false;
  left.full -= full;
  left.sliding -= sliding;
  return true;
}

void EngineCore::admit() {
  if (waiting_.empty()) return;
  const auto full_house = [&] {
    return slots_free_.empty() || static_cast<int32_t>(running_.size()) >= limits_.running_max;
  };
  if (full_house()) return;
  PagesLeft left = pages_left();
  std::vector<Sequence*> passed_over;
  for (auto next = waiting_.begin(); next != waiting_.end() && !full_house();) {
    Sequence& sequence = **next++;
    // Alone it fits by construction (limits.h), whatever waiting choices still hold.
    if (!take_pages(sequence, left) && !running_.empty()) {
      passed_over.push_back(&sequence);
      if (sequence.bypassed >= kBypassMax || static_cast<int32_t>(passed_over.size()) >= kLookahead) return;
      continue;
    }
    for (Sequence* older : passed_over) ++older->bypassed;
    start_running(sequence);
  }
}

void EngineCore::start_running(Sequence& sequence) {
  CHECK(waiting_.erase(&sequence) == 1);
  sequence.state = SequenceState::kRunning;
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, RunsBefore()), &sequence);
  mark_started(*sequence.request);
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
  if (sequence.rows_in_flight > 0) {
    // The tables are still read: only the references go. A copy is released, the original stays as it is.
    SequencePages copy = sequence.pages;
    ledger_.release(copy);
    sequence.pages.sliding_first = static_cast<int32_t>(sequence.pages.sliding.size());
    return;
  }
  ledger_.release(sequence.pages);
  if (healthy()) executor_.close_sequence(sequence.slot);
  slots_free_.push_back(sequence.slot);
  sequence.slot = -1;
}

// Back to the queue, without pages. Its tokens are computed again when it returns: the prompt as a prefill, generated
// tokens as the executor's arithmetic asks for; the outcome is known, so nothing is drawn twice.
void EngineCore::preempt(Sequence& sequence) {
  CHECK(sequence.state == SequenceState::kRunning && sequence.rows_in_flight == 0);
  stop_running(sequence);
  sequence.computed = 0;
  if (sequence.scores_prompt()) sequence.request->prompt_logprobs.clear();
  start_waiting(sequence);
  ++counters_.preemptions;
}

// Frees pages, youngest owners first: waiting choices give up the prompt pages they share, then a running sequence is
// preempted. The oldest sequence is never a victim while there is another, so it always ends.
void EngineCore::make_room() {
  CHECK(in_flight_.empty());
  for (auto holder = waiting_.rbegin(); holder != waiting_.rend(); ++holder) {
    if ((*holder)->pages.empty()) continue;
    ledger_.release((*holder)->pages);
    (*holder)->computed = 0;
    return;
  }
  CHECK(running_.size() > 1);  // a lone sequence fits (limits.h)
  preempt(*running_.back());
}

}  // namespace boreas
