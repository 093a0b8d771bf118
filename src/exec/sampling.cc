#include "exec/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/prng.h"
#include "exec/sampling_math.h"

namespace boreas {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr int kBuckets = 256;            // of the histogram over score distances
constexpr float kBucketsPerNat = 8.0f;   // 32 nats in all; weights beyond are below 2^-44 and count as 0
constexpr size_t kInsertionTopMax = 64;  // longer top lists are selected and sorted instead

struct Candidate {
  float score = 0;
  TokenId id = 0;
};

// The order of every selection: larger score first, equal scores by lower id.
bool before(const Candidate& a, const Candidate& b) { return a.score != b.score ? a.score > b.score : a.id < b.id; }

// Per-thread work space, so that a draw over a large vocabulary does not allocate.
struct Scratch {
  std::vector<float> logits, scores;
  std::vector<Candidate> candidates;
};
Scratch& scratch() {
  thread_local Scratch instance;
  return instance;
}

bool in_vocabulary(TokenId id, std::span<const float> scores) {
  return id >= 0 && static_cast<size_t>(id) < scores.size();
}

bool all_finite(std::span<const float> values) {
  uint32_t bad = 0;
  for (const float value : values) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u);
  }
  return bad == 0;
}

// Eight running maxima, so that the loop is not bound by the latency of one.
float largest(std::span<const float> values) {
  std::array<float, 8> lanes;
  lanes.fill(kExcluded);
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] = std::max(lanes[lane], values[i + lane]);
  }
  for (; i < values.size(); ++i) lanes[0] = std::max(lanes[0], values[i]);
  return *std::max_element(lanes.begin(), lanes.end());
}

TokenId first_of(std::span<const float> values, float wanted) {
  return static_cast<TokenId>(std::find(values.begin(), values.end(), wanted) - values.begin());
}

void apply_masks(std::span<float> scores, const SamplingParams& params, const PenaltyState& penalties,
                 const TokenMask* mask) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (in_vocabulary(id, scores)) scores[static_cast<size_t>(id)] += bias;
  }
  if (!params.allowed_ids.empty()) {
    std::vector<std::pair<TokenId, float>> kept;
    kept.reserve(params.allowed_ids.size());
    for (const TokenId id : params.allowed_ids) {
      if (in_vocabulary(id, scores)) kept.emplace_back(id, scores[static_cast<size_t>(id)]);
    }
    std::fill(scores.begin(), scores.end(), kExcluded);
    for (const auto& [id, score] : kept) scores[static_cast<size_t>(id)] = score;
  }
  if (mask != nullptr) {
    CHECK(mask->bits.size() * 32 >= scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      if ((mask->bits[i / 32] >> (i % 32) & 1u) == 0) scores[i] = kExcluded;
    }
  }
  if (penalties.output_tokens() < params.min_tokens) {
    for (const TokenId id : params.suppressed_ids) {
      if (in_vocabulary(id, scores)) scores[static_cast<size_t>(id)] = kExcluded;
    }
  }
}

void apply_penalties(std::span<float> scores, const SamplingParams& params, const PenaltyState& penalties) {
  if (params.repetition_penalty == 1 && params.frequency_penalty == 0 && params.presence_penalty == 0) return;
  for (const PenaltyState::Entry& entry : penalties.entries()) {
    if (!in_vocabulary(entry.id, scores)) continue;
    float& score = scores[static_cast<size_t>(entry.id)];
    score = score > 0 ? score / params.repetition_penalty : score * params.repetition_penalty;
    if (entry.output_count == 0) continue;
    score -= params.frequency_penalty * static_cast<float>(entry.output_count);
    score -= params.presence_penalty;
  }
}

// What filters leave: everything up to and including `last` in the order of before().
using Cut = Candidate;

// Histogram of scores (all <= 0) by distance from the maximum; a bucket is an interval of scores.
struct Histogram {
  std::array<int32_t, kBuckets> counts{};
  std::array<uint64_t, kBuckets> masses{};
};
size_t bucket_of(float score) { return static_cast<size_t>(std::min(-score * kBucketsPerNat, kBuckets - 1.0f)); }

