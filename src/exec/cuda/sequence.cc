#include "exec/cuda/sequence.h"

#include <algorithm>

#include "base/check.h"

namespace boreas::cuda {

namespace {

// Whether nothing is asked for but what draw_plan_of() hands to a device or sample_mode() looks at row by row: a
// parameter that is not named here keeps the draw on the host.
bool is_plain(SamplingParams params) {
  const SamplingParams usual;
  params.temperature = usual.temperature;
  params.top_p = usual.top_p;
  params.top_k = usual.top_k;
  params.min_p = usual.min_p;
  params.seed = usual.seed;
  params.choice_index = usual.choice_index;
  params.min_tokens = usual.min_tokens;
  params.suppressed_ids = usual.suppressed_ids;
  params.top_logprobs = usual.top_logprobs;
  return params == usual;
}

}  // namespace

Sequence::Sequence(const SequenceSpec& spec)
    : params_(spec.sampling),
      penalties_(spec.prompt, spec.output),
      outputs_submitted_(static_cast<int32_t>(spec.output.size())),
      last_token_(spec.output.empty() ? -1 : spec.output.back()) {
  // The mass that top-p cuts is what top-k has left: both together take an order that a device does not have.
  greedy_ = params_.temperature == 0 || params_.top_k == 1;
  const bool one_cut = greedy_ || params_.top_k <= 0 || params_.top_p >= 1;
  plain_ = one_cut && is_plain(params_);
}

SampleMode Sequence::sample_mode(const StepRow& row) const {
  if (row.logits == LogitsWanted::kNone) return kSampleNone;
  if (params_.top_logprobs >= 0) return kSampleHost;
  if (row.forced_token >= 0) return kSampleForced;
  const bool suppresses = outputs_submitted_ < params_.min_tokens && !params_.suppressed_ids.empty();
  if (!plain_ || row.mask != nullptr || suppresses) return kSampleHost;
  return greedy_ ? kSampleGreedy : kSampleDraw;
}

TokenId Sequence::token_to_plan() const {
  CHECK(!waits_for_host());
  if (samples_in_flight_ > 0) return -1;
  // After a corrupted token anything will do: its followers are never read.
  return std::max(last_token_, 0);
}

void Sequence::submitted(SampleMode mode) {
  ++samples_in_flight_;
  ++outputs_submitted_;
  newest_on_host_ = mode == kSampleHost;
}

void Sequence::sampled(const SampledToken& token) {
  CHECK(samples_in_flight_ > 0);
  --samples_in_flight_;
  if (token.id < 0) {
    corrupted_ = true;
    return;
  }
  last_token_ = token.id;
  penalties_.add_output(token.id);
}

SampledToken Sequence::draw(std::span<const float> logits, TokenId forced_token, const TokenMask* mask,
                            int64_t position) const {
  return forced_token >= 0 ? score_token(logits, forced_token, params_.top_logprobs)
                           : sample_token(logits, params_, penalties_, mask, position);
}

}  // namespace boreas::cuda
