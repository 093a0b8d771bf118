#include "exec/fake/fake_executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <thread>

#include "base/check.h"

namespace boreas {
namespace {

constexpr uint64_t kSlidingTag = 0x51, kFullTag = 0xf1, kDecodeTag = 0xdec0, kLogitTag = 0x106;

// The finalizer of a 64-bit mixing hash over two words.
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15ull ^ (b + 0xd1b54a32d192ed03ull);
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

uint64_t mix_position(TokenId token, int32_t position) {
  return mix(static_cast<uint64_t>(static_cast<uint32_t>(token)), static_cast<uint64_t>(position));
}

uint64_t mix_text(TokenId token, int32_t place) {
  return mix(static_cast<uint64_t>(token), ~static_cast<uint64_t>(place));
}

int32_t page_index(int32_t position) { return position / kPagePositions; }

}  // namespace

FakeExecutor::FakeExecutor(const FakeOptions& options)
    : options_(options),
      full_(static_cast<size_t>(options.pages_full)),
      sliding_(static_cast<size_t>(options.window > 0 ? options.pages_sliding : 0)),
      slots_(static_cast<size_t>(options.sequence_slots)) {
  info_.name = "fake";
  info_.device = "no model: hashes of what is read";
  info_.vocab_size = options.vocab_size;
  info_.context_max = options.context_max;
  info_.window = options.window;
  info_.sequence_slots = options.sequence_slots;
  info_.rows_max = options.rows_max;
  info_.tokens_max = options.tokens_max;
  info_.pages_full = static_cast<int32_t>(full_.size());
  info_.pages_sliding = static_cast<int32_t>(sliding_.size());
  info_.page_bytes_full = sizeof(Page);
  info_.page_bytes_sliding = sliding_.empty() ? 0 : sizeof(Page);
  info_.steps_in_flight_max = options.steps_in_flight_max;
  info_.one_arithmetic = options.one_arithmetic;
}

int32_t FakeExecutor::open_slots() const {
  return static_cast<int32_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.open; }));
}

bool FakeExecutor::page_holds(PagePoolKind pool, PageId page, int32_t first_position,
                              std::span<const TokenId> tokens) const {
  const Page& held = pool_of(pool)[static_cast<size_t>(page.value)];
  for (int32_t i = 0; i < static_cast<int32_t>(tokens.size()); ++i) {
    const Entry& entry = held.entries[i];
    if (entry.position != first_position + i || entry.token != tokens[static_cast<size_t>(i)]) return false;
  }
  return true;
}

void FakeExecutor::open_sequence(int32_t slot, const SequenceSpec& spec) {
  CHECK(slot >= 0 && slot < info_.sequence_slots);
  Slot& opened = slots_[static_cast<size_t>(slot)];
  CHECK(!opened.open);
  opened = Slot();
  opened.open = true;
  opened.sampling = spec.sampling;
  opened.prompt.assign(spec.prompt.begin(), spec.prompt.end());
  opened.penalties = PenaltyState(spec.prompt, spec.output);
  opened.text = opened.prompt;
  opened.text.insert(opened.text.end(), spec.output.begin(), spec.output.end());
}

void FakeExecutor::close_sequence(int32_t slot) {
  CHECK(slots_[static_cast<size_t>(slot)].open);
  for (const Pending& pending : pending_) {
    for (const StepRow& row : pending.plan.rows) CHECK(row.slot != slot);  // a step in flight still uses it
  }
  slots_[static_cast<size_t>(slot)] = Slot();
}

void FakeExecutor::check_plan(const StepPlan& plan) const {
  CHECK(!plan.rows.empty() && plan.rows.size() <= static_cast<size_t>(info_.rows_max));
  size_t tokens = 0;
  std::vector<bool> used(slots_.size());
  for (const StepRow& row : plan.rows) {
    CHECK(row.slot >= 0 && row.slot < info_.sequence_slots);
    const auto slot = static_cast<size_t>(row.slot);
    CHECK(slots_[slot].open);
    CHECK(!used[slot]);
    used[slot] = true;
    const int32_t count = std::max(static_cast<int32_t>(row.tokens.size()), 1);
    tokens += static_cast<size_t>(count);
    const int32_t end = row.position + count;
    CHECK(row.position >= 0 && end <= info_.context_max);
    for (const TokenId token : row.tokens) CHECK(token >= 0 && token < info_.vocab_size);
    CHECK(static_cast<int32_t>(row.full_pages.size()) == page_index(end - 1) + 1);
    if (!options_.reads) continue;
    for (const PageId page : row.full_pages) CHECK(page.value >= 0 && page.value < info_.pages_full);
    if (info_.window == 0) continue;
    CHECK(row.sliding_first <= page_index(std::max(0, row.position - info_.window + 1)));
    CHECK(row.sliding_first + static_cast<int32_t>(row.sliding_pages.size()) == page_index(end - 1) + 1);
    for (const PageId page : row.sliding_pages) CHECK(page.value >= 0 && page.value < info_.pages_sliding);
  }
  CHECK(tokens <= static_cast<size_t>(info_.tokens_max));
}

