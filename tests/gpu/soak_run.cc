// See soak_run.h.
#include "tests/gpu/soak_run.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "program/layout.h"

namespace boreas {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Request {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  int32_t length = 0;             // tokens to draw
  std::vector<TokenId> expected;  // what it drew alone
};

// Mostly short prompts, some of a few pages, few that fill a window.
int32_t prompt_length(Prng& prng, int32_t most) {
  const uint32_t kind = prng.below(20);
  const int32_t bound = kind < 12 ? 60 : kind < 19 ? 900 : most;
  return 1 + static_cast<int32_t>(prng.below(static_cast<uint32_t>(std::min(bound, most))));
}

std::vector<Request> make_requests(const SoakOptions& options, const ExecutorInfo& info) {
  Prng prng(options.seed);
  std::vector<Request> requests(static_cast<size_t>(options.requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    request.prompt.resize(static_cast<size_t>(prompt_length(prng, options.prompt_max)));
    for (TokenId& token : request.prompt)
      token = static_cast<TokenId>(prng.below(static_cast<uint32_t>(info.vocab_size)));
    request.length = 8 + static_cast<int32_t>(prng.below(static_cast<uint32_t>(options.output_max - 7)));
    request.sampling.seed = options.seed * 1000 + i;
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 1.0f;
    request.sampling.top_p = i % 3 == 2 ? 0.9f : 1.0f;
  }
  return requests;
}

class Soak {
 public:
  Soak(Executor& executor, const SoakOptions& options)
      : executor_(executor),
        options_(options),
        prng_(options.seed * 7919 + 1),
        requests_(make_requests(options, executor.info())),
        slots_(static_cast<size_t>(options.slots)) {
    const int32_t pages = soak_pages(options);
    for (int32_t slot = 0; slot < options.slots; ++slot)
      for (int32_t page = 0; page < pages; ++page)
        slots_[static_cast<size_t>(slot)].pages.emplace_back(slot * pages + page);
  }

  Status run_alone() {
    for (size_t i = 0; i < requests_.size(); ++i) {
      join(slots_[0], i);
      while (slots_[0].is_taken()) RETURN_IF_ERROR(step());
      RETURN_IF_ERROR(drain());
      tell("alone: " + std::to_string(i + 1) + " of " + std::to_string(requests_.size()));
    }
    alone_ = false;
    return Ok{};
  }

  Status run_together(SoakReport& report) {
    report_ = {};
    const Clock::time_point start = Clock::now();
    while (seconds_since(start) < options_.seconds && report_.steps < options_.steps) {
      for (Slot& slot : slots_) {
        // Batches of all sizes: a free slot waits a while, and some leave before they are done.
        if (!slot.is_taken() && slot.in_flight == 0 && prng_.below(8) == 0)
          join(slot, prng_.below(static_cast<uint32_t>(requests_.size())));
        else if (slot.is_taken() && prng_.below(300) == 0 && !is_planned(slot)) leave(slot);
      }
      RETURN_IF_ERROR(step());
      tell(std::to_string(static_cast<int64_t>(seconds_since(start))) + " s: " + std::to_string(report_.tokens) +
           " tokens, " + std::to_string(report_.prompts) + " prompts, " + std::to_string(report_.mismatches) +
           " mismatches");
    }
    RETURN_IF_ERROR(drain());
    report_.seconds = seconds_since(start);
    report = report_;
    return Ok{};
  }

 private:
  struct Slot {
    std::vector<PageId> pages;
    int64_t request = -1;   // -1: free
    int32_t planned = 0;    // steps submitted for it
    int32_t in_flight = 0;  // of them, not looked at
    bool leaves = false;
    bool is_taken() const { return request >= 0 && !leaves; }
  };
  struct Planned {
    StepTicket ticket = 0;
    std::vector<std::pair<size_t, int32_t>> rows;  // slot, index of the token it draws
  };

  void join(Slot& slot, size_t request) {
    slot.request = static_cast<int64_t>(request);
    slot.planned = 0;
    slot.leaves = false;
    SequenceSpec spec;
    spec.sampling = requests_[request].sampling;
    spec.prompt = requests_[request].prompt;
    executor_.open_sequence(index_of(slot), spec);
    ++report_.prompts;
  }
  void leave(Slot& slot) {
    slot.leaves = true;
    ++report_.left_early;
    free_if_done(slot);
  }
  bool is_planned(const Slot& slot) const {
    return slot.planned == requests_[static_cast<size_t>(slot.request)].length;
  }
  void free_if_done(Slot& slot) {
    if (slot.in_flight > 0 || !(slot.leaves || is_planned(slot))) return;
    executor_.close_sequence(index_of(slot));
    slot.request = -1;
    slot.leaves = false;
  }
  int32_t index_of(const Slot& slot) const { return static_cast<int32_t>(&slot - slots_.data()); }

  // Submits a step of all who have one to take; looks at the oldest one when there are too many.
  Status step() {
    if (in_flight_.size() == static_cast<size_t>(executor_.info().steps_in_flight_max))
      RETURN_IF_ERROR(look_at_oldest());
    StepPlan plan;
    Planned planned;
    int32_t tokens = 0;
    for (Slot& slot : slots_) {
      if (!slot.is_taken()) continue;
      const Request& request = requests_[static_cast<size_t>(slot.request)];
      if (slot.planned == request.length || plan.rows.size() == static_cast<size_t>(executor_.info().rows_max))
        continue;
      const StepRow row = row_of(slot, request);
      const int32_t needed = std::max<int32_t>(1, static_cast<int32_t>(row.tokens.size()));
      if (tokens + needed > executor_.info().tokens_max) continue;
      tokens += needed;
      plan.rows.push_back(row);
      planned.rows.emplace_back(static_cast<size_t>(index_of(slot)), slot.planned++);
      ++slot.in_flight;
    }
    if (plan.rows.empty()) return in_flight_.empty() ? Status(Ok{}) : look_at_oldest();
    ASSIGN_OR_RETURN(planned.ticket, executor_.submit(plan));
    in_flight_.push_back(std::move(planned));
    ++report_.steps;
    return Ok{};
  }

  StepRow row_of(const Slot& slot, const Request& request) const {
    const int32_t prompt = static_cast<int32_t>(request.prompt.size());
    StepRow row;
    row.slot = index_of(slot);
    row.logits = LogitsWanted::kLast;
    if (slot.planned == 0) row.tokens = request.prompt;
    else row.position = prompt + slot.planned - 1;
    const int32_t end = slot.planned == 0 ? prompt : row.position + 1;
    const size_t pages = static_cast<size_t>(ceil_div(end, kPagePositions));
    const int32_t window = executor_.info().window;
    row.sliding_first = window > 0 ? std::max(0, row.position - window + 1) / kPagePositions : 0;
    row.full_pages = std::span(slot.pages).first(pages);
    row.sliding_pages = row.full_pages.subspan(static_cast<size_t>(row.sliding_first));
    return row;
  }

  Status look_at_oldest() {
    const Planned planned = std::move(in_flight_.front());
    in_flight_.pop_front();
    ASSIGN_OR_RETURN(const StepResult result, executor_.wait(planned.ticket));
    for (size_t i = 0; i < planned.rows.size(); ++i) {
      const auto [index, token] = planned.rows[i];
      Slot& slot = slots_[index];
      compare(requests_[static_cast<size_t>(slot.request)], slot.request, token, result.rows[i].sampled.id);
      --slot.in_flight;
      free_if_done(slot);
    }
    return Ok{};
  }
  void compare(Request& request, int64_t number, int32_t index, TokenId got) {
    if (alone_) {
      request.expected.push_back(got);
      return;
    }
    ++report_.tokens;
    const TokenId wanted = request.expected[static_cast<size_t>(index)];
    if (got == wanted) return;
    if (report_.mismatches++ == 0)
      report_.first_mismatch = "request " + std::to_string(number) + ", token " + std::to_string(index) + ": " +
                               std::to_string(got) + ", alone " + std::to_string(wanted);
  }
  Status drain() {
    while (!in_flight_.empty()) RETURN_IF_ERROR(look_at_oldest());
    for (Slot& slot : slots_) {
      if (slot.request < 0) continue;
      executor_.close_sequence(index_of(slot));
      slot.request = -1;
      slot.leaves = false;
    }
    return Ok{};
  }
  void tell(const std::string& line) {
    constexpr double kEvery = 20;
    if (!options_.progress || seconds_since(told_) < kEvery) return;
    told_ = Clock::now();
    options_.progress(line);
  }

  Executor& executor_;
  const SoakOptions& options_;
  Prng prng_;
  std::vector<Request> requests_;
  std::vector<Slot> slots_;
  std::deque<Planned> in_flight_;
  SoakReport report_;
  bool alone_ = true;
  Clock::time_point told_ = Clock::now();
};

}  // namespace

int32_t soak_pages(const SoakOptions& options) {
  return static_cast<int32_t>(ceil_div(options.prompt_max + options.output_max, kPagePositions));
}

void SoakReport::write(const SoakOptions& options, boost::json::object& line) const {
  line["seed"] = options.seed;
  line["requests"] = options.requests;
  line["prompt_max"] = options.prompt_max;
  line["output_max"] = options.output_max;
  line["slots"] = options.slots;
  line["seconds"] = seconds;
  line["steps"] = steps;
  line["tokens"] = tokens;
  line["prompts"] = prompts;
  line["left_early"] = left_early;
  line["mismatches"] = mismatches;
  if (mismatches > 0) line["first_mismatch"] = first_mismatch;
}

Result<SoakReport> run_soak(Executor& executor, const SoakOptions& options) {
  const ExecutorInfo& info = executor.info();
  if (options.slots > info.sequence_slots)
    return Error{std::to_string(options.slots) + " slots, the executor has " + std::to_string(info.sequence_slots)};
  if (options.prompt_max > info.tokens_max)
    return Error{"prompts of " + std::to_string(options.prompt_max) + " tokens, a plan holds " +
                 std::to_string(info.tokens_max)};
  if (options.prompt_max + options.output_max > info.context_max)
    return Error{"prompts and outputs of " + std::to_string(options.prompt_max + options.output_max) +
                 " tokens, a sequence holds " + std::to_string(info.context_max)};
  Soak soak(executor, options);
  RETURN_IF_ERROR(soak.run_alone());
  SoakReport report;
  RETURN_IF_ERROR(soak.run_together(report));
  return report;
}

}  // namespace boreas
