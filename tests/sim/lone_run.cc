#include "lone_run.h"

#include <algorithm>

#include "base/check.h"
#include "engine/page_ledger.h"

namespace boreas {
namespace {

RowResult run_range(Executor& executor, std::span<const TokenId> tokens, int32_t position, LogitsWanted logits,
                    int32_t prompt_top_logprobs, std::shared_ptr<const TokenMask> mask) {
  std::vector<PageId> table;
  const int32_t end = position + static_cast<int32_t>(tokens.size());
  for (int32_t page = 0; page < pages_for(end); ++page) table.push_back(PageId(page));
  StepPlan plan;
  StepRow& row = plan.rows.emplace_back();
  row.tokens = tokens;
  row.position = position;
  row.full_pages = table;
  if (executor.info().window > 0) row.sliding_pages = table;
  row.logits = logits;
  row.prompt_top_logprobs = prompt_top_logprobs;
  row.mask = std::move(mask);
  const auto ticket = executor.submit(plan);
  CHECK(ticket.ok());
  auto result = executor.wait(ticket.value());
  CHECK(result.ok());
  return std::move(result.value().rows[0]);
}

}  // namespace

LoneRun lone_run_on(Executor& executor, const Request& request, int32_t choice, int32_t context_max) {
  SequenceSpec spec;
  spec.sampling = request.sampling;
  spec.sampling.choice_index = choice;
  spec.prompt = request.prompt;
  executor.open_sequence(0, spec);

  LoneRun lone;
  const bool scores = choice == 0 && request.prompt_top_logprobs >= 0;
  const auto constraint = request.make_constraint ? request.make_constraint() : nullptr;
  const auto mask = [&] { return constraint ? constraint->mask() : nullptr; };
  const auto length = static_cast<int32_t>(request.prompt.size());
  RowResult result = run_range(executor, request.prompt, 0, scores ? LogitsWanted::kAll : LogitsWanted::kLast,
                               request.prompt_top_logprobs, mask());
  lone.prompt_logprobs = std::move(result.prompt_logprobs);
  while (request.max_tokens > 0) {
    CHECK(!result.sampled.corrupted);
    lone.tokens.push_back(result.sampled);
    const TokenId token = result.sampled.id;
    const auto count = static_cast<int32_t>(lone.tokens.size());
    if (std::count(request.stop_ids.begin(), request.stop_ids.end(), token) > 0) lone.finish = FinishReason::kStop;
    if (lone.finish == FinishReason::kStop || count >= request.max_tokens || length + count >= context_max) break;
    if (constraint) CHECK(constraint->accept(token));
    result = run_range(executor, {&token, 1}, length + count - 1, LogitsWanted::kLast, -1, mask());
  }
  executor.close_sequence(0);
  return lone;
}

LoneRun lone_run(FakeOptions options, const Request& request, int32_t choice, int32_t context_max) {
  options.context_max = context_max + kPagePositions;
  options.pages_full = options.pages_sliding = pages_for(context_max) + 1;
  options.tokens_max = context_max;
  options.rows_max = options.sequence_slots = options.steps_in_flight_max = 1;
  options.clock = nullptr;
  options.step_ns = options.token_ns = 0;
  FakeExecutor executor(options);
  return lone_run_on(executor, request, choice, context_max);
}

bool same_token(const SampledToken& a, const SampledToken& b) {
  const auto same_entry = [](const TokenLogprob& x, const TokenLogprob& y) {
    return x.id == y.id && x.logprob == y.logprob;
  };
  return a.id == b.id && a.logprob == b.logprob && a.corrupted == b.corrupted && a.top.size() == b.top.size() &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), same_entry);
}

}  // namespace boreas
