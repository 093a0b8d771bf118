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
    uint32_t hit = 0;   // bit q: expert lane + 32 q is some row's choice
    uint32_t rows = 0;  // byte q: of which rows
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
        if (row >= w.rows()) continue;
        const uint32_t own = select(w, slot, row, words, k);
        hit |= own;
        if (!C::kOneRow) rows |= byte_of_each_bit(own) << row;
      }
    }
    warp_sync();
    write_experts(w, task.layer(), slot, hit, rows);
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

  // Bit q of four as the lowest bit of byte q.
  static constexpr uint32_t byte_of_each_bit(uint32_t bits) { return bits * 0x204081u & 0x01010101u; }
  static_assert(byte_of_each_bit(0b1011) == 0x01000101u && kPerLane <= 4 && kRowsMax <= 8);
  static constexpr uint32_t bits_of_each_byte(uint32_t bytes) {
    bytes -= bytes >> 1 & 0x55555555u;
    bytes = (bytes & 0x33333333u) + (bytes >> 2 & 0x33333333u);
    return (bytes + (bytes >> 4)) & 0x0f0f0f0fu;
  }
  static_assert(bits_of_each_byte(0xff017f00u) == 0x08010700u);

  // Distinct experts in ascending order, and who chose them, in bytes. rows: byte q, which rows chose expert
  // lane + 32 q.
  static BOREAS_DEVICE void write_experts(const Worker<C>& w, int32_t layer, int32_t slot, uint32_t hit,
                                          uint32_t rows) {
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
    const uint32_t firsts = C::kOneRow ? 0 : choices_before(w, bits_of_each_byte(rows));
    BOREAS_UNROLL
    for (int32_t q = 0; q < kPerLane; ++q) {
      if ((all[q] >> w.lane() & 1) == 0) continue;
      const int32_t index = index_of(all, w.lane() + 32 * q);
      store_byte(table + kRouteExperts + index, w.lane() + 32 * q);
      if (!C::kOneRow)
        store_byte(table + w.params.scratch.route_firsts + index, static_cast<int32_t>(firsts >> 8 * q & 0xffu));
    }
    if (!C::kOneRow && w.lane() == 0)
      store_byte(table + w.params.scratch.route_firsts + count, w.rows() * C::kExpertsPerToken);
    if constexpr (!C::kOneRow || C::kProbed) write_choices(w, layer, slot, rows, firsts, table);
    warp_sync();
  }

  // By bytes: of all experts' choices, how many are those of experts before lane + 32 q. own: of this lane's experts.
  static BOREAS_DEVICE uint32_t choices_before(const Worker<C>& w, uint32_t own) {
    static_assert(kRowsMax * C::kExpertsPerToken < 256, "sums stay in their bytes");
    uint32_t up_to = own;
    BOREAS_UNROLL
    for (int32_t step = 1; step < 32; step *= 2) {
      const uint32_t lower = shuffle(up_to, w.lane() - step < 0 ? 0 : w.lane() - step);
      if (w.lane() >= step) up_to += lower;
    }
    const uint32_t of_all = shuffle(up_to, 31);
    return up_to - own + (of_all << 8) + (of_all << 16) + (of_all << 24);
  }

  // Every choice's place among all of them, by expert and then by row.
  static BOREAS_DEVICE void write_choices(const Worker<C>& w, int32_t layer, int32_t slot, uint32_t rows,
                                          uint32_t firsts, uint32_t table) {
    const int32_t choices = w.rows() * C::kExpertsPerToken;
    BOREAS_NO_UNROLL
    for (int32_t first = 0; first < choices; first += 32) {
      const int32_t choice = first + w.lane(), row = choice / C::kExpertsPerToken;
      const bool its = choice < choices;
      const int32_t expert =
          its ? static_cast<int32_t>(load_shared_32(choice_address(w, slot, row, choice % C::kExpertsPerToken))) : 0;
      const int32_t shift = expert / 32 * 8;
      const uint32_t its_rows = shuffle(rows, expert % 32) >> shift & 0xffu;
      const uint32_t its_first = shuffle(firsts, expert % 32) >> shift & 0xffu;
      if (!its) continue;
      if constexpr (C::kProbed) record_choice(w, layer, row, choice % C::kExpertsPerToken, expert);
      if (C::kOneRow) continue;
      const int32_t place = static_cast<int32_t>(its_first) + bits_set(its_rows & ((1u << row) - 1));
      store_byte(table + w.params.scratch.route_sorted + place, choice);
      store_byte(table + w.params.scratch.route_places + choice, place);
    }
  }
};

}  // namespace boreas::cuda
