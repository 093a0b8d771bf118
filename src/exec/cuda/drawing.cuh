// Drawing a token from logits that all workers share: what LM_HEAD, FILTER and SAMPLE have in common. exec/sampling.h
// says what is drawn, with the arithmetic of exec/sampling_math.h, bit for bit:
//
//   LM_HEAD   each worker: the best entry of its vocabulary slice by logit / T + noise, and its largest logit
//   FILTER    rows that filter: each worker weighs its slice against the best entry of all
//   SAMPLE    the row's worker: the best entry, if it is inside the filters; else the best of those before it, and so
//   on
//
// An entry comes before another one if its score is larger, or equal and its id lower. The best entry is inside top-k
// and top-p if what comes before it counts less than k and weighs less than the mass that top-p needs; so an exact cut
// takes two sums and no sorting.
#pragma once

#include "exec/cuda/worker.cuh"
#include "exec/sampling_math.h"

namespace boreas::cuda {

constexpr uint64_t kNotFinite = ~uint64_t{0};  // the order of an entry that is not finite: above all others

BOREAS_DEVICE bool is_finite(float value) { return (bits_of(value) & 0x7f800000u) != 0x7f800000u; }
// Finite floats as numbers in their order, -0 as 0; and back.
BOREAS_DEVICE uint32_t ordered_float(float value) {
  const uint32_t bits = bits_of(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
BOREAS_DEVICE float float_in_order(uint32_t ordered) {
  return float_of(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

BOREAS_DEVICE uint64_t shuffle_xor_64(uint64_t value, int32_t mask) {
  const uint32_t low = shuffle_xor(static_cast<uint32_t>(value), mask);
  return low | static_cast<uint64_t>(shuffle_xor(static_cast<uint32_t>(value >> 32), mask)) << 32;
}
BOREAS_DEVICE void store_shared_64(uint32_t address, uint64_t value) {
  store_shared_32(address, static_cast<uint32_t>(value));
  store_shared_32(address + 4, static_cast<uint32_t>(value >> 32));
}
BOREAS_DEVICE uint64_t load_shared_uint64(uint32_t address) {
  const Vec2 halves = load_shared_64(address);
  return halves.x | static_cast<uint64_t>(halves.y) << 32;
}

// What is put together from parts: has merge(), and travels between lanes and through kPartBytes of shared memory.
constexpr int32_t kPartBytes = 32;
// Messengers take the room of the partial sums: LM_HEAD's publication, the step's last task of consumers, is over.
template <class C>
BOREAS_DEVICE uint32_t messenger_parts(const Worker<C>& w) {
  return w.scratch(&ScratchMap::partials);
}
static_assert((kMessengerWarps + kRowsMax) * kPartBytes <= 2 * partial_bytes(1));

struct Best {
  uint64_t order = 0;    // sampling_math::draw_order
  uint32_t largest = 0;  // logit, as ordered_float
  BOREAS_DEVICE void merge(const Best& other) {
    order = other.order > order ? other.order : order;
    largest = other.largest > largest ? other.largest : largest;
  }
  BOREAS_DEVICE Best of_lane(int32_t mask) const { return {shuffle_xor_64(order, mask), shuffle_xor(largest, mask)}; }
  BOREAS_DEVICE void store(uint32_t address) const {
    store_shared_64(address, order);
    store_shared_32(address + 8, largest);
  }
  static BOREAS_DEVICE Best load(uint32_t address) {
    return {load_shared_uint64(address), load_shared_32(address + 8)};
  }
};

struct Weights {
  uint64_t total = 0, before = 0;  // mass of what min-p leaves; of that, what comes before the entry in question
  uint32_t count = 0;              // entries that come before it
  BOREAS_DEVICE void merge(const Weights& other) {
    total += other.total;
    before += other.before;
    count += other.count;
  }
  BOREAS_DEVICE Weights of_lane(int32_t mask) const {
    return {shuffle_xor_64(total, mask), shuffle_xor_64(before, mask), shuffle_xor(count, mask)};
  }
  BOREAS_DEVICE void store(uint32_t address) const {
    store_shared_64(address, total);
    store_shared_64(address + 8, before);
    store_shared_32(address + 16, count);
  }
  static BOREAS_DEVICE Weights load(uint32_t address) {
    return {load_shared_uint64(address), load_shared_uint64(address + 8), load_shared_32(address + 16)};
  }
};

template <class Part>
BOREAS_DEVICE void merge_lanes(Part& part) {
  BOREAS_NO_UNROLL
  for (int32_t step = 16; step > 0; step /= 2) part.merge(part.of_lane(step));
}
// Every messenger gets the whole.
template <class C, class Part>
BOREAS_DEVICE void merge_messengers(const Worker<C>& w, Part& part) {
  merge_lanes(part);
  const uint32_t parts = messenger_parts(w);
  named_barrier(kMessengersMeet, kMessengerThreads);
  if (w.lane() == 0) part.store(parts + (w.warp() - kConsumerWarps) * kPartBytes);
  named_barrier(kMessengersMeet, kMessengerThreads);
  part = Part::load(parts);
  for (int32_t warp = 1; warp < kMessengerWarps; ++warp) part.merge(Part::load(parts + warp * kPartBytes));
}
// Where FILTER leaves a row's best entry for SAMPLE.
template <class C>
BOREAS_DEVICE uint32_t best_address(const Worker<C>& w, int32_t row) {
  return messenger_parts(w) + (kMessengerWarps + row) * kPartBytes;
}

template <class C>
BOREAS_DEVICE const float* logits_of(const Worker<C>& w, int32_t row) {
  return w.params.logits + static_cast<int64_t>(row) * C::kVocabulary;
}

// take(id, logits) for those of a row's ids that fall to `thread` of `threads`, four neighbours at a time, id the first
// of them; some of the first and last four may be no ids of the range. Some groups' logits are on their way at once:
// they come from L2.
constexpr int32_t kGroupsAhead = 4;
template <class C, class Take>
BOREAS_DEVICE void for_entries(const Worker<C>& w, int32_t row, Range ids, int32_t thread, int32_t threads,
                               const Take& take) {
  static_assert(C::kVocabulary % 4 == 0);
  const float* logits = logits_of(w, row);
  const int32_t end = ceil_div_32(ids.end(), 4);
  BOREAS_NO_UNROLL
  for (int32_t first = ids.first / 4 + thread; first < end; first += kGroupsAhead * threads) {
    float ahead[kGroupsAhead][4];
    BOREAS_UNROLL
    for (int32_t a = 0; a < kGroupsAhead; ++a) {
      const int32_t group = first + a * threads;
      load_floats(logits + 4 * (group < end ? group : end - 1), ahead[a]);
    }
    BOREAS_NO_UNROLL
    for (int32_t group = first; group < end && group < first + kGroupsAhead * threads; group += threads) {
      take(4 * group, ahead[0]);
      BOREAS_UNROLL
      for (int32_t a = 0; a + 1 < kGroupsAhead; ++a) {  // no index: that would put them in memory
        BOREAS_UNROLL
        for (int32_t k = 0; k < 4; ++k) ahead[a][k] = ahead[a + 1][k];
      }
    }
  }
}

// Noise words above this have noise below `needed`: noise <= -log(u), u = (word + 0.5) * 2^-32 rounded.
BOREAS_DEVICE uint32_t noise_limit(float needed) {
  constexpr float kSlack = 0.01f;  // far above the rounding of u, of the noise and of the exponential
  return needed <= kSlack ? ~0u : static_cast<uint32_t>(sampling_math::exp(kSlack - needed) * 0x1.fffffep31f);
}

constexpr float kNoCeiling = __builtin_huge_valf();

// The best of a row's ids that fall to this thread and that `wanted` lets through. ceiling: what logit / T never
// exceeds, or kNoCeiling; entries whose noise cannot make up for the distance from it to the best so far are passed
// over.
template <class C, class Wanted>
BOREAS_DEVICE Best best_of_entries(const Worker<C>& w, int32_t row, Range ids, int32_t thread, int32_t threads,
                                   float ceiling, const Wanted& wanted) {
  const RowPlan& plan = w.params.row[row];
  const bool draws = plan.sample == kSampleDraw;
  Best best;
  uint32_t limit = ~0u;
  for_entries(w, row, ids, thread, threads, [&](int32_t first, float(&logits)[4]) {
    uint32_t word[4] = {};
    if (draws) {
      const auto words = sampling_math::noise_words(plan.draw.seed, plan.draw.choice_index, plan.position + 1,
                                                    static_cast<uint32_t>(first / 4));
      BOREAS_UNROLL
      for (int32_t k = 0; k < 4; ++k) word[k] = words[static_cast<size_t>(k)];
    }
    BOREAS_NO_UNROLL
    for (int32_t id = first; id < first + 4; ++id) {
      const float logit = logits[0];
      if (id >= ids.first && id < ids.end() && word[0] <= limit && wanted(id, logit)) {
        const double value = draws ? sampling_math::drawn_value(logit, plan.draw.inverse_temperature, word[0]) : logit;
        const uint64_t order = is_finite(logit) ? sampling_math::draw_order(value, id) : kNotFinite;
        if (order > best.order) limit = noise_limit(static_cast<float>(value) - ceiling);
        best.merge({order, ordered_float(logit)});
      }
      BOREAS_UNROLL
      for (int32_t k = 0; k + 1 < 4; ++k) logits[k] = logits[k + 1], word[k] = word[k + 1];
    }
  });
  return best;
}

// An entry and what filters compare it with.
struct Candidate {
  int32_t id;
  float largest, inverse_temperature, score_min, score;

  template <class C>
  BOREAS_DEVICE Candidate(const Worker<C>& w, int32_t row, const Best& best)
      : id(sampling_math::drawn_id(best.order)),
        largest(float_in_order(best.largest)),
        inverse_temperature(w.params.row[row].draw.inverse_temperature),
        score_min(w.params.row[row].draw.score_min),
        score(score_of(load_float(logits_of(w, row) + id))) {}

  BOREAS_DEVICE float score_of(float logit) const { return sampling_math::score(logit, largest, inverse_temperature); }
  BOREAS_DEVICE bool comes_after(int32_t its_id, float its_score) const {
    return its_score > score || (its_score == score && its_id < id);
  }
};

// The share of this messenger.
template <class C>
BOREAS_DEVICE Weights weigh_entries(const Worker<C>& w, int32_t row, Range ids, const Candidate& candidate) {
  Weights weights;
  for_entries(w, row, ids, w.messenger_thread(), kMessengerThreads, [&](int32_t first, float(&logits)[4]) {
    BOREAS_UNROLL
    for (int32_t k = 0; k < 4; ++k) {
      const int32_t id = first + k;
      const float score = candidate.score_of(logits[k]);
      if (id < ids.first || id >= ids.end() || score < candidate.score_min) continue;
      const uint64_t mass = sampling_math::mass(score);
      weights.total += mass;
      if (!candidate.comes_after(id, score)) continue;
      weights.before += mass;
      ++weights.count;
    }
  });
  return weights;
}
// The best entry before the candidate that min-p lets through; likewise.
template <class C>
BOREAS_DEVICE Best best_before(const Worker<C>& w, int32_t row, Range ids, const Candidate& candidate) {
  const float ceiling = candidate.largest * candidate.inverse_temperature;
  const float above = ceiling + (ceiling < 0 ? -ceiling : ceiling) * 1e-6f;  // rounding
  return best_of_entries(w, row, ids, w.messenger_thread(), kMessengerThreads, above, [&](int32_t id, float logit) {
    const float score = candidate.score_of(logit);
    return score >= candidate.score_min && candidate.comes_after(id, score);
  });
}

}  // namespace boreas::cuda
