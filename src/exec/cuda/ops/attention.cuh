// ATTENTION on the device: one KV head, the own pieces of every row.
//
// A page comes as two chunks, 32 positions of K and V each. One group of warps attends over first halves, the other
// over second ones, as the chunks fall to them; both keep a running maximum, sum and output, and are merged at the end
// of a piece, first halves first. So the order of a row's sums is that of its own pages. Within a group every warp
// computes all scores (exchanging them would cost two barriers a page) and 32 of the 128 output dims:
//
//   scores  S [32 positions x 8 queries]  A = K, B = q           2 tiles x 8 MMAs
//   output  O [32 dims x 8 queries]       A = V transposed, B = P  2 tiles x 2 MMAs
//
// Lane 4 g + c holds queries 2c and 2c + 1 of both, so rescaling needs no exchange. P goes from the S layout to the B
// operand by transposing 8 x 8 blocks; V's positions are stored in the order that this gives (program/weight_tiles.h).
//
// This launch's K and V are not in the streamed pages yet: they are patched into the chunk in shared memory from the
// qkv slot, and appended to the page in memory. Positions that the row does not see count as absent: their scores are
// -infinity, their V is zero; a chunk without any is passed over, and not copied (ops/load.cuh).
#pragma once

#include "exec/cuda/ops/op.cuh"

namespace boreas::cuda {

static_assert(kConsumerGroups == 2, "two chunks a page");
constexpr float kMinusInfinity = -__builtin_huge_valf();
// exp(x / sqrt(head_dim)) = 2^(x * this).
constexpr float kScoreScale = kLog2E * 0.08838834764831845f;
static_assert(kHeadDim == 128, "kScoreScale");

// A maximum of no scores at all: finite, so that weights need no case for it, and a power of two, so that nothing is
// rounded when it is scaled.
constexpr float kNoScore = -0x1p100f;

// 2^((score - maximum) * scale); 0 for a score of -infinity. The maximum is at least kNoScore.
BOREAS_DEVICE float softmax_weight(float score, float maximum) {
  return exp2_approximate(multiply_add(score, kScoreScale, -maximum * kScoreScale));
}

// What a lane keeps of one (row, piece): queries 2c and 2c + 1.
struct AttentionState {
  float maximum[2] = {kNoScore, kNoScore};
  float sum[2] = {0, 0};
  float output[2][4] = {};  // two tiles of 16 dims; D layout
};

template <class C>
struct Body<C, Op::kAttention> {
  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker& stream, const Task& task) {
    const bool sliding = task.arg(AttentionOp::kSliding) != 0;
    const int32_t layer = task.layer();
    const Range pieces{task.arg(AttentionOp::kPieceFirst), task.arg(AttentionOp::kPieceCount)};
    const bool silent = is_silent(w, task);
    const int32_t half = stream.takes_even_chunks() ? 0 : 1;  // of every page: this group's
    int32_t pages = 0;
    append(w, sliding, layer, pieces);  // a task reads its slots before it publishes
    const Publication to = begin_publication(w, task);
    BOREAS_NO_UNROLL
    for (int32_t row = 0; row < w.rows(); ++row) {
      const Sight sight(w, row, sliding);
      Vec4 query[4];
      load_query(w, row, query);
      for (int32_t own = pieces.first; own < pieces.end(); ++own) {
        const int32_t piece = w.piece_of(own, row);
        const auto run = w.pages_of(row, piece, sliding);
        if (run.count == 0) continue;
        AttentionState state;
        BOREAS_NO_UNROLL
        for (int32_t i = 0; i < run.count; ++i)
          attend_half(w, stream, row, run.first + i * kAttentionPieces, half, sight, query, state);
        pages += run.count;
        publish(w, row, piece, half, state, to, silent);
      }
    }
    stream.end_item(w.params, w.at, pages * kKvPagePieces);
  }

 private:
  static BOREAS_DEVICE uint32_t slot_row(const Worker<C>& w, int32_t row) {
    return w.slot(Slot::kQkv) + row * C::kQkvWidth * 2;
  }

  // What a row sees, and from which position on this launch knows better than the pages.
  struct Sight {
    int32_t first, last, launched;
    BOREAS_DEVICE Sight(const Worker<C>& w, int32_t row, bool sliding) {
      last = w.params.row[row].position;
      first = first_visible(last, sliding, w.params.window);
      launched = w.params.row[w.params.row[row].group_first].position;
    }
  };

