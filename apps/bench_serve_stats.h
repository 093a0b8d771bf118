// What a load run measured, as figures: exact percentiles, no histogram. Pure; used by `boreas bench serve`.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "bench_serve_load.h"
#include "engine/engine.h"

namespace boreas {

// A value that was seen so many times.
struct Sample {
  double value = 0;
  int64_t times = 1;
};

// By nearest rank: the smallest value that at least p percent of all are not above.
struct Percentiles {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;  // 0 without samples
};
Percentiles percentiles_of(std::vector<Sample> samples);

struct ServeSummary {
  int64_t requests = 0;                                             // made
  int64_t completed = 0;                                            // answered to their end
  std::map<std::string, int64_t> errors;                            // by kind, see ChatRecord
  int64_t waits_429 = 0;                                            // answers 429 that were waited out
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // of completed requests
  bool has_usage = true;                                            // of all completed requests; else tokens are chunks
  double seconds = 0;
  double tok_s = 0, requests_s = 0;  // output tokens and completed requests over `seconds`
  double under_way = 0;              // requests, on average over `seconds`
  double tokens_per_arrival = 0;
  // Of completed requests, in milliseconds: from sending to the first token; between tokens (the time between two
  // arrivals is shared evenly by the tokens of the second one); between arrivals as they were; from sending to the end.
  Percentiles ttft_ms, itl_ms, gap_ms, e2e_ms;
};

ServeSummary summarize(const LoadResult& result);
// Adds the fields of the summary to a result line.
void add_summary(const ServeSummary& summary, boost::json::object& line);
void print_summary(std::ostream& out, const ServeSummary& summary);

// Tokens a second of decode steps by the executor's own clock, between two looks; 0: there were none. What is served
// cannot be more: the rest went into queues, the host and HTTP.
double decode_rate(const EngineStats& before, const EngineStats& after);

}  // namespace boreas