Result<StepTicket> FakeExecutor::submit(const StepPlan& plan) {
  if (failed_) return Error{"fake executor: it has failed before"};
  CHECK(pending_.size() < static_cast<size_t>(info_.steps_in_flight_max));
  if (steps_submitted_ == faults_.submit_error_step) {
    failed_ = true;
    return Error{"fake executor: injected fault in submit"};
  }
  check_plan(plan);
  Pending pending;
  pending.ticket = static_cast<StepTicket>(steps_submitted_++);
  pending.plan = plan;
  if (options_.clock == nullptr) pending.submitted = std::chrono::steady_clock::now();
  pending_.push_back(std::move(pending));
  return pending_.back().ticket;
}

Result<StepResult> FakeExecutor::wait(StepTicket ticket) {
  CHECK(!pending_.empty() && pending_.front().ticket == ticket);
  if (failed_ || static_cast<int64_t>(ticket) == faults_.wait_error_step) {
    failed_ = true;
    return Error{"fake executor: injected fault in wait"};
  }
  Pending& front = pending_.front();
  if (!front.done) front.result = run_step(static_cast<int64_t>(ticket), front.plan);
  StepResult result = std::move(front.result);
  const Time begin = std::max(front.submitted, step_end_);
  pending_.pop_front();
  if (options_.clock != nullptr) {
    options_.clock->advance_ns(result.elapsed_ns);
  } else if (result.elapsed_ns > 0) {
    step_end_ = begin + std::chrono::nanoseconds(result.elapsed_ns);
    std::this_thread::sleep_until(step_end_);
  }
  return result;
}

// Everything that is ordered after the submitted steps calls this first.
void FakeExecutor::run_pending() {
  for (Pending& pending : pending_) {
    if (pending.done) continue;
    pending.result = run_step(static_cast<int64_t>(pending.ticket), pending.plan);
    pending.done = true;
  }
}

StepResult FakeExecutor::run_step(int64_t step, const StepPlan& plan) {
  StepResult result;
  const int64_t tokens_before = tokens_computed_;
  for (const StepRow& row : plan.rows) result.rows.push_back(run_row(step, row));
  result.elapsed_ns = options_.step_ns + options_.token_ns * (tokens_computed_ - tokens_before);
  if (step == faults_.slow_step) result.elapsed_ns += faults_.slow_ns;
  if (options_.step_bytes == 0) return result;
  result.bytes_read = options_.step_bytes;
  for (const StepRow& row : plan.rows)
    result.bytes_read += options_.position_bytes * (row.position + std::max<int64_t>(std::ssize(row.tokens), 1));
  result.distinct_experts = options_.row_experts * static_cast<int32_t>(plan.rows.size());
  return result;
}

RowResult FakeExecutor::run_row(int64_t step, const StepRow& row) {
  RowResult result;
  Slot& slot = slots_[static_cast<size_t>(row.slot)];
  std::vector<TokenId> tokens(row.tokens.begin(), row.tokens.end());
  if (tokens.empty()) {
    CHECK(slot.sampled_step == step - 1);  // feedback is of the plan just before
    tokens.push_back(std::max(slot.last_sampled, 0));
  }
  // As the CUDA executor: decode steps, and tokens whose logits are or were wanted.
  const bool all = tokens.size() == 1 || row.logits == LogitsWanted::kAll || row.replays == LogitsWanted::kAll;
  const bool last_one = row.logits == LogitsWanted::kLast || row.replays == LogitsWanted::kLast;
  uint64_t read_hash = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool decode = !options_.one_arithmetic && (all || (last_one && i + 1 == tokens.size()));
    read_hash = run_token(row, slot, tokens[i], row.position + static_cast<int32_t>(i), decode);
    if (row.logits != LogitsWanted::kAll || i + 1 == tokens.size()) continue;
    result.prompt_logprobs.push_back(score_token(logits_of(read_hash), tokens[i + 1], row.prompt_top_logprobs));
  }
  tokens_computed_ += static_cast<int64_t>(tokens.size());
  if (row.logits == LogitsWanted::kNone) return result;
  const int32_t last = row.position + static_cast<int32_t>(tokens.size()) - 1;
  result.sampled = outcome(step, row, slot, read_hash, last);
  slot.last_sampled = result.sampled.id;
  slot.sampled_step = step;
  if (!options_.reads) return result;
  if (result.sampled.id >= 0) slot.penalties.add_output(result.sampled.id);
  if (static_cast<int32_t>(slot.text.size()) == last + 1) slot.text.push_back(std::max(result.sampled.id, 0));
  return result;
}