  // B of the scores: this lane's query lane / 4, 8 dims of each block of 32.
  static BOREAS_DEVICE void load_query(const Worker<C>& w, int32_t row, Vec4 (&query)[4]) {
    const int32_t which = w.lane() / 4;
    const uint32_t at = slot_row(w, row) + which * kHeadDim * 2 + w.lane() % 4 * 16;
    BOREAS_UNROLL
    for (int32_t block = 0; block < 4; ++block)
      query[block] = which < C::kQueries ? load_shared_128(at + block * kBlockRowBytes) : Vec4{0, 0, 0, 0};
  }

  // The pages of this launch's positions that belong to own pieces get their K and V. Reads of the next launch only.
  static BOREAS_DEVICE void append(const Worker<C>& w, bool sliding, int32_t layer, Range pieces) {
    const bool value = w.consumer_thread() >= kHeadDim;
    const int32_t dim = w.consumer_thread() % kHeadDim;
    const auto is_own = [&](int32_t row) {
      const int32_t page = w.params.row[row].position / kLayoutPagePositions;
      const int32_t own = w.own_of(page % kAttentionPieces, row);
      return own >= pieces.first && own < pieces.end();
    };
    // Rows are looked at side by side: mostly there is none.
    uint32_t rows = C::kOneRow ? (is_own(0) ? 1 : 0) : ballot(w.lane() < w.rows() && is_own(w.lane() % kRowsMax));
    BOREAS_NO_UNROLL
    for (; rows != 0; rows &= rows - 1) {
      const int32_t row = C::kOneRow ? 0 : lowest_bit(rows);
      const int32_t position = w.params.row[row].position, page = position / kLayoutPagePositions;
      uint8_t* to = w.page(page_id(w, row, page, sliding), sliding, layer);
      const int32_t in_page = position % kLayoutPagePositions;
      const uint32_t element = load_half(slot_row(w, row) + ((C::kQueries + (value ? 1 : 0)) * kHeadDim + dim) * 2);
      *reinterpret_cast<uint16_t*>(to + (value ? v_offset(in_page, dim) : k_offset(in_page, dim))) =
          static_cast<uint16_t>(element);
    }
  }
  // Of a page of an own piece.
  static BOREAS_DEVICE int32_t page_id(const Worker<C>& w, int32_t row, int32_t page, bool sliding) {
    const Range pieces = w.own_pieces();
    int32_t index = 0;
    for (int32_t own = pieces.first; own < w.own_of(page % kAttentionPieces, row); ++own)
      index += w.pages_of(row, w.piece_of(own, row), sliding).count;
    index += (page - w.pages_of(row, page % kAttentionPieces, sliding).first) / kAttentionPieces;
    return static_cast<int32_t>(load_half(w.page_list(sliding) + (w.page_first(row, sliding) + index) * 2));
  }

  static BOREAS_DEVICE void attend_half(Worker<C>& w, StreamTaker& stream, int32_t row, int32_t page, int32_t half,
                                        const Sight& sight, const Vec4 (&query)[4], AttentionState& state) {
    const uint32_t keys = stream.begin_chunk(w.params, w.at);
    const int32_t base = page * kLayoutPagePositions + half * kKvHalfPositions;
    if (sight.first < base + kKvHalfPositions && sight.last >= base) {
      if (sight.launched < base + kKvHalfPositions) patch(w, row, base, keys);
      attend(w, sight.first - base, sight.last - base, keys, query, state);
    }
    stream.end_chunk(w.params);
  }

  // Positions of this launch, of the same sequence, up to the row's own, into the chunk at positions base..base + 31.
  static BOREAS_DEVICE void patch(const Worker<C>& w, int32_t row, int32_t base, uint32_t chunk) {
    const int32_t dim = w.consumer_thread() % kGroupThreads;
    for (int32_t from = w.params.row[row].group_first; from <= row; ++from) {
      const int32_t position = w.params.row[from].position - base;
      if (position < 0 || position >= kKvHalfPositions) continue;
      const uint32_t key = slot_row(w, from) + (C::kQueries * kHeadDim + dim) * 2;
      store_shared_16(chunk + k_offset(position, dim), load_half(key));
      store_shared_16(chunk + v_offset(position, dim), load_half(key + kHeadDim * 2));
    }
    named_barrier(kGroupsMeet + w.warp() / kGroupWarps, kGroupThreads);
  }

