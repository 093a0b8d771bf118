// One step: which rows, on which pages, and what came out.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/core.h"
#include "engine/planted_bug.h"

namespace boreas {
namespace {

// Prompt tokens that are scored in a step: their logits are [tokens, vocab_size] fp32 somewhere, 64 MiB for 64 tokens
// over 262,144 entries.
constexpr int32_t kScoreTokensMax = 64;

}  // namespace

void EngineCore::step() {
  if (!healthy()) return;
  expire_deadlines();
  // Steps in flight run before the next one, so pages that only they still read may change hands now.
  for (Sequence* sequence : running_) ledger_.leave_window(sequence->pages, sequence->range_start());
  fork_choices();
  admit();
  if (!healthy()) return forget_done();
  const bool submitted = submit_next();
  const bool pipeline_full = static_cast<int32_t>(in_flight_.size()) >= limits_.steps_in_flight_max;
  if (!in_flight_.empty() && (pipeline_full || !submitted)) retire_oldest();
  forget_done();
}

bool EngineCore::submit_next() {
  if (spare_.empty()) {
    spare_.push_back(std::make_unique<InFlight>());
    spare_.back()->tokens.reserve(static_cast<size_t>(limits_.step_tokens_max));
  }
  std::unique_ptr<InFlight> step = std::move(spare_.back());
  spare_.pop_back();
  bool built = build_plan(*step);
  if (!built) {
    drain_in_flight();
    built = healthy() && build_plan(*step);
    CHECK(built || !healthy());
  }
  if (!healthy() || step->plan.rows.empty()) {
    spare_.push_back(std::move(step));
    return false;
  }
  auto ticket = executor_.submit(step->plan);
  if (!ticket.ok()) {
    in_flight_.push_back(std::move(step));
    fault(ticket.error().message);
    return false;
  }
  ++counters_.steps;
  step->ticket = ticket.value();
  in_flight_.push_back(std::move(step));
  return true;
}

// A sequence whose next input is known or in flight, and that may have a next token.
bool EngineCore::may_run(const Sequence& sequence) const {
  if (sequence.samples_in_flight == 0) return !(sequence.scores_prompt() && sequence.rows_in_flight > 0);
  if (sequence.constraint != nullptr) return false;  // the next mask depends on tokens not read yet
  return sequence.known_length() + sequence.samples_in_flight < sequence.length_max(limits_);
}

BatchCandidate EngineCore::candidate(const Sequence& sequence) const {
  BatchCandidate result;
  const int32_t end = sequence.prefill_end(limits_);
  if (sequence.computed >= end) {
    result.single = true;
    return result;
  }
  const int32_t share_end = sequence.request->share_end;
  const int32_t start = sequence.range_start();
  result.left = (sequence.computed < share_end ? share_end : end) - start;
  result.left_in_all = end - start;
  result.tokens_max = limits_.step_tokens_max;
  result.scored = sequence.computes_as_scored(limits_);
  return result;
}

BatchBudget EngineCore::budget_for(const std::vector<BatchCandidate>& candidates, bool paced) const {
  BatchBudget budget;
  budget.tokens = budget.prefill = limits_.step_tokens_max;
  budget.rows = limits_.rows_max;
  budget.scored = kScoreTokensMax;
  const auto decodes = [](const BatchCandidate& candidate) { return candidate.single; };
  if (paced && std::any_of(candidates.begin(), candidates.end(), decodes)) {
    budget.prefill = std::min(budget.prefill, pacer_.prefill_tokens_max());
  }
  return budget;
}

bool EngineCore::build_plan(InFlight& step) {
  step.plan.rows.clear();
  step.rows.clear();
  step.tokens.clear();
  step.decode_rows = step.prefill_tokens = 0;
  bool paced = true;
  for (;;) {
    std::vector<Sequence*> sequences;
    std::vector<BatchCandidate> candidates;
    for (Sequence* sequence : running_) {
      if (!may_run(*sequence)) continue;
      sequences.push_back(sequence);
      candidates.push_back(candidate(*sequence));
    }
    const auto picked = pick_rows(candidates, budget_for(candidates, paced));
    for (size_t i = 0; i < sequences.size(); ++i) {
      Sequence& sequence = *sequences[i];
      if (picked[i] == 0 || !candidates[i].single || sequence.state != SequenceState::kRunning) continue;
      if (!cover(sequence, sequence.computed, sequence.computed + 1)) return false;
    }
    for (size_t i = 0; i < sequences.size(); ++i) {
      Sequence& sequence = *sequences[i];
      if (picked[i] == 0 || sequence.state != SequenceState::kRunning) continue;
      if (candidates[i].single) {
        add_row(step, sequence, sequence.computed, sequence.computed + 1);
      } else {
        add_chunk(step, sequence, picked[i]);
      }
    }
    // Chunks take what is free and preempt nobody, unless nothing moves at all.
    if (!step.plan.rows.empty() || running_.empty() || !in_flight_.empty()) return true;
    // The decode rows that prefill waited for were put out: it may have their place.
    if (std::exchange(paced, false) && pacer_.prefill_tokens_max() == 0) continue;
    make_room();
  }
}

// Pages for a decode row; makes room if need be, youngest sequences first, which may hit this one. False: results in
// flight must be applied first.
bool EngineCore::cover(Sequence& sequence, int32_t start, int32_t end) {
  while (sequence.state == SequenceState::kRunning && !ledger_.cover(sequence.pages, start, end)) {
    if (!in_flight_.empty()) return false;
    make_room();
  }
  return true;
}

// As much of a prefill chunk as there are pages for.
void EngineCore::add_chunk(InFlight& step, Sequence& sequence, int32_t tokens) {
  const BatchCandidate wanted = candidate(sequence);
  const int32_t start = sequence.range_start();
  ledger_.leave_window(sequence.pages, start);
  const int32_t reachable = ledger_.reachable_end(sequence.pages, start + tokens);
  const int32_t taken = chunk_tokens(wanted.left, reachable - start);
  if (taken == 0) return;
  CHECK(ledger_.cover(sequence.pages, start, start + taken));
  const bool last_score_slice = sequence.scores_prompt() && start > 0 && start + taken == sequence.prompt_length();
  if (last_score_slice) {
    // Earlier slices made the executor sample (and count) tokens that are not part of the output.
    executor_.close_sequence(sequence.slot);
    open_slot(sequence);
  }
  add_row(step, sequence, start, start + taken);
}

// Of a row up to `end`, when it is or was computed for the first time. Of generated tokens nothing: where it matters
// they come one by one, and a range of one token is a decode in any case.
LogitsWanted EngineCore::wanted_at_first(const Sequence& sequence, int32_t end) {
  if (end > sequence.prompt_length()) return LogitsWanted::kNone;
  if (sequence.has_scored_prompt()) return LogitsWanted::kAll;
  return end == sequence.prompt_length() ? LogitsWanted::kLast : LogitsWanted::kNone;
}

void EngineCore::add_row(InFlight& step, Sequence& sequence, int32_t start, int32_t end) {
  StepRow row;
  row.slot = sequence.slot;
  row.position = planted(PlantedBug::kResumePosition) && sequence.preempted ? start + 1 : start;
  if (start < sequence.known_length()) {
    const size_t first = step.tokens.size();
    CHECK(first + static_cast<size_t>(end - start) <= step.tokens.capacity());
    for (int32_t position = start; position < end; ++position) step.tokens.push_back(sequence.token_at(position));
    row.tokens = std::span(step.tokens).subspan(first);
  } else {
    CHECK(sequence.sampled_in_step == counters_.steps - 1);  // only the plan before is fed back
  }
  const auto pages = static_cast<size_t>(pages_for(end));
  row.full_pages = std::span(sequence.pages.full).first(pages);
  if (!sequence.pages.sliding.empty()) {
    row.sliding_first = sequence.pages.sliding_first;
    if (planted(PlantedBug::kWindowPageEarly)) {
      row.sliding_first = std::min(row.sliding_first, ledger_.first_visible_page(start));
    }
    row.sliding_pages = std::span(sequence.pages.sliding).first(pages).subspan(static_cast<size_t>(row.sliding_first));
  }
  PlannedRow planned;
  planned.sequence = &sequence;
  planned.end = end;
  planned.scores = sequence.scores_prompt() && end <= sequence.prompt_length();
  // Rows before the newest token only fill pages: the prompt's chunks, and replay after preemption.
  planned.samples = end == sequence.known_length() + sequence.samples_in_flight;
  if (planned.samples) {
    row.logits = LogitsWanted::kLast;
    if (sequence.constraint != nullptr) row.mask = sequence.constraint->mask();
  }
  if (planned.scores) {
    row.logits = LogitsWanted::kAll;
    row.prompt_top_logprobs = sequence.request->request.prompt_top_logprobs;
  }
  row.replays = wanted_at_first(sequence, end);
  counters_.computed_tokens += end - start;
  (end - start == 1 ? step.decode_rows : step.prefill_tokens) += end - start;
  publish_pages(sequence, end);
  sequence.computed = end;
  ++sequence.rows_in_flight;
  sequence.samples_in_flight += planned.samples;
  if (planned.samples) sequence.sampled_in_step = counters_.steps;
  step.plan.rows.push_back(std::move(row));
  step.rows.push_back(planned);
}

void EngineCore::drain_in_flight() {
  while (!in_flight_.empty()) retire_oldest();
}

void EngineCore::retire_oldest() {
  auto result = executor_.wait(in_flight_.front()->ticket);
  if (!result.ok()) {
    fault(result.error().message);
    return;
  }
  std::unique_ptr<InFlight> step = std::move(in_flight_.front());
  in_flight_.pop_front();
  count_times(*step, result.value());
  apply(*step, result.value());
  spare_.push_back(std::move(step));
}

void EngineCore::count_times(const InFlight& step, const StepResult& result) {
  counters_.prefill_ns += pacer_.observe(step.decode_rows, step.prefill_tokens, result.elapsed_ns);
  counters_.step_ns += result.elapsed_ns;
  if (step.decode_rows == 0) return;
  ++counters_.decode_steps;
  counters_.decode_rows += step.decode_rows;
  if (step.prefill_tokens > 0 || result.bytes_read == 0) return;
  DecodeReads& reads = counters_.decode_reads;
  ++reads.steps;
  reads.rows += step.decode_rows;
  for (const PlannedRow& row : step.rows) reads.positions += row.end;
  reads.distinct_experts += result.distinct_experts;
  reads.bytes += result.bytes_read;
}

void EngineCore::apply(InFlight& step, StepResult& result) {
  CHECK(result.rows.size() == step.rows.size());
  for (size_t i = 0; i < step.rows.size(); ++i) {
    Sequence& sequence = *step.rows[i].sequence;
    --sequence.rows_in_flight;
    sequence.samples_in_flight -= step.rows[i].samples;
    if (sequence.state != SequenceState::kFinished) {
      apply_row(step.rows[i], result.rows[i]);
    } else if (sequence.rows_in_flight == 0) {
      executor_.close_sequence(sequence.slot);
      slots_free_.push_back(sequence.slot);
      forget_if_done(*sequence.request);
    }
  }
}

void EngineCore::apply_row(const PlannedRow& planned, RowResult& result) {
  Sequence& sequence = *planned.sequence;
  const bool scores_finite = !planned.scores || apply_prompt_scores(planned, result);
  if ((planned.samples || planned.scores) && scores_finite && !result.sampled.corrupted) {
    verify_pages(sequence, planned.end);
  }
  if (!scores_finite) {
    fail_request(*sequence.request, "the model's logits are not finite");
  } else if (planned.samples && sequence.request->request.max_tokens == 0) {
    TokenEvent event;
    event.prompt_logprobs = std::move(sequence.request->prompt_logprobs);
    finish(sequence, FinishReason::kLength, std::move(event));
  } else if (planned.samples) {
    apply_token(sequence, std::move(result.sampled));
  }
}

bool EngineCore::apply_prompt_scores(const PlannedRow& planned, RowResult& result) {
  std::vector<SampledToken>& scores = planned.sequence->request->prompt_logprobs;
  for (SampledToken& score : result.prompt_logprobs) {
    if (score.corrupted) return false;
    scores.push_back(std::move(score));
  }
  CHECK(static_cast<int32_t>(scores.size()) == planned.end - 1);
  return true;
}

void EngineCore::apply_token(Sequence& sequence, SampledToken token) {
  RequestState& request = *sequence.request;
  if (token.corrupted) {
    fail_request(request, "the model's logits are not finite, or no token is allowed");
    return;
  }
  CHECK(token.id >= 0 && token.id < limits_.vocab_size);
  TokenEvent event;
  if (sequence.scores_prompt()) event.prompt_logprobs = std::move(request.prompt_logprobs);
  const bool stop = std::binary_search(request.request.stop_ids.begin(), request.request.stop_ids.end(), token.id);
  if (!stop && sequence.constraint != nullptr && !sequence.constraint->accept(token.id)) {
    fail_request(request, "the executor sampled a token that the constraint forbids");
    return;
  }
  sequence.output.push_back(token.id);
  ++counters_.output_tokens;
  event.tokens.push_back(std::move(token));
  if (stop) {
    finish(sequence, FinishReason::kStop, std::move(event));
  } else if (sequence.known_length() >= sequence.length_max(limits_)) {
    finish(sequence, FinishReason::kLength, std::move(event));
  } else {
    send(request, std::move(event), sequence);
  }
}

}  // namespace boreas
