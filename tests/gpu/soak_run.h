// A soak of any executor: requests join and leave at random, in batches of all sizes, and every token is compared with
// what the same request got alone. Everything follows from the seed, so a run can be repeated, and several runs are one
// longer soak. tests/gpu/soak.cc runs it on a GPU.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "exec/executor.h"

namespace boreas {

struct SoakOptions {
  uint64_t seed = 1;
  double seconds = 60;        // after the requests ran alone
  int64_t steps = INT64_MAX;  // at most
  int32_t requests = 48;      // different ones; greedy, at temperature 1 and with top-p in turn
  int32_t slots = 8;          // at once
  int32_t prompt_max = 5000;  // tokens
  int32_t output_max = 160;   // tokens
  std::function<void(const std::string& line)> progress;  // about every 20 s
};

struct SoakReport {
  int64_t steps = 0, tokens = 0, prompts = 0;  // tokens: compared ones
  int64_t left_early = 0;                      // of the prompts
  int64_t mismatches = 0;
  std::string first_mismatch;  // request, token index, both tokens
  double seconds = 0;
  void write(const SoakOptions& options, boost::json::object& line) const;  // all of it, and what it was asked
};

// Pages a slot needs, in both pools; the executor must have slots times as many.
int32_t soak_pages(const SoakOptions& options);

// Error: of the executor, or it is too small for the options.
Result<SoakReport> run_soak(Executor& executor, const SoakOptions& options);

}  // namespace boreas
