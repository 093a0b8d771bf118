// What the executor keeps of an open sequence: its sampling parameters, its counts, and where its newest token is. A
// launch in flight holds a reference, so a slot may be closed and reused before the launch is done.
#pragma once

#include <cstdint>
#include <span>

#include "exec/cuda/step_params.h"
#include "exec/executor.h"
#include "exec/sampling_math.h"

namespace boreas::cuda {

// How a device draws by these parameters, if it can and there is a temperature.
inline DrawPlan draw_plan_of(const SamplingParams& params) {
  DrawPlan draw;
  draw.seed = params.seed;
  draw.choice_index = params.choice_index;
  draw.inverse_temperature = 1.0f / params.temperature;
  if (params.min_p > 0) draw.score_min = sampling_math::log(params.min_p);
  draw.top_p = params.top_p;
  if (params.top_k > 0) draw.top_k = params.top_k;
  return draw;
}

class Sequence {
 public:
  explicit Sequence(const SequenceSpec& spec);

  // Who draws the last token of this row, were it submitted now.
  SampleMode sample_mode(const StepRow& row) const;
  // How, if that says kSampleDraw.
  DrawPlan draw_plan() const { return draw_plan_of(params_); }

  // ---- the newest token, for a row that has none of its own
  bool has_token() const { return samples_in_flight_ > 0 || last_token_ >= 0 || corrupted_; }
  // A launch must be completed first: the host has yet to draw.
  bool waits_for_host() const { return samples_in_flight_ > 0 && newest_on_host_; }
  // -1: the device knows it. Not while waits_for_host().
  TokenId token_to_plan() const;

  // A row that samples is submitted, and later, in the same order, its token is known.
  void submitted(SampleMode mode);
  void sampled(const SampledToken& token);

  // The host's draw; position: of the drawn token.
  SampledToken draw(std::span<const float> logits, TokenId forced_token, const TokenMask* mask, int64_t position) const;

 private:
  SamplingParams params_;
  PenaltyState penalties_;
  bool greedy_ = false;            // the largest logit, lowest id among equals, whatever the noise
  bool plain_ = false;             // nothing but the logits, the temperature and filters that a device has decides
  int32_t outputs_submitted_ = 0;  // tokens of the output, those in flight too
  int32_t samples_in_flight_ = 0;
  bool newest_on_host_ = false;
  bool corrupted_ = false;
  TokenId last_token_ = -1;
};

}  // namespace boreas::cuda
