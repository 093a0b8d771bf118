// Sampling, as pure functions: the reference that every executor's own sampling is tested against, and that the CPU
// executor calls. A draw depends on (seed, choice index, position of the token in prompt + output) and on the logits,
// on nothing else: not on batch mates, order of arrival, preemption or prefix-cache hits.
//
// Order of operations (the order vLLM documents): logit bias and masks (allowed ids, constraint mask, stop ids before
// min_tokens), then repetition, frequency and presence penalties, then temperature, min-p, top-k, top-p, then the draw.
// Temperature 0 takes the largest penalised logit and ignores the filters; equal values: lowest id. Filters work on
// what the earlier ones left: top-p keeps the shortest prefix (by score, then id) that holds top_p of the mass that
// min-p and top-k left. Ids outside the vocabulary in bias, allowed and suppressed lists are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace boreas {

struct SamplingParams {
  float temperature = 1;         // 0 = greedy; [0, 2]
  float top_p = 1;               // (0, 1]
  int32_t top_k = 0;             // 0 = off
  float min_p = 0;               // [0, 1]
  float repetition_penalty = 1;  // > 0; over prompt and output: positive logits are divided by it, others multiplied
  float frequency_penalty = 0;   // [-2, 2]; over output, times the count
  float presence_penalty = 0;    // [-2, 2]; over output, once
  uint64_t seed = 0;             // Philox key
  int32_t choice_index = 0;      // which of n choices; part of the counter
  int32_t min_tokens = 0;        // until the output has so many tokens, suppressed_ids cannot be drawn
  int32_t top_logprobs = -1;     // -1: no logprobs; 0: of the sampled token only; k: and the k most likely
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> allowed_ids;     // empty: all
  std::vector<TokenId> suppressed_ids;  // stop and EOS ids, see min_tokens
  bool operator==(const SamplingParams&) const = default;
};

// Which tokens may come next, one bit a vocabulary entry (bit i of word i / 32). Immutable once handed over.
struct TokenMask {
  std::vector<uint32_t> bits;
  bool allows(TokenId id) const { return bits[static_cast<size_t>(id) / 32] >> (id % 32) & 1u; }
};

// A grammar or another rule over the output. One object a sequence, used by the engine thread only; text/ implements
// it.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // The mask for the next token, or null where everything is allowed. Called again only after accept().
  virtual std::shared_ptr<const TokenMask> mask() = 0;
  // The token that was generated (also a forced one). False: the token violates the constraint (an executor fault).
  virtual bool accept(TokenId token) = 0;
};

// What penalties look at. Counts are kept by the executor, a sequence slot each.
class PenaltyState {
 public:
  PenaltyState() = default;
  PenaltyState(std::span<const TokenId> prompt, std::span<const TokenId> output);
  void add_output(TokenId token);
  int32_t output_tokens() const { return output_tokens_; }
  // Sorted by id: {id, count in the output, occurs in the prompt}.
  struct Entry {
    TokenId id = 0;
    int32_t output_count = 0;
    bool in_prompt = false;
  };
  std::span<const Entry> entries() const { return entries_; }

 private:
  Entry& entry(TokenId id);
  std::vector<Entry> entries_;
  int32_t output_tokens_ = 0;
};

struct TokenLogprob {
  TokenId id = -1;
  float logprob = 0;  // natural log of the model's distribution before bias, penalties and temperature
};

struct SampledToken {
  TokenId id = -1;
  float logprob = 0;              // valid if top_logprobs >= 0
  std::vector<TokenLogprob> top;  // descending, ties by lowest id
  bool corrupted = false;         // NaN or infinity among the logits, or nothing left to draw; id is then -1
};

// logits: [vocab_size] fp32 of the position before the drawn token. position: index of the drawn token in prompt +
// output.
SampledToken sample_token(std::span<const float> logits, const SamplingParams& params, const PenaltyState& penalties,
                          const TokenMask* mask, int64_t position);

// Log-probability of a given token and the top k, without drawing (prompt logprobs, forced tokens).
SampledToken score_token(std::span<const float> logits, TokenId token, int32_t top_logprobs);

// The uniform u in (0, 1) behind the Gumbel noise of one vocabulary entry: (bits + 0.5) * 2^-32 of word (id mod 4) of
// Philox4x32-10(counter = {id / 4, position, choice, 0x426f7265}, key = seed), rounded to float and kept below 1. The
// noise is -log(-log(1 - u)); the drawn token is the largest logit * (1 / temperature) + noise, where 1 / temperature
// and the noise are floats and the rest is double, compared to 33 bits of mantissa, equal sums: lowest id
// (sampling_math::draw_order). Any executor must use exactly this, with the functions of sampling_math.h.
float sampling_uniform(uint64_t seed, int32_t choice_index, int64_t position, TokenId id);

}  // namespace boreas