  // visible_first, visible_last: positions of the chunk.
  static BOREAS_DEVICE void attend(const Worker<C>& w, int32_t visible_first, int32_t visible_last, uint32_t keys,
                                   const Vec4 (&query)[4], AttentionState& state) {
    float scores[2][4] = {}, others[2][4] = {};  // two sums each, so that fewer MMAs wait for the one before
    BOREAS_UNROLL
    for (int32_t block = 0; block < 4; ++block) {
      BOREAS_UNROLL
      for (int32_t tile = 0; tile < 2; ++tile) {
        const uint32_t at = keys + tile * 4096 + block * 1024 + w.lane() * 16;
        const Vec4 first = load_shared_128(at), second = load_shared_128(at + 512);
        mma_bf16(scores[tile], first.x, first.y, first.z, first.w, query[block].x, query[block].y);
        mma_bf16(others[tile], second.x, second.y, second.z, second.w, query[block].z, query[block].w);
      }
    }
    BOREAS_UNROLL
    for (int32_t i = 0; i < 8; ++i) scores[i / 4][i % 4] += others[i / 4][i % 4];
    const bool whole = visible_first <= 0 && visible_last >= kKvHalfPositions - 1;
    if (!whole) mask_scores(scores, w.lane() / 4, visible_first, visible_last);
    uint32_t weights[4];  // blocks of 8 positions, as B operands
    update(scores, state, weights);
    uint32_t masks[4] = {~0u, ~0u, ~0u, ~0u};  // what lies where nothing is visible may be anything, also NaN
    if (!whole) {
      BOREAS_UNROLL
      for (int32_t block = 0; block < 4; ++block)
        masks[block] = mask_of(block, w.lane() % 4, visible_first, visible_last);
    }
    const uint32_t values = keys + kPieceBytes + w.warp() % kGroupWarps * 2048 + w.lane() * 16;
    BOREAS_UNROLL
    for (int32_t tile = 0; tile < 2; ++tile) {
      const Vec4 a = load_shared_128(values + tile * 1024), b = load_shared_128(values + tile * 1024 + 512);
      mma_bf16(state.output[tile], a.x & masks[0], a.y & masks[0], a.z & masks[1], a.w & masks[1], weights[0],
               weights[1]);
      mma_bf16(state.output[tile], b.x & masks[2], b.y & masks[2], b.z & masks[3], b.w & masks[3], weights[2],
               weights[3]);
    }
  }

  static BOREAS_DEVICE void mask_scores(float (&scores)[2][4], int32_t row, int32_t first, int32_t last) {
    BOREAS_UNROLL
    for (int32_t tile = 0; tile < 2; ++tile) {
      BOREAS_UNROLL
      for (int32_t i = 0; i < 4; ++i) {
        const int32_t position = tile * 16 + i / 2 * 8 + row;
        if (position < first || position > last) scores[tile][i] = kMinusInfinity;
      }
    }
  }
  // Which of an MMA's positions are visible, as masks of two registers: 8 q + 2 (lane % 4) and the next one in x and y,
  // 8 more in z and w (v_column).
  static BOREAS_DEVICE uint32_t mask_of(int32_t block, int32_t column, int32_t first, int32_t last) {
    const int32_t position = 8 * block + 2 * column;
    return (position >= first && position <= last ? 0xffffu : 0u) |
           (position + 1 >= first && position + 1 <= last ? 0xffff0000u : 0u);
  }

