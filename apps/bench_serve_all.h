// `boreas bench serve --all`: the figures that a serving release is judged by, one after the other, in one command:
// first tokens by prompt length, decode over HTTP beside decode in process at equal work (bench_serve_fair.h), streams
// while a long prompt prefills, and sustained mixed load with memory before and after, its decoding compared likewise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_decode.h"
#include "bench_serve_load.h"
#include "bench_serve_stats.h"
#include "eval_local.h"
#include "model/model.h"

namespace boreas {

enum class ServePart : uint8_t { kFirstTokens, kDecode, kLongPrompt, kMixed };

struct ServeAllOptions {
  std::vector<ServePart> parts{ServePart::kFirstTokens, ServePart::kDecode, ServePart::kLongPrompt, ServePart::kMixed};
  ModelSource source;  // of the server, which is started in this process
  DeviceChoice choice;
  EngineOptions engine;
  DecodeSetup decode;                                // the same model in process; batch, context, steps are set here
  std::vector<int32_t> prompts{2048, 8192, 131072};  // of first tokens
  int32_t context = 8192;                            // prompts of the decode comparison
  int32_t output_tokens = 1024;                      // and their answers
  int32_t long_prompt = 65536;                       // beside four streams
  int64_t total_tokens = 200'000;                    // generated under mixed load
  double seconds = 0;                                // which begins no request after so many; 0: any
  int32_t mixed_prompt = 0;                          // of every first turn; 0: as the workloads have them
  int32_t mixed_answer_max = 1024;
  ServeLoadOptions load;    // seed, temperature, timeout
  int64_t read_bytes = 0;   // of memory, to measure a processor's bandwidth; 0: as bench decode
  bool goals_bind = false;  // a goal that is missed is an error
  std::string results_dir;
};

// Whether the goals are meant for this: made-up weights of the published full shape on a GPU.
bool goals_are_for(const std::string& device, bool made_up, const ModelConfig& config);

// Prompts that the server's context does not hold are cut to it. Prints a table and one JSON line; a figure that
// nothing was measured for is "n/a" there and null in the line. Error: a part that could not be measured, a figure that
// is n/a, requests that failed, pages or memory that did not come back; the line then says so and is not kept. Error,
// but the line is kept: a goal was missed that binds.
Status run_serve_all(ServeAllOptions& options);

// Of streams that were all under way from `from` to `to`: tokens that arrived then, a second, and the time between.
struct StreamWindow {
  double tok_s = 0;
  Percentiles gap_ms;
};
// Of gaps: none: nothing arrived in the window.
std::optional<double> p99_of(const StreamWindow& window);
StreamWindow look_at_streams(const std::vector<ChatRecord>& records, int64_t from_ns, int64_t to_ns);

}  // namespace boreas
