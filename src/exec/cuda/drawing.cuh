// Drawing a token from logits that all workers share: what LM_HEAD, FILTER and SAMPLE have in common. exec/sampling.h
// says what is drawn, with the arithmetic of exec/sampling_math.h, bit for bit:
//
//   LM_HEAD   each worker: the best entry of its vocabulary slice by logit / T + noise, and its largest logit
//   FILTER    rows that filter: each worker weighs its slice against the best entry of all
//   SAMPLE    the row's worker: the best entry, if inside the filters; else the best of those before it, and so on
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
// Parts by messenger warp, and the whole of them.
template <class C, class Part>
BOREAS_DEVICE void store_part(const Worker<C>& w, uint32_t parts, const Part& part) {
  if (w.lane() == 0) part.store(parts + (w.warp() - kConsumerWarps) * kPartBytes);
}
template <class Part>
BOREAS_DEVICE Part merged(uint32_t parts) {
  Part part = Part::load(parts);
  BOREAS_NO_UNROLL
  for (int32_t warp = 1; warp < kMessengerWarps; ++warp) part.merge(Part::load(parts + warp * kPartBytes));
  return part;
}
// Messengers take the room of the partial sums: LM_HEAD's publication, the step's last task of consumers, is over.
// A row's best entry stays there from FILTER to SAMPLE.
template <class C>
BOREAS_DEVICE uint32_t best_parts(const Worker<C>& w, int32_t row) {
  return w.scratch(&ScratchMap::partials) + row * kMessengerWarps * kPartBytes;
}
template <class C>
BOREAS_DEVICE uint32_t weight_parts(const Worker<C>& w, int32_t row) {
  return best_parts(w, kRowsMax + row);
}
static_assert(2 * kRowsMax * kMessengerWarps * kPartBytes <= 2 * partial_bytes(1));

// Every messenger gets the whole; `parts` has room for them.
template <class C, class Part>
BOREAS_DEVICE void merge_messengers(const Worker<C>& w, uint32_t parts, Part& part) {
  merge_lanes(part);
  named_barrier(kMessengersMeet, kMessengerThreads);
  store_part(w, parts, part);
  named_barrier(kMessengersMeet, kMessengerThreads);
  part = merged<Part>(parts);
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

struct NoiseWords {
  uint32_t word[4];
};
// Of entries first to first + 3; zeros where the row does not draw.
BOREAS_DEVICE NoiseWords noise_of(const RowPlan& plan, int32_t first) {
  NoiseWords noise{};
  if (plan.sample != kSampleDraw) return noise;
  const auto words = sampling_math::noise_words(plan.draw.seed, plan.draw.choice_index, plan.position + 1,
                                                static_cast<uint32_t>(first / 4));
  BOREAS_UNROLL
  for (int32_t k = 0; k < 4; ++k) noise.word[k] = words[static_cast<size_t>(k)];
  return noise;
}

// The best of a consumer's share of the row's ids.
template <class C>
BOREAS_DEVICE Best best_of_entries(const Worker<C>& w, int32_t row, Range ids) {
  const RowPlan& plan = w.params.row[row];
  const bool draws = plan.sample == kSampleDraw;
  Best best;
  for_entries(w, row, ids, w.consumer_thread(), kConsumerThreads, [&](int32_t first, const float(&logits)[4]) {
    const NoiseWords noise = noise_of(plan, first);
    BOREAS_UNROLL
    for (int32_t k = 0; k < 4; ++k) {  // without branches: the four run side by side
      const float logit = logits[k];
      const double drawn = sampling_math::drawn_value(logit, plan.draw.inverse_temperature, noise.word[k]);
      const uint64_t finite = sampling_math::draw_order(draws ? drawn : logit, first + k);
      const bool own = first + k >= ids.first && first + k < ids.end();
      best.merge({own ? is_finite(logit) ? finite : kNotFinite : 0, own ? ordered_float(logit) : 0});
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

// Noise words above this have noise below `needed`: noise <= -log(u), u = (word + 0.5) * 2^-32 rounded. sampling.cc has
// the same bound, with libm's exponential and so with less slack. Of NaN: all of them have.
BOREAS_DEVICE uint32_t noise_limit(float needed) {
  constexpr float kSlack = 0.01f;  // far above the rounding of u, of the noise and of the exponential
  return !(needed > kSlack) ? ~0u : static_cast<uint32_t>(sampling_math::exp(kSlack - needed) * 0x1.fffffep31f);
}

// The best entry before the candidate that min-p lets through, of a messenger's share of the vocabulary. Entries whose
// noise cannot make up for the distance from the largest logit to the best so far are passed over.
template <class C>
BOREAS_DEVICE Best best_before(const Worker<C>& w, int32_t row, const Candidate& candidate) {
  const RowPlan& plan = w.params.row[row];
  const float largest = candidate.largest * candidate.inverse_temperature;
  const float ceiling = largest + (largest < 0 ? -largest : largest) * 1e-6f;  // the product is rounded
  Best best;
  uint32_t limit = ~0u;
  for_entries(
      w, row, {0, C::kVocabulary}, w.messenger_thread(), kMessengerThreads, [&](int32_t first, float(&logits)[4]) {
        NoiseWords noise = noise_of(plan, first);
        BOREAS_NO_UNROLL
        for (int32_t id = first; id < first + 4; ++id) {
          const float logit = logits[0], score = candidate.score_of(logit);
          if (noise.word[0] <= limit && score >= candidate.score_min && candidate.comes_after(id, score)) {
            const double value = sampling_math::drawn_value(logit, plan.draw.inverse_temperature, noise.word[0]);
            const uint64_t order = sampling_math::draw_order(value, id);
            if (order > best.order) limit = noise_limit(static_cast<float>(value) - ceiling);
            best.merge({order, 0});
          }
          BOREAS_UNROLL
          for (int32_t k = 0; k + 1 < 4; ++k)  // no index: that would put them in memory
            logits[k] = logits[k + 1], noise.word[k] = noise.word[k + 1];
        }
      });
  return best;
}

}  // namespace boreas::cuda
