// `boreas bench serve`: what a server does for its clients over HTTP, whosever server it is.
#pragma once

#include <functional>

#include "base/result.h"
#include "bench_serve_workload.h"
#include "command_line.h"
#include "eval_client.h"

namespace boreas {

// finish: reports an error and sets the exit code.
void add_serve_bench(Command bench, const std::function<void(const Status&)>& finish);

// How many tokens the server makes of a workload's words: two prompts of a token each, by the usage that it tells. The
// longer one grows with the prompts that are wanted, whose lengths are the more exact. The default scale if the server
// tells none. Error: it refuses them or cannot be reached.
Result<TextScale> measure_scale(const HttpTarget& target, const std::string& model, const Workload& workload,
                                int64_t timeout_ms, int32_t prompt_tokens = 0);

}  // namespace boreas