Histogram histogram_of(std::span<const float> scores, float score_min, bool with_mass) {
  Histogram histogram;
  for (const float score : scores) {
    if (!(score >= score_min)) continue;
    const size_t bucket = bucket_of(score);
    ++histogram.counts[bucket];
    if (with_mass) histogram.masses[bucket] += sampling_math::mass(score);
  }
  return histogram;
}

// Entries of one bucket inside the cut so far.
std::vector<Candidate>& collect(std::span<const float> scores, size_t bucket, const Cut& cut) {
  std::vector<Candidate>& found = scratch().candidates;
  found.clear();
  for (size_t i = 0; i < scores.size(); ++i) {
    const Candidate candidate{scores[i], static_cast<TokenId>(i)};
    if (!(candidate.score > kExcluded) || before(cut, candidate) || bucket_of(candidate.score) != bucket) continue;
    found.push_back(candidate);
  }
  return found;
}

// The k-th entry, and the histogram reduced to the entries up to it.
Cut cut_top_k(std::span<const float> scores, int64_t k, const Cut& cut, Histogram& histogram, bool with_mass) {
  size_t bucket = 0;
  int64_t above = 0;
  while (bucket < kBuckets && above + histogram.counts[bucket] < k) above += histogram.counts[bucket++];
  if (bucket == kBuckets) return cut;  // fewer than k are left
  std::vector<Candidate>& found = collect(scores, bucket, cut);
  const auto kth = found.begin() + (k - above - 1);
  std::nth_element(found.begin(), kth, found.end(), before);
  histogram.masses[bucket] = 0;
  if (with_mass) {
    for (auto entry = found.begin(); entry <= kth; ++entry) {
      histogram.masses[bucket] += sampling_math::mass(entry->score);
    }
  }
  std::fill(histogram.masses.begin() + static_cast<int64_t>(bucket) + 1, histogram.masses.end(), 0);
  return *kth;
}

// The last entry of the shortest prefix whose mass reaches top_p of what is left. Halving by nth_element: linear time
// also where all scores are equal.
Cut cut_top_p(std::span<const float> scores, float top_p, const Cut& cut, const Histogram& histogram) {
  uint64_t total = 0;
  for (const uint64_t mass : histogram.masses) total += mass;
  uint64_t need = sampling_math::mass_needed(total, top_p);
  size_t bucket = 0;
  while (histogram.masses[bucket] < need) need -= histogram.masses[bucket++];
  std::vector<Candidate>& found = collect(scores, bucket, cut);
  auto begin = found.begin();
  auto end = found.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, before);
    uint64_t left = 0;
    for (auto entry = begin; entry != middle; ++entry) left += sampling_math::mass(entry->score);
    if (left >= need) {
      end = middle;
    } else {
      need -= left;
      begin = middle;
    }
  }
  return *begin;
}

Cut filter(std::span<const float> scores, const SamplingParams& params) {
  Cut cut{std::numeric_limits<float>::lowest(), std::numeric_limits<TokenId>::max()};
  if (params.min_p > 0) cut.score = sampling_math::log(params.min_p);
  const bool with_top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < scores.size();
  const bool with_top_p = params.top_p < 1;
  if (!with_top_k && !with_top_p) return cut;
  Histogram histogram = histogram_of(scores, cut.score, with_top_p);
  if (with_top_k) cut = cut_top_k(scores, params.top_k, cut, histogram, with_top_p);
  if (with_top_p) cut = cut_top_p(scores, params.top_p, cut, histogram);
  return cut;
}

// The noise words of kNoiseGroups neighbouring groups, so of four times as many entries, from `group` on: the same as
// sampling_math::noise_words(), written so that a compiler does many at once.
constexpr size_t kNoiseGroups = 16;
using NoiseBlock = std::array<std::array<uint32_t, kNoiseGroups>, 4>;  // [id mod 4][group]

