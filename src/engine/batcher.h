// Batcher: which running sequences get how many tokens of the next step. Pure functions over plain data; the engine
// core calls them and then looks for pages.
//
// Decode rows come first, so a long prompt never stops them. The rest of the budget goes to prefill: the oldest
// prefilling sequence gets at least half of it, the others share the rest, shortest first, so a long prompt delays
// short ones by no more than a factor of two and is itself never starved.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace boreas {

struct BatchCandidate {
  bool single = false;  // a decode or replay step: one token
  int32_t left = 0;     // prefill: tokens until the next place where the range must be cut (there is one at the end)
  int64_t left_in_all = 0;  // prefill: tokens until the end
  int32_t tokens_max = 0;   // prefill: most tokens this sequence takes at once
  bool scored = false;      // prefill: logits of all its tokens are wanted
};

struct BatchBudget {
  int32_t tokens = 0;   // of the step
  int32_t rows = 0;     // of the step
  int32_t prefill = 0;  // tokens of prefill rows together
  int32_t scored = 0;   // tokens of scored rows together
};

// How many of `left` tokens to take, at most `limit`. A prompt of two or more tokens is never cut so that a range of
// one token arises: executors with two arithmetics take ranges of one for decode steps, and a prompt must get the same
// bits however it is cut. 0 where the limit is too small.
int32_t chunk_tokens(int32_t left, int32_t limit);

// Tokens for each candidate (oldest first); 0 = not in this step. Within the budget in every respect.
std::vector<int32_t> pick_rows(std::span<const BatchCandidate> candidates, const BatchBudget& budget);

}  // namespace boreas