  // Running maximum and sum; weights in bf16, which both the sum and the output use.
  static BOREAS_DEVICE void update(const float (&scores)[2][4], AttentionState& state, uint32_t (&weights)[4]) {
    float maximum[2];
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      float most = scores[0][i];
      BOREAS_UNROLL
      for (float other : {scores[0][i + 2], scores[1][i], scores[1][i + 2]}) most = other > most ? other : most;
      BOREAS_UNROLL
      for (int32_t step = 4; step < 32; step *= 2) {
        const float other = shuffle_xor(most, step);
        most = other > most ? other : most;
      }
      maximum[i] = most > state.maximum[i] ? most : state.maximum[i];
      const float rescale = softmax_weight(state.maximum[i], maximum[i]);
      state.maximum[i] = maximum[i];
      state.sum[i] *= rescale;
      BOREAS_UNROLL
      for (int32_t tile = 0; tile < 2; ++tile) {
        state.output[tile][i] *= rescale;
        state.output[tile][i + 2] *= rescale;
      }
    }
    BOREAS_UNROLL
    for (int32_t block = 0; block < 4; ++block) {
      const float* two = scores[block / 2] + block % 2 * 2;
      const uint32_t pair = pack_bf16(softmax_weight(two[0], maximum[0]), softmax_weight(two[1], maximum[1]));
      state.sum[0] += low_half(pair);
      state.sum[1] += high_half(pair);
      weights[block] = transpose_8x8(pair);
    }
  }

  // ---- the two groups' states become m, l and o of each query, and words of hop partial
  static BOREAS_DEVICE void publish(const Worker<C>& w, int32_t row, int32_t piece, int32_t half, AttentionState& state,
                                    const Publication& to, bool silent) {
    const int32_t in_group = w.consumer_thread() % kGroupThreads;
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      BOREAS_UNROLL
      for (int32_t step = 4; step < 32; step *= 2) state.sum[i] += shuffle_xor(state.sum[i], step);
    }
    // Whoever read the scratch before has met all others since, when q, k and v were published or a piece was.
    if (half == 1) give(w, in_group, state);
    named_barrier(kConsumersMeet, kConsumerThreads);
    if (half == 0) {
      take(w, in_group, state);
      if (!silent) publish_state(w, row, piece, state, to);
    }
    named_barrier(kConsumersMeet, kConsumerThreads);
  }

  // Second halves' outputs: [8 registers][128 threads] floats; m and l: [2][8 queries].
  static BOREAS_DEVICE void give(const Worker<C>& w, int32_t in_group, const AttentionState& state) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < 8; ++i)
      store_shared_float(w.scratch(&ScratchMap::partials) + (i * kGroupThreads + in_group) * 4,
                         state.output[i / 4][i % 4]);
    if (in_group >= 4) return;  // lanes 0..3 of the group's first warp hold all eight queries
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      store_shared_float(w.scratch(&ScratchMap::attention_other) + (2 * in_group + i) * 4, state.maximum[i]);
      store_shared_float(w.scratch(&ScratchMap::attention_other) + (kRowsMax + 2 * in_group + i) * 4, state.sum[i]);
    }
  }
  static BOREAS_DEVICE void take(const Worker<C>& w, int32_t in_group, AttentionState& state) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      const int32_t query = w.lane() % 4 * 2 + i;
      const float other_maximum = load_shared_float(w.scratch(&ScratchMap::attention_other) + query * 4);
      const float other_sum = load_shared_float(w.scratch(&ScratchMap::attention_other) + (kRowsMax + query) * 4);
      const float maximum = other_maximum > state.maximum[i] ? other_maximum : state.maximum[i];
      const float own = softmax_weight(state.maximum[i], maximum), other = softmax_weight(other_maximum, maximum);
      state.maximum[i] = maximum;
      state.sum[i] = multiply_add(state.sum[i], own, other_sum * other);
      BOREAS_UNROLL
      for (int32_t k = i; k < 8; k += 2) {
        float& output = state.output[k / 4][k % 4];
        const float given = load_shared_float(w.scratch(&ScratchMap::partials) + (k * kGroupThreads + in_group) * 4);
        output = multiply_add(output, own, given * other);
      }
    }
  }
  static BOREAS_DEVICE void publish_state(const Worker<C>& w, int32_t row, int32_t piece, const AttentionState& state,
                                          const Publication& to) {
    const int32_t g = w.lane() / 4, pair = w.lane() % 4;
    Word* words =
        to.half +
        (((row * C::kKvHeads + w.group().head) * kAttentionPieces + piece) * C::kQueryPairs + pair) * C::kPartialWords +
        (w.warp() % kGroupWarps * 8 + g) * C::kPartialLaneWords;
    const float ninth =
        g % 2 == 0 ? (g % 4 == 0 ? state.maximum[0] : state.maximum[1]) : (g % 4 == 1 ? state.sum[0] : state.sum[1]);
    const float(&o)[2][4] = state.output;
    if (pair >= C::kQueryPairs) return;
    store_word(words, bits_of(o[0][0]), bits_of(o[0][2]), bits_of(o[1][0]), to.epoch);
    store_word(words + 1, bits_of(o[1][2]), bits_of(o[0][1]), bits_of(o[0][3]), to.epoch);
    store_word(words + 2, bits_of(o[1][1]), bits_of(o[1][3]), bits_of(ninth), to.epoch);
  }
};

}  // namespace boreas::cuda
