// StepPacer: how many prefill tokens a step may take while other sequences decode, so that their next tokens do not
// come much later than without it. It learns from the times of finished steps. The engine core asks it for every plan.
//
//   time of a step = time of its decode rows + prefill tokens * time of one
//
// Both are running means; the time of a prefill token follows the growing context of a long prompt by itself. Chunks
// never fall below kTokensMin: a prompt always moves.
#pragma once

#include <cstdint>

namespace boreas {

class StepPacer {
 public:
  // A whole block of rows for the executors that run prompts through the layers in blocks.
  static constexpr int32_t kTokensMin = 64;
  // Before anything is known.
  static constexpr int32_t kTokensFirst = 256;

  // latency_ns: by how much prefill may delay the decode rows of its step; 0 = no bound.
  explicit StepPacer(int64_t latency_ns) : latency_ns_(latency_ns) {}

  // For a plan with decode rows. Without them nobody waits, and the pacer has nothing to say.
  int32_t prefill_tokens_max() const;
  // A step has finished. elapsed_ns: 0 = the executor does not measure.
  void observe(int32_t decode_rows, int32_t prefill_tokens, int64_t elapsed_ns);

 private:
  int64_t latency_ns_;
  double decode_ns_ = 0;  // of a step without prefill
  double token_ns_ = 0;   // of one prefill token more
};

}  // namespace boreas