uint64_t FakeExecutor::run_token(const StepRow& row, Slot& slot, TokenId token, int32_t position, bool decode) {
  if (!options_.reads) return 0;
  for (auto page = static_cast<int32_t>(slot.page_texts.size()); (page + 1) * kPagePositions <= position + 1; ++page) {
    if (static_cast<size_t>(position) >= slot.text.size()) break;
    uint64_t text = 0;
    for (int32_t i = 0; i < kPagePositions; ++i) {
      text += mix_text(slot.text[static_cast<size_t>(page * kPagePositions + i)], i);
    }
    slot.page_texts.push_back(text);
  }
  const uint64_t own = mix(mix_position(token, position), decode ? kDecodeTag : 0);
  uint64_t window_hash = 0;
  if (info_.window > 0) {
    const uint64_t past = read(full_, slot, row.full_pages, 0, 0, position);
    const PageId page = row.sliding_pages[static_cast<size_t>(page_index(position) - row.sliding_first)];
    write(sliding_, page, position, {token, position, mix(own, mix(past, kSlidingTag))});
    window_hash = read(sliding_, slot, row.sliding_pages, row.sliding_first, std::max(0, position - info_.window + 1),
                       position + 1);
  }
  const PageId page = row.full_pages[static_cast<size_t>(page_index(position))];
  write(full_, page, position, {token, position, mix(own, mix(window_hash, kFullTag))});
  return mix(read(full_, slot, row.full_pages, 0, 0, position + 1), window_hash);
}

// Reads positions begin..end-1 through a page table whose first entry is page index table_first.
uint64_t FakeExecutor::read(const std::vector<Page>& pool, const Slot& slot, std::span<const PageId> table,
                            int32_t table_first, int32_t begin, int32_t end) {
  uint64_t hash = 0;
  for (int32_t position = begin; position < end;) {
    const int32_t index = page_index(position);
    const int32_t page_begin = index * kPagePositions;
    const int32_t stop = std::min(end, page_begin + kPagePositions);
    const Page& page = pool[static_cast<size_t>(table[static_cast<size_t>(index - table_first)].value)];
    uint64_t value = page.digest;
    wrong_reads_ += page.entries[position - page_begin].position != position;
    if (position != page_begin || stop != page_begin + kPagePositions) {
      value = 0;
      for (int32_t i = position; i < stop; ++i) {
        const Entry& entry = page.entries[i - page_begin];
        const auto place = static_cast<size_t>(i);
        wrong_reads_ += entry.position != i;
        wrong_texts_ += place >= slot.text.size() || entry.token != slot.text[place];
        value += mix(entry.hash, static_cast<uint64_t>(i - page_begin));
      }
    } else {
      const auto place = static_cast<size_t>(index);
      wrong_texts_ += place >= slot.page_texts.size() || page.text != slot.page_texts[place];
    }
    hash = mix(hash, value);
    position = stop;
  }
  return hash;
}

void FakeExecutor::write(std::vector<Page>& pool, PageId page_id, int32_t position, const Entry& entry) {
  Page& page = pool[static_cast<size_t>(page_id.value)];
  const int32_t place = position % kPagePositions;
  Entry& old = page.entries[place];
  if (old.position >= 0) {
    page.digest -= mix(old.hash, static_cast<uint64_t>(place));
    page.text -= mix_text(old.token, place);
  }
  old = entry;
  page.text += mix_text(entry.token, place);
  page.digest += mix(entry.hash, static_cast<uint64_t>(place));
}

