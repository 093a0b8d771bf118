// Where an executor's memory goes and what context fits into it, for people: serve and generate print it when they
// start, plan --memory for GPUs that are not there.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "exec/executor.h"

namespace boreas {

// Tokens that the pages of full-attention layers hold, of all sequences together; 0: the model has no such layers.
int64_t tokens_that_fit(const ExecutorInfo& info);
// Sequences whose windows the sliding pages hold while all decode; 0: the model has no such layers.
int64_t windows_that_fit(const ExecutorInfo& info);
// Sequences of so many positions that fit side by side while all decode.
int64_t sequences_that_fit(const ExecutorInfo& info, int64_t positions);

// How many sequences run at once, and why not as many as asked for (--max-num-seqs; 0: not given). step_tokens_max:
// --max-num-batched-tokens, 0: the executor's.
std::string describe_running(const ExecutorInfo& info, int32_t running_max, int32_t asked, int32_t step_tokens_max);

// A line a use; nothing where the executor does not count.
void print_memory(std::ostream& out, const ExecutorInfo& info);

}  // namespace boreas