void noise_block(const SamplingParams& params, int64_t position, uint32_t group, NoiseBlock& words) {
  for (uint32_t i = 0; i < kNoiseGroups; ++i) {
    words[0][i] = group + i;
    words[1][i] = static_cast<uint32_t>(position);
    words[2][i] = static_cast<uint32_t>(params.choice_index);
    words[3][i] = sampling_math::kCounterWord;
  }
  Philox4x32::generate(words, {static_cast<uint32_t>(params.seed), static_cast<uint32_t>(params.seed >> 32)});
}

// Words above this have noise below `needed`, if that is at least 0: noise <= -log(u), u = (word + 0.5) * 2^-32
// rounded.
uint32_t noise_limit(float needed) {
  constexpr double kSlack = 1e-3;  // far above the rounding of u, of the noise and of scores
  return static_cast<uint32_t>(std::min(std::exp(-static_cast<double>(needed) + kSlack), 1.0) * 0xffffffffp0);
}

// The entry inside the cut that sampling_math::draw_order puts first. Most noise is never computed: entries are passed
// over, many at a time, when a bound says that none of them can win (noise <= kGumbelMax, noise_limit()).
class Draw {
 public:
  // scores: of the logits; largest: of these.
  Draw(std::span<const float> logits, std::span<const float> scores, float largest, float inverse_temperature,
       const Cut& cut)
      : logits_(logits),
        scores_(scores),
        inverse_temperature_(inverse_temperature),
        coarseness_(std::abs(largest) * inverse_temperature * 0x1p-31f),
        cut_(cut) {}

  TokenId run(const SamplingParams& params, int64_t position) {
    NoiseBlock words;
    for (size_t first = 0; first < scores_.size(); first += 4 * kNoiseGroups) {
      const size_t count = std::min(scores_.size() - first, 4 * kNoiseGroups);
      const float top = largest(scores_.subspan(first, count));
      if (top < cut_.score || top + sampling_math::kGumbelMax < beaten_) continue;
      noise_block(params, position, static_cast<uint32_t>(first / 4), words);
      uint32_t least = ~0u;
      for (const auto& column : words)
        for (const uint32_t word : column) least = std::min(least, word);
      if (least > limit_) continue;
      for (size_t i = 0; i < count; ++i)
        if (const uint32_t word = words[i % 4][i / 4]; word <= limit_) consider(static_cast<TokenId>(first + i), word);
    }
    return sampling_math::drawn_id(best_);
  }

 private:
  void consider(TokenId id, uint32_t word) {
    const float score = scores_[static_cast<size_t>(id)];
    if (!(score > kExcluded) || before(cut_, {score, id})) return;
    if (score < beaten_ && noise_limit(beaten_ - score) < word) return;
    const double value = sampling_math::drawn_value(logits_[static_cast<size_t>(id)], inverse_temperature_, word);
    const uint64_t order = sampling_math::draw_order(value, id);
    if (order <= best_) return;
    best_ = order;
    beaten_ = score + sampling_math::gumbel(sampling_math::uniform(word)) - coarseness_;
    limit_ = noise_limit(std::max(beaten_, 0.0f));
  }

  std::span<const float> logits_, scores_;
  const float inverse_temperature_;
  const float coarseness_;  // of what draws compare, with logits of this size
  const Cut cut_;
  uint64_t best_ = 0;
  float beaten_ = kExcluded;  // what scores less, noise included, cannot win
  uint32_t limit_ = ~0u;      // no entry with a larger word can win
};

std::vector<Candidate> top_entries(std::span<const float> logits, size_t count) {
  std::vector<Candidate> top;
  if (count <= kInsertionTopMax) {
    for (size_t i = 0; i < logits.size() && count > 0; ++i) {
      const Candidate candidate{logits[i], static_cast<TokenId>(i)};
      if (top.size() == count && !before(candidate, top.back())) continue;
      if (top.size() == count) top.pop_back();
      top.insert(std::upper_bound(top.begin(), top.end(), candidate, before), candidate);
    }
    return top;
  }
  top.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) top.push_back({logits[i], static_cast<TokenId>(i)});
  const auto end = top.begin() + static_cast<int64_t>(count);
  std::nth_element(top.begin(), end - 1, top.end(), before);
  std::sort(top.begin(), end, before);
  top.resize(count);
  return top;
}