std::vector<float> FakeExecutor::logits_of(uint64_t read_hash) const {
  std::vector<float> logits(static_cast<size_t>(info_.vocab_size));
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(mix(read_hash, i ^ kLogitTag << 32) >> 40) * 0x1p-21f - 4.0f;  // [-4, 4)
  }
  return logits;
}

TokenId FakeExecutor::scripted(const StepRow& row, const Slot& slot, int32_t position) const {
  if (!options_.script) return -1;
  const TokenId token = options_.script(slot.prompt, position + 1 - static_cast<int32_t>(slot.prompt.size()));
  CHECK(token >= -1 && token < info_.vocab_size);
  return token >= 0 && row.mask != nullptr && !row.mask->allows(token) ? -1 : token;
}

SampledToken FakeExecutor::outcome(int64_t step, const StepRow& row, Slot& slot, uint64_t read_hash, int32_t position) {
  const int32_t top = slot.sampling.top_logprobs;
  const bool corrupt = faults_.corrupt_row && faults_.corrupt_row(step, row);
  const TokenId given = row.forced_token >= 0 ? row.forced_token : scripted(row, slot, position);
  if (!options_.full_logits || (given >= 0 && top < 0)) {
    if (!corrupt) return pick_direct(row, slot, read_hash, given);
    SampledToken result;
    result.corrupted = true;
    return result;
  }
  std::vector<float> logits = logits_of(read_hash);
  if (corrupt) logits[static_cast<size_t>(step) % logits.size()] = std::numeric_limits<float>::quiet_NaN();
  if (given >= 0) return score_token(logits, given, top);
  return sample_token(logits, slot.sampling, slot.penalties, row.mask.get(), position + 1);
}

// The given token, or one hash chooses among the allowed ones. Logprobs are made up: 1/2 for the token, the rest halves
// from id 0 up.
SampledToken FakeExecutor::pick_direct(const StepRow& row, const Slot& slot, uint64_t read_hash, TokenId given) const {
  SampledToken result;
  const SamplingParams& sampling = slot.sampling;
  result.id = given;
  uint64_t hash = read_hash;
  if (sampling.temperature > 0) {
    hash = mix(hash, mix(sampling.seed, static_cast<uint64_t>(sampling.choice_index)));
  }
  if (result.id < 0 && row.mask == nullptr) {
    result.id = static_cast<TokenId>(hash % static_cast<uint64_t>(info_.vocab_size));
  }
  if (result.id < 0) {
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < info_.vocab_size; ++id) {
      if (row.mask->allows(id)) allowed.push_back(id);
    }
    result.corrupted = allowed.empty();
    if (allowed.empty()) return result;
    result.id = allowed[hash % allowed.size()];
  }
  if (sampling.top_logprobs < 0) return result;
  constexpr float kLogHalf = -0.6931472f;
  result.logprob = kLogHalf;
  if (sampling.top_logprobs > 0) result.top.push_back({result.id, kLogHalf});
  const int32_t count = std::min(sampling.top_logprobs, info_.vocab_size);
  for (TokenId id = 0; static_cast<int32_t>(result.top.size()) < count; ++id) {
    if (id != result.id) result.top.push_back({id, kLogHalf * static_cast<float>(result.top.size() + 1)});
  }
  return result;
}

Status FakeExecutor::swap_fault() {
  failed_ = failed_ || swap_calls_ == faults_.swap_error_call;
  ++swap_calls_;
  if (failed_) return Error{"fake executor: injected fault in a page copy"};
  return Ok{};
}

Status FakeExecutor::save_page(PagePoolKind pool, PageId page, std::span<std::byte> out) {
  run_pending();
  RETURN_IF_ERROR(swap_fault());
  CHECK(out.size() == sizeof(Page));
  std::memcpy(out.data(), &pool_of(pool)[static_cast<size_t>(page.value)], sizeof(Page));
  return Ok{};
}

Status FakeExecutor::restore_page(PagePoolKind pool, PageId page, std::span<const std::byte> in) {
  run_pending();
  RETURN_IF_ERROR(swap_fault());
  CHECK(in.size() == sizeof(Page));
  std::memcpy(&pool_of(pool)[static_cast<size_t>(page.value)], in.data(), sizeof(Page));
  return Ok{};
}

Status FakeExecutor::copy_page(PagePoolKind pool, PageId from, PageId to) {
  run_pending();
  std::vector<Page>& pages = pool_of(pool);
  pages[static_cast<size_t>(to.value)] = pages[static_cast<size_t>(from.value)];
  return Ok{};
}

}  // namespace boreas
