// A prompt through the Executor interface in given pieces: what tests of prefill on the emulated device and on a GPU
// share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "exec/executor.h"
#include "tests/emulation/executor_run.h"

namespace boreas {

// Log-probabilities of all ids after the prompt and after each of `steps` greedy tokens. The prompt comes in ranges
// that end at the cuts; the last one has logits. At least two tokens each, as the engine does it.
inline std::vector<std::vector<float>> logprobs_of(Executor& executor, const Sequence& sequence,
                                                   const std::vector<int32_t>& cuts, int32_t steps = 1) {
  SequenceSpec spec;
  spec.sampling.temperature = 0;
  spec.sampling.top_logprobs = executor.info().vocab_size;
  spec.prompt = sequence.prompt;
  executor.open_sequence(sequence.slot, spec);
  std::vector<std::vector<float>> all;
  const int32_t length = static_cast<int32_t>(sequence.prompt.size());
  std::vector<int32_t> ends(cuts);
  for (int32_t step = 0; step <= steps; ++step) ends.push_back(length + step);
  int32_t from = 0;
  for (int32_t to : ends) {
    StepPlan plan;
    StepRow& row = plan.rows.emplace_back();
    row.slot = sequence.slot;
    row.position = from;
    if (to <= length)
      row.tokens = std::span(sequence.prompt).subspan(static_cast<size_t>(from), static_cast<size_t>(to - from));
    row.full_pages = row.sliding_pages = sequence.pages;
    row.logits = to >= length ? LogitsWanted::kLast : LogitsWanted::kNone;
    auto ticket = executor.submit(plan);
    EXPECT_TRUE(ticket.ok()) << (ticket.ok() ? "" : ticket.error().message);
    if (!ticket.ok()) return all;
    auto done = executor.wait(*ticket);
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    if (!done.ok()) return all;
    from = to;
    if (to < length) continue;
    std::vector<float>& own = all.emplace_back(static_cast<size_t>(executor.info().vocab_size));
    for (const TokenLogprob& entry : done->rows[0].sampled.top) own[static_cast<size_t>(entry.id)] = entry.logprob;
  }
  executor.close_sequence(sequence.slot);
  return all;
}

// bf16_distance() and one rounding more a layer: q, k and v before RoPE.
inline double prefill_distance(int32_t layers) { return std::sqrt(2.0 * 7 * layers) * std::ldexp(1.0, -9); }

}  // namespace boreas
