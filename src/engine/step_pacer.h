// StepPacer: how many prefill tokens a step may take while other sequences decode, so that no token of theirs comes
// much later than without it, and that decoding keeps its share of the time. It learns from the times of finished
// steps. The engine core asks it for every plan.
//
//   time of a step = time of its decode rows + prefill tokens * time of one
//
// Both are running means; the time of a prefill token follows the growing context of a long prompt by itself. A chunk
// is as long as the latency allows: long ones are cheaper a token. Then decode rows run alone until they have had their
// share:
//
//   | 9 |      70 chunk      | 9 | 9 | 9 | 9 | 9 | 9 |      70 chunk      | 9 ...      share of decoding 45 %
//
// Chunks never fall below kTokensMin, and what decoding is owed is paid by the steps that it runs alone: a prompt
// always moves.
#pragma once

#include <cstdint>

namespace boreas {

class StepPacer {
 public:
  // A whole block of rows for the executors that run prompts through the layers in blocks.
  static constexpr int32_t kTokensMin = 64;
  // Before anything is known.
  static constexpr int32_t kTokensFirst = 256;

  // latency_ns: by how much prefill may delay the decode rows of its step; 0 = no bound. decode_percent: of the time,
  // while there is prefill; 0 to 99.
  StepPacer(int64_t latency_ns, int32_t decode_percent) : latency_ns_(latency_ns), decode_percent_(decode_percent) {}

  // For a plan with decode rows; 0: these alone. Without them nobody waits, and the pacer has nothing to say.
  int32_t prefill_tokens_max() const;
  // A step has finished. elapsed_ns: 0 = the executor does not measure. Returns how much of it prefill took.
  int64_t observe(int32_t decode_rows, int32_t prefill_tokens, int64_t elapsed_ns);

 private:
  int64_t latency_ns_;
  int32_t decode_percent_;
  double owed_ns_ = 0;    // of decoding alone, before the next chunk
  double decode_ns_ = 0;  // of a step without prefill
  double token_ns_ = 0;   // of one prefill token more
};

}  // namespace boreas
