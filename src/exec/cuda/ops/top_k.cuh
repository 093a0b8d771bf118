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
    const int32_t slot = task.arg(TopKOp::kSlot), parity = w.route_parity(slot);
    wait_own(w, wait);
    uint32_t hit = 0;          // bit q: expert lane + 32 q is some row's choice
    int32_t chosen[kRowsMax];  // lane j: choice j of each row
    for (int32_t sixth = 0; sixth < words_of_halves(w.rows()); ++sixth) {
      Word words[kPerLane];
      gather_words<32, kPerLane>(
          w.params, w.at, w.lane(), C::kExperts, wait.hop, epoch, [&](int32_t e) { return sixth * C::kExperts + e; },
          [&](int32_t, int32_t q, const Word& word) { words[q] = word; });
      warp_sync();
      BOREAS_UNROLL
      for (int32_t k = 0; k < kWordHalves; ++k) {
        const int32_t row = sixth * kWordHalves + k;
        if (row >= w.rows()) continue;
        const int32_t choice = select(w, slot, row, words, k, hit);
        set_choice(chosen, row, choice);
        if constexpr (C::kProbed) record_choice(w, task.layer(), row, choice);
      }
    }
    write_experts(w, parity, hit, chosen);
  }

 private:
  // Workers without an expert publish nothing and have nothing to wait for.
  static BOREAS_DEVICE void wait_own(Worker<C>& w, const HopWait& wait) {
    if (C::slice_of(C::kExperts, w.worker()).count > 0) w.wait_own_publication(wait);
  }
  static BOREAS_DEVICE void set_choice(int32_t (&chosen)[kRowsMax], int32_t row, int32_t expert) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < kRowsMax; ++i)
      if (i == row) chosen[i] = expert;
  }
  static BOREAS_DEVICE int32_t get_choice(const int32_t (&chosen)[kRowsMax], int32_t row) {
    int32_t expert = -1;
    BOREAS_UNROLL
    for (int32_t i = 0; i < kRowsMax; ++i)
      if (i == row) expert = chosen[i];
    return expert;
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

  // Choices of a row by ascending expert into the slot; returns lane j's choice j.
  static BOREAS_DEVICE int32_t select(Worker<C>& w, int32_t slot, int32_t row, const Word (&words)[kPerLane], int32_t k,
                                      uint32_t& hit) {
    uint32_t keys[kPerLane];
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) {
      const int32_t expert = w.lane() + 32 * q;
      keys[q] = expert < C::kExperts ? key_of(half_of(words[q].payload[k / 2], k % 2), expert) : 0;
    }
    uint32_t mine = 0;
    for (int32_t round = 0; round < C::kExpertsPerToken; ++round) {
      uint32_t most = 0;
      BOREAS_UNROLL
      for (int32_t q = 0; q < kPerLane; ++q) most = keys[q] > most ? keys[q] : most;
      most = reduce_max(most);
      BOREAS_UNROLL
      for (int32_t q = 0; q < kPerLane; ++q) keys[q] = keys[q] == most ? 0 : keys[q];
      if (w.lane() == round) mine = most;
    }
    const bool has = w.lane() < C::kExpertsPerToken;
    const int32_t expert = has ? 127 - static_cast<int32_t>(mine & 127u) : 1 << 20;
    int32_t rank = 0;
    BOREAS_UNROLL
    for (int32_t other = 0; other < C::kExpertsPerToken; ++other) {
      const int32_t its = static_cast<int32_t>(shuffle(static_cast<uint32_t>(expert), other));
      rank += its < expert;
      if (its % 32 == w.lane()) hit |= 1u << its / 32;
    }
    const float weight = 1.0f / (1.0f + exp2_approximate(-logit_of(mine) * kLog2E));
    const uint32_t at = w.base + w.params.slot_offset[slot] + (row * C::kExpertsPerToken + rank) * 8;
    if (has) {
      store_shared_32(at, static_cast<uint32_t>(expert));
      store_shared_float(at + 4, weight);
    }
    // Lane of rank j holds choice j from here on.
    int32_t by_rank = -1;
    BOREAS_UNROLL
    for (int32_t other = 0; other < C::kExpertsPerToken; ++other) {
      const int32_t its_rank = static_cast<int32_t>(shuffle(static_cast<uint32_t>(rank), other));
      const int32_t its = static_cast<int32_t>(shuffle(static_cast<uint32_t>(expert), other));
      if (its_rank == w.lane()) by_rank = its;
    }
    return has ? by_rank : -1;
  }

  static BOREAS_DEVICE int32_t index_of(const uint32_t (&hit)[kPerLane], int32_t expert) {
    int32_t index = 0;
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) {
      if (q < expert / 32) index += bits_set(hit[q]);
      if (q == expert / 32) index += bits_set(hit[q] & ((1u << expert % 32) - 1));
    }
    return index;
  }

  // Distinct experts in ascending order, and who chose them: bytes, written by one lane a word.
  static BOREAS_DEVICE void write_experts(Worker<C>& w, int32_t parity, uint32_t own_hits,
                                          const int32_t (&chosen)[kRowsMax]) {
    const uint32_t table = w.route_table(parity);
    uint32_t hit[kPerLane];  // bit e % 32 of word e / 32, the same in all lanes
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) hit[q] = ballot(own_hits >> q & 1);
    int32_t count = 0;
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) count += bits_set(hit[q]);
    if (w.lane() == 0) store_shared_32(table, static_cast<uint32_t>(count));
    const int32_t bytes = w.rows() * C::kExpertsPerToken * w.rows();
    for (int32_t i = w.lane() * 4; i < bytes; i += 128)
      store_shared_32(table + w.params.scratch.route_choices + i, ~0u);
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q)
      if (hit[q] >> w.lane() & 1)
        store_byte(table + kRouteExperts + index_of(hit, w.lane() + 32 * q), w.lane() + 32 * q);
    warp_sync();
    for (int32_t row = 0; row < w.rows(); ++row) {
      const int32_t expert = get_choice(chosen, row);
      if (expert >= 0)
        store_byte(table + w.params.scratch.route_choices + index_of(hit, expert) * w.rows() + row, w.lane());
    }
    warp_sync();
  }
};

}  // namespace boreas::cuda
