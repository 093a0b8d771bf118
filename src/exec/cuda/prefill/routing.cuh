// Routing of a prefill: each token's experts and weights, then who computes for which expert. No atomics whose order
// could matter: an expert's assignments stand in token order.
//
//   select   a warp a token: the largest logits, lowest id among equals, as the decode kernel's TOP_K
//   count    a block 256 tokens: how many of them chose each expert
//   group    the same blocks: where each choice stands in the list of its expert
#pragma once

#include "exec/cuda/prefill/arguments.h"
#include "exec/cuda/prefill/numbers.cuh"

namespace boreas::cuda::prefill {

constexpr int32_t kSelectTokens = 8;  // of a block, a warp each
constexpr int32_t kExpertsPerLane = kExpertsMax / 32;

// Orders bf16 logits as unsigned numbers, then lower ids first. NaN counts as the largest.
BOREAS_DEVICE uint32_t choice_key(uint32_t logit, int32_t expert) {
  if (logit == 0x8000u) logit = 0;  // -0 equals 0
  const uint32_t ordered = (logit & 0x8000u) != 0 ? ~logit & 0xffffu : logit | 0x8000u;
  return ordered << 16 | static_cast<uint32_t>(kExpertsMax - 1 - expert);
}
BOREAS_DEVICE float logit_of_key(uint32_t key) {
  const uint32_t ordered = key >> 16;
  return float_of(((ordered & 0x8000u) != 0 ? ordered & 0x7fffu : ~ordered & 0xffffu) << 16);
}

BOREAS_DEVICE void select_experts(const RouteArgs& args) {
  const int32_t token = block_index() * kSelectTokens + thread_index() / 32, lane = thread_index() % 32;
  if (token >= args.tokens) return;
  uint32_t keys[kExpertsPerLane];
  BOREAS_UNROLL
  for (int32_t q = 0; q < kExpertsPerLane; ++q) {
    const int32_t expert = lane + 32 * q;
    keys[q] = expert < args.experts ? choice_key(args.logits[int64_t{token} * args.experts + expert], expert) : 0;
  }
  uint32_t mine = 0;  // the choice that this lane looks after
  for (int32_t round = 0; round < args.choices; ++round) {
    uint32_t most = 0;
    BOREAS_UNROLL
    for (int32_t q = 0; q < kExpertsPerLane; ++q) most = keys[q] > most ? keys[q] : most;
    most = reduce_max(most);
    BOREAS_UNROLL
    for (int32_t q = 0; q < kExpertsPerLane; ++q) keys[q] = keys[q] == most ? 0 : keys[q];
    if (lane == round) mine = most;
  }
  const bool has = lane < args.choices;
  const int32_t expert = kExpertsMax - 1 - static_cast<int32_t>(mine & (kExpertsMax - 1));
  int32_t place = 0;  // among the chosen, ascending
  for (int32_t other = 0; other < args.choices; ++other) {
    const uint32_t its = shuffle(static_cast<uint32_t>(expert), other);
    place += static_cast<int32_t>(its) < expert ? 1 : 0;
  }
  if (!has) return;
  args.chosen[token * args.choices + place] = expert;
  args.weights[token * args.choices + place] = 1.0f / (1.0f + exp2_approximate(-logit_of_key(mine) * kLog2Of2e));
}

// ---- a block's tokens by expert, in shared memory: bit t % 32 of word t / 32, [experts][8 words]
constexpr int32_t kWordsPerExpert = kGroupTokens / 32;
constexpr uint32_t kChosenBytes = kExpertsMax * kWordsPerExpert * 4;
constexpr uint32_t kStartsOffset = kChosenBytes;                              // [experts] int32
constexpr uint32_t kGroupSharedBytes = kStartsOffset + kExpertsMax * 4 + 32;  // and a word a warp

BOREAS_DEVICE uint32_t chosen_word(int32_t expert, int32_t word) {
  return shared_base() + static_cast<uint32_t>((expert * kWordsPerExpert + word) * 4);
}
// All threads; then every warp has written the words of its own 32 tokens.
BOREAS_DEVICE void mark_chosen(const RouteArgs& args) {
  const int32_t token = block_index() * kGroupTokens + thread_index(), warp = thread_index() / 32;
  uint32_t own[kExpertsPerLane] = {};  // a bit an expert
  for (int32_t choice = 0; choice < args.choices && token < args.tokens; ++choice) {
    const int32_t expert = args.chosen[token * args.choices + choice];
    BOREAS_UNROLL
    for (int32_t q = 0; q < kExpertsPerLane; ++q) own[q] |= q == expert / 32 ? 1u << expert % 32 : 0;
  }
  BOREAS_UNROLL
  for (int32_t q = 0; q < kExpertsPerLane; ++q) {
    uint32_t mine = 0;
    BOREAS_UNROLL
    for (int32_t bit = 0; bit < 32; ++bit) {
      const uint32_t all = ballot((own[q] >> bit & 1) != 0);
      if (thread_index() % 32 == bit) mine = all;
    }
    store_shared_32(chosen_word(32 * q + thread_index() % 32, warp), mine);
  }
  block_sync();
}

BOREAS_DEVICE void count_chosen(const RouteArgs& args) {
  mark_chosen(args);
  const int32_t expert = thread_index();
  if (expert >= args.experts) return;
  int32_t count = 0;
  for (int32_t word = 0; word < kWordsPerExpert; ++word) count += bits_set(load_shared_32(chosen_word(expert, word)));
  args.counts[block_index() * args.experts + expert] = count;
}

// Sum over the lanes before this one.
BOREAS_DEVICE int32_t sum_before(int32_t value, int32_t lane, int32_t& total) {
  int32_t sum = value;
  BOREAS_UNROLL
  for (int32_t step = 1; step < 32; step *= 2) {
    const int32_t other = static_cast<int32_t>(shuffle(static_cast<uint32_t>(sum), lane - step));
    if (lane >= step) sum += other;
  }
  total = static_cast<int32_t>(shuffle(static_cast<uint32_t>(sum), 31));
  return sum - value;
}

// Where the own block's tokens begin in each expert's list, into shared memory; block 0 also says where the lists
// begin.
BOREAS_DEVICE void find_starts(const RouteArgs& args) {
  const int32_t expert = thread_index(), lane = expert % 32, warp = expert / 32;
  const int32_t blocks = (args.tokens + kGroupTokens - 1) / kGroupTokens;
  int32_t before = 0, total = 0;
  for (int32_t block = 0; block < blocks && expert < args.experts; ++block) {
    const int32_t count = args.counts[block * args.experts + expert];
    before += block < block_index() ? count : 0;
    total += count;
  }
  int32_t of_warp = 0;
  const int32_t in_warp = sum_before(total, lane, of_warp);
  const uint32_t warps = shared_base() + kStartsOffset + kExpertsMax * 4;
  if (lane == 0) store_shared_32(warps + static_cast<uint32_t>(warp * 4), static_cast<uint32_t>(of_warp));
  block_sync();
  int32_t list = in_warp;
  for (int32_t other = 0; other < warp; ++other)
    list += static_cast<int32_t>(load_shared_32(warps + static_cast<uint32_t>(other * 4)));
  if (expert < args.experts)
    store_shared_32(shared_base() + kStartsOffset + static_cast<uint32_t>(expert * 4),
                    static_cast<uint32_t>(list + before));
  if (block_index() == 0 && expert < args.experts) {
    args.first[expert] = list;
    if (expert == args.experts - 1) args.first[args.experts] = list + total;
  }
  block_sync();
}

BOREAS_DEVICE void group_chosen(const RouteArgs& args) {
  mark_chosen(args);
  find_starts(args);
  const int32_t token = block_index() * kGroupTokens + thread_index(), own_word = thread_index() / 32;
  if (token >= args.tokens) return;
  for (int32_t choice = 0; choice < args.choices; ++choice) {
    const int32_t expert = args.chosen[token * args.choices + choice];
    int32_t slot =
        static_cast<int32_t>(load_shared_32(shared_base() + kStartsOffset + static_cast<uint32_t>(expert * 4)));
    for (int32_t word = 0; word < own_word; ++word) slot += bits_set(load_shared_32(chosen_word(expert, word)));
    slot += bits_set(load_shared_32(chosen_word(expert, own_word)) & ((1u << thread_index() % 32) - 1));
    args.slots[token * args.choices + choice] = slot;
    args.rows[slot] = token;
  }
}

}  // namespace boreas::cuda::prefill