SampledToken corrupted_token() {
  SampledToken result;
  result.corrupted = true;
  return result;
}

// logprob and top of a token whose logits are known to be finite.
void score_into(std::span<const float> logits, int32_t top_logprobs, SampledToken& result) {
  const float max = largest(logits);
  uint64_t total = 0;
  for (const float logit : logits) total += sampling_math::mass(logit - max);
  const float log_total = sampling_math::log(static_cast<float>(total) * 0x1p-44f);
  const auto logprob_of = [&](TokenId id) { return (logits[static_cast<size_t>(id)] - max) - log_total; };
  result.logprob = logprob_of(result.id);
  const size_t count = std::min(static_cast<size_t>(std::max(top_logprobs, 0)), logits.size());
  for (const Candidate& entry : top_entries(logits, count)) result.top.push_back({entry.id, logprob_of(entry.id)});
}

}  // namespace

PenaltyState::PenaltyState(std::span<const TokenId> prompt, std::span<const TokenId> output)
    : output_tokens_(static_cast<int32_t>(output.size())) {
  std::vector<Entry> all;
  all.reserve(prompt.size() + output.size());
  for (const TokenId id : prompt) all.push_back({id, 0, true});
  for (const TokenId id : output) all.push_back({id, 1, false});
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  for (const Entry& next : all) {
    if (entries_.empty() || entries_.back().id != next.id) {
      entries_.push_back(next);
      continue;
    }
    entries_.back().output_count += next.output_count;
    entries_.back().in_prompt |= next.in_prompt;
  }
}

PenaltyState::Entry& PenaltyState::entry(TokenId id) {
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), id,
                                      [](const Entry& known, TokenId wanted) { return known.id < wanted; });
  if (place != entries_.end() && place->id == id) return *place;
  return *entries_.insert(place, {id, 0, false});
}

void PenaltyState::add_output(TokenId token) {
  ++entry(token).output_count;
  ++output_tokens_;
}

SampledToken sample_token(std::span<const float> logits, const SamplingParams& params, const PenaltyState& penalties,
                          const TokenMask* mask, int64_t position) {
  CHECK(!logits.empty() && logits.size() <= static_cast<size_t>(sampling_math::kVocabularyMax));
  if (!all_finite(logits)) return corrupted_token();
  std::vector<float>& penalised = scratch().logits;
  penalised.assign(logits.begin(), logits.end());
  apply_masks(penalised, params, penalties, mask);
  apply_penalties(penalised, params, penalties);
  const float max = largest(penalised);
  if (!std::isfinite(max)) return corrupted_token();
  SampledToken result;
  if (params.temperature == 0) {
    result.id = first_of(penalised, max);
  } else {
    const float inverse = 1.0f / params.temperature;
    std::vector<float>& scores = scratch().scores;
    scores.resize(penalised.size());
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = sampling_math::score(penalised[i], max, inverse);
    result.id = Draw(penalised, scores, max, inverse, filter(scores, params)).run(params, position);
  }
  if (params.top_logprobs >= 0) score_into(logits, params.top_logprobs, result);
  return result;
}

SampledToken score_token(std::span<const float> logits, TokenId token, int32_t top_logprobs) {
  CHECK(in_vocabulary(token, logits) && logits.size() <= static_cast<size_t>(sampling_math::kVocabularyMax));
  if (!all_finite(logits)) return corrupted_token();
  SampledToken result;
  result.id = token;
  score_into(logits, top_logprobs, result);
  return result;
}

float sampling_uniform(uint64_t seed, int32_t choice_index, int64_t position, TokenId id) {
  const auto words = sampling_math::noise_words(seed, choice_index, position, static_cast<uint32_t>(id) / 4);
  return sampling_math::uniform(words[static_cast<size_t>(id) % 4]);
}

}  // namespace boreas
