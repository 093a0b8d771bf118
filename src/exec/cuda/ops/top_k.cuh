// TOP_K on the device, one warp. A logit and its expert become one key that orders them: 16 bits of the bf16 value,
// then 127 - id, so the largest key is the largest logit of the lowest id, and a round of selection is one reduction.
// NaN, which the MMA and the rounding leave with a positive sign, counts as the largest.
#pragma once

#include "exec/cuda/ops/op.cuh"
#include "exec/cuda/ops/probe.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kTopK> {
  static constexpr int32_t kPerLane = static_cast<int32_t>(ceil_div(C::kExperts, 32));

  static BOREAS_DEVICE void run(Worker<C>& w, const Task& task) {
    const HopWait wait = task.wait();
    const uint32_t epoch = hop_epoch(w.params, wait.hop, wait.use);
    const int32_t slot = task.arg(TopKOp::kSlot);
    wait_own(w, wait);
    uint32_t hit = 0;  // bit q: expert lane + 32 q is some row's choice
    BOREAS_NO_UNROLL
    for (int32_t sixth = 0; sixth < words_of_halves(w.rows()); ++sixth) {
      Word words[kPerLane];
      gather_words<32, kPerLane>(
          w.params, w.at, w.lane(), C::kExperts, wait.hop, epoch, [&](int32_t e) { return sixth * C::kExperts + e; },
          [&](int32_t, int32_t q, const Word& word) { words[q] = word; });
      warp_sync();
      BOREAS_NO_UNROLL
      for (int32_t k = 0; k < kWordHalves; ++k) {
        const int32_t row = sixth * kWordHalves + k;
        if (row < w.rows()) hit |= select(w, slot, row, words, k);
      }
    }
    warp_sync();
    write_experts(w, task.layer(), slot, hit);
  }

 private:
  // Workers without an expert publish nothing and have nothing to wait for.
  static BOREAS_DEVICE void wait_own(Worker<C>& w, const HopWait& wait) {
    if (C::slice_of(C::kExperts, w.worker()).count > 0) w.wait_own_publication(wait);
  }
  // Where choice j of a row is: its expert, then its weight.
  static BOREAS_DEVICE uint32_t choice_address(const Worker<C>& w, int32_t slot, int32_t row, int32_t choice) {
    return w.base + w.params.slot_offset[slot] + (row * C::kExpertsPerToken + choice) * 8;
  }

  static BOREAS_DEVICE uint32_t key_of(uint32_t logit, int32_t expert) {
    if (logit == 0x8000u) logit = 0;  // -0 equals 0
    const uint32_t ordered = logit & 0x8000u ? ~logit & 0xffffu : logit | 0x8000u;
    return ordered << 16 | static_cast<uint32_t>(127 - expert);
  }
  static BOREAS_DEVICE float logit_of(uint32_t key) {
    const uint32_t ordered = key >> 16;
    return float_of((ordered & 0x8000u ? ordered & 0x7fffu : ~ordered & 0xffffu) << 16);
  }

  // Choices of a row, by ascending expert, into the slot; returns which of this lane's experts are among them.
  static BOREAS_DEVICE uint32_t select(const Worker<C>& w, int32_t slot, int32_t row, const Word (&words)[kPerLane],
                                       int32_t k) {
    uint32_t keys[kPerLane];
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) {
      const Word& word = words[q];
      uint32_t pair = k < 2 ? word.payload[0] : k < 4 ? word.payload[1] : word.payload[2];
      if (C::kOneRow) pair |= word.payload[1] | word.payload[2];  // zeros; but a word must be used whole (signal.cuh)
      const int32_t expert = w.lane() + 32 * q;
      keys[q] = expert < C::kExperts ? key_of(half_of(pair, k % 2), expert) : 0;
    }
    uint32_t mine = 0, hit = 0;
    BOREAS_NO_UNROLL
    for (int32_t round = 0; round < C::kExpertsPerToken; ++round) {
      uint32_t most = 0;
      BOREAS_UNROLL
      for (int32_t q = 0; q < kPerLane; ++q) most = keys[q] > most ? keys[q] : most;
      most = reduce_max(most);
      BOREAS_UNROLL
      for (int32_t q = 0; q < kPerLane; ++q) {
        if (keys[q] != most) continue;
        keys[q] = 0;
        hit |= 1u << q;
      }
      if (w.lane() == round) mine = most;
    }
    uint32_t all[kPerLane];
    everybodys(hit, all);
    if (w.lane() >= C::kExpertsPerToken) return hit;
    const int32_t expert = 127 - static_cast<int32_t>(mine & 127u);
    const uint32_t at = choice_address(w, slot, row, index_of(all, expert));
    store_shared_32(at, static_cast<uint32_t>(expert));
    store_shared_float(at + 4, 1.0f / (1.0f + exp2_approximate(-logit_of(mine) * kLog2E)));
    return hit;
  }

  // Bit e % 32 of word e / 32: whether the lane that looks after expert e has it in its own set.
  static BOREAS_DEVICE void everybodys(uint32_t own, uint32_t (&all)[kPerLane]) {
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) all[q] = ballot(own >> q & 1);
  }
  // How many of the set come before the expert.
  static BOREAS_DEVICE int32_t index_of(const uint32_t (&all)[kPerLane], int32_t expert) {
    int32_t index = 0;
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) {
      // A mask and no choice of word: the compiler would index the array, in memory.
      const uint32_t before = q < expert / 32 ? ~0u : q == expert / 32 ? (1u << expert % 32) - 1 : 0u;
      index += bits_set(all[q] & before);
    }
    return index;
  }

  // Distinct experts in ascending order, and who chose them: bytes, written by one lane a word.
  static BOREAS_DEVICE void write_experts(const Worker<C>& w, int32_t layer, int32_t slot, uint32_t hit) {
    const uint32_t table = w.route_table(w.route_parity(slot));
    uint32_t all[kPerLane];
    everybodys(hit, all);
    int32_t count = 0;
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) count += bits_set(all[q]);
    if (w.lane() == 0) {
      store_shared_32(table, static_cast<uint32_t>(count));
      const uint32_t experts = w.scratch(&ScratchMap::experts);
      store_shared_32(experts, load_shared_32(experts) + static_cast<uint32_t>(count));
    }
    if (!C::kOneRow) {
      const int32_t bytes = w.rows() * C::kExpertsPerToken * w.rows();
      for (int32_t i = w.lane() * 4; i < bytes; i += 128)
        store_shared_32(table + w.params.scratch.route_choices + i, ~0u);
    }
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q)
      if (all[q] >> w.lane() & 1)
        store_byte(table + kRouteExperts + index_of(all, w.lane() + 32 * q), w.lane() + 32 * q);
    warp_sync();
    if constexpr (!C::kOneRow || C::kProbed) write_choices(w, layer, slot, all, table);
  }

  static BOREAS_DEVICE void write_choices(const Worker<C>& w, int32_t layer, int32_t slot,
                                          const uint32_t (&all)[kPerLane], uint32_t table) {
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) {
      if (w.lane() >= C::kExpertsPerToken) continue;
      const int32_t expert = static_cast<int32_t>(load_shared_32(choice_address(w, slot, row, w.lane())));
      if constexpr (C::kProbed) record_choice(w, layer, row, expert);
      store_byte(table + w.params.scratch.route_choices + index_of(all, expert) * w.rows() + row, w.lane());
    }
    warp_sync();
  }
};

}  // namespace boreas::cuda
