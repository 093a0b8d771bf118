// `boreas bench serve --all`: the figures that a serving release is judged by, one after the other, in one command:
// first tokens by prompt length, decode over HTTP beside decode in process, streams while a long prompt prefills, and
// sustained mixed load with memory before and after.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_decode.h"
#include "bench_serve_load.h"
#include "bench_serve_stats.h"
#include "eval_local.h"

namespace boreas {

struct ServeAllOptions {
  ModelSource source;  // of the server, which is started in this process
  DeviceChoice choice;
  EngineOptions engine;
  DecodeSetup decode;                                // the same model in process; batch, context and steps are set here
  std::vector<int32_t> prompts{2048, 8192, 131072};  // of first tokens
  int32_t context = 8192;                            // prompts of the decode comparison
  int32_t output_tokens = 1024;                      // and their answers
  int32_t long_prompt = 65536;                       // beside four streams
  int64_t total_tokens = 200'000;                    // generated under mixed load
  int32_t mixed_prompt = 0;                          // of every first turn; 0: as the workloads have them
  int32_t mixed_answer_max = 1024;
  ServeLoadOptions load;  // seed, temperature, timeout
  std::string results_dir;
};

// Prompts that the server's context does not hold are cut to it. Prints a table and one JSON line. Error: a part that
// could not be measured.
Status run_serve_all(ServeAllOptions& options);

// Of streams that were all under way from `from` to `to`: tokens that arrived then, a second, and the time between.
struct StreamWindow {
  double tok_s = 0;
  Percentiles gap_ms;
};
StreamWindow look_at_streams(const std::vector<ChatRecord>& records, int64_t from_ns, int64_t to_ns);

}  // namespace boreas
