// Puts all prompts of an evaluation to a server, so many at once, and scores the answers as they come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval_ask.h"
#include "eval_set.h"

namespace boreas {

struct EvalOutcome {
  const EvalSet* set = nullptr;
  const EvalItem* item = nullptr;
  AnswerVerdict verdict = AnswerVerdict::kWrong;
  Reply reply;
};

struct RunOptions {
  HttpTarget target;
  AskOptions ask;
  int32_t parallel = 8;
  int64_t timeout_ms = 600'000;  // of one request
  bool show_progress = true;     // on stderr: a bar on a terminal, a line every tenth otherwise
};

// One outcome for each item, in their order; they point into `sets`. A request that the server refuses, or does not
// answer in time, is wrong, with its error. Error: the server cannot be reached.
Result<std::vector<EvalOutcome>> run_prompts(const std::vector<EvalSet>& sets, const RunOptions& options,
                                             const PythonSandbox* sandbox);

}  // namespace boreas
