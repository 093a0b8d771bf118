// Attention of a prefill: all queries of neighbouring tokens of a sequence over its unfolded KV pages (unfold.cuh), one
// KV head a block.
//
//   192 rows = tokens x queries of the KV head; each of three warpgroups has 64
//   scores  S [64 x 64 keys]   A = q, B = K of a page   both in shared memory
//   output  O [64 x 128 dims]  A = P, B = V             S leaves its MMA as the A operand, in registers, of this one
//
// Pages come by bulk copies into a ring, in ascending order; a warpgroup looks only at pages that one of its tokens
// sees, and multiplies the next page's keys while it does this one's values. The running maximum is taken page by page
// of the sequence. A key that a row does not see has score -infinity and weight zero, which changes nothing: so a row's
// bits are the same whatever else is in its tile, and wherever a range was cut.
#pragma once

#include "exec/cuda/prefill/arguments.h"
#include "exec/cuda/prefill/numbers.cuh"
#include "program/weight_tiles.h"

#ifdef BOREAS_EMULATE_DEVICE
#include <wgmma_emulation.h>
#else
#include "exec/cuda/prefill/attention_ptx.cuh"
#endif

namespace boreas::cuda::prefill {

constexpr int32_t kAttentionGroups = 3, kGroupRows = 64;
constexpr int32_t kAttentionThreads = kAttentionGroups * 128, kAttentionWarps = kAttentionThreads / 32;
static_assert(kTileRows == kAttentionGroups * kGroupRows);
constexpr int32_t kRingPages = 5;
constexpr int32_t kQuerySlabBytes = kGroupRows * 128;  // 64 dims
constexpr uint32_t kQueryOffset = kRingPages * kUnfoldedBytes;
constexpr uint32_t kAttentionBarriers = kQueryOffset + kAttentionGroups * 2 * kQuerySlabBytes;  // full, then empty
constexpr uint32_t kAttentionSharedBytes = kAttentionBarriers + 2 * kRingPages * 8 + kUnfoldedAlign;
constexpr uint64_t kNormalPolicy = 0x1000000000000000;  // of the L2 cache, for bulk copies
// exp(x / sqrt(head_dim)) = 2^(x * this).
constexpr float kPrefillScale = kLog2Of2e * 0.08838834764831845f;
constexpr float kNoScore = -__builtin_huge_valf();
static_assert(kKvHeadDim == 128, "kPrefillScale");

template <int32_t kQueries>  // of a KV head
class AttentionBlock {
 public:
  static constexpr int32_t kGroupTokens = kGroupRows / kQueries;
  static_assert(kGroupRows % kQueries == 0);

  BOREAS_DEVICE explicit AttentionBlock(const AttentionArgs& args) : args_(args) {
    const AttentionItem item = args.items[block_index() / args.kv_heads];
    base_ = (shared_base() + kUnfoldedAlign - 1) / kUnfoldedAlign * kUnfoldedAlign;
    lane_ = thread_index() % 32;
    warp_ = uniform(thread_index() / 32);
    page_first_ = first_page(item.position);
    page_end_ = (item.position + item.token_count - 1) / kLayoutPagePositions + 1;
    const int32_t own_first = warp_ / 4 * kGroupTokens, left = item.token_count - own_first;
    own_tokens_ = left < 0 ? 0 : left < kGroupTokens ? left : kGroupTokens;
    position_ = item.position + own_first;
  }

  BOREAS_DEVICE void run() {
    if (thread_index() == 0) {
      for (int32_t i = 0; i < kRingPages; ++i) {
        mbarrier_init(full(i), 1);
        mbarrier_init(empty(i), kAttentionWarps);
      }
      mbarrier_init_done();
    }
    block_sync();
    if (thread_index() == 0) {
      for (int32_t page = page_first_; page < page_end_ && page < page_first_ + kRingPages; ++page) fetch(page);
    }
    int32_t page = page_first_;
    if (own_tokens_ > 0) {
      load_queries();
      for (const int32_t first = first_page(position_); page < first; ++page) pass(page);
      const int32_t end = (position_ + own_tokens_ - 1) / kLayoutPagePositions + 1;
      attend(uniform(page), uniform(end));
      page = end;
      store();
    }
    for (; page < page_end_; ++page) pass(page);
  }

 private:
  BOREAS_DEVICE uint32_t stage(int32_t index) const { return base_ + index % kRingPages * kUnfoldedBytes; }
  BOREAS_DEVICE uint32_t full(int32_t index) const { return base_ + kAttentionBarriers + index % kRingPages * 8; }
  BOREAS_DEVICE uint32_t empty(int32_t index) const { return full(index) + kRingPages * 8; }
  static BOREAS_DEVICE uint32_t parity_of(int32_t index) { return static_cast<uint32_t>(index / kRingPages) & 1; }

  BOREAS_DEVICE int32_t visible_first(int32_t position) const {
    return first_visible(position, args_.sliding != 0, args_.window);
  }
  BOREAS_DEVICE int32_t first_page(int32_t position) const { return visible_first(position) / kLayoutPagePositions; }

  BOREAS_DEVICE int32_t head() const { return block_index() % args_.kv_heads; }
  // Of the warpgroup, in the batch.
  BOREAS_DEVICE int64_t first_token() const {
    return args_.items[block_index() / args_.kv_heads].token_first + warp_ / 4 * kGroupTokens;
  }

  // ---- the ring
  // By one thread.
  BOREAS_DEVICE void fetch(int32_t page) const {
    const int32_t index = page - page_first_;
    const AttentionItem& item = args_.items[block_index() / args_.kv_heads];
    const int64_t place = (args_.sliding != 0 ? item.unfolded_sliding : item.unfolded_full) + page;
    mbarrier_arrive_expect(full(index), kUnfoldedBytes);
    bulk_copy(stage(index), args_.unfolded + (place * args_.kv_heads + head()) * kUnfoldedBytes, kUnfoldedBytes,
              full(index), kNormalPolicy);
  }
  // Before a warp looks at a page. The first warp also fills again what all have left: two pages behind, so that it
  // hardly ever waits for the others.
  BOREAS_DEVICE void begin(int32_t page) const {
    const int32_t index = page - page_first_, next = page + kRingPages - 2;
    if (warp_ == 0 && index >= 2 && next < page_end_) {
      wait_mbarrier(empty(index - 2), parity_of(index - 2));
      if (lane_ == 0) fetch(next);
      warp_sync();
    }
    wait_mbarrier(full(index), parity_of(index));
  }
  BOREAS_DEVICE void end(int32_t page) const {
    warp_sync();
    mbarrier_arrive_if(lane_ == 0, empty(page - page_first_));
  }
  BOREAS_DEVICE void pass(int32_t page) const {
    begin(page);
    end(page);
  }

  // ---- rows g and g + 8 of the warp's 16 belong to a lane 4 g + c
  BOREAS_DEVICE int32_t row_of(int32_t i) const { return warp_ % 4 * 16 + i * 8 + lane_ / 4; }
  // The row's token, at most the last own one.
  BOREAS_DEVICE int32_t token_of(int32_t row) const {
    const int32_t token = row / kQueries;
    return token < own_tokens_ ? token : own_tokens_ - 1;
  }
  // The warpgroup's rows of q, two slabs of 64 dims as K's.
  BOREAS_DEVICE uint32_t queries() const { return base_ + kQueryOffset + warp_ / 4 * 2 * kQuerySlabBytes; }
  BOREAS_DEVICE void load_queries() const {
    constexpr int32_t kSixteens = kKvHeadDim / 8;
    for (int32_t i = thread_index() % 128; i < kGroupRows * kSixteens; i += 128) {
      const int32_t row = i / kSixteens, sixteen = i % kSixteens;
      const int64_t token = first_token() + token_of(row);
      const Quad q = load_quad(args_.qkv + token * (args_.query_heads + 2 * args_.kv_heads) * kKvHeadDim +
                               (head() * kQueries + row % kQueries) * kKvHeadDim + sixteen * 8);
      const uint32_t at = queries() + static_cast<uint32_t>(sixteen / 8 * kQuerySlabBytes + swizzled(row, sixteen % 8));
      store_shared_32(at, q.x);
      store_shared_32(at + 4, q.y);
      store_shared_32(at + 8, q.z);
      store_shared_32(at + 12, q.w);
    }
    fence_async_proxy();
    named_barrier(1 + warp_ / 4, 128);
  }

  // The same in all lanes, and the compiler knows it: it lets no MMA overlap under a branch that might part a warp.
  static BOREAS_DEVICE int32_t uniform(int32_t value) {
    return static_cast<int32_t>(shuffle(static_cast<uint32_t>(value), 0));
  }
  // Pages first .. last_end - 1, each seen by one of the own tokens.
  BOREAS_DEVICE void attend(int32_t first, int32_t last_end) {
    float scores[32];
    uint32_t weights[4][4];
    begin(first);
    clear(scores);
    wgmma_fence();
    multiply_keys(first, scores);
    wgmma_commit();
    wgmma_wait<0>();
    BOREAS_NO_UNROLL
    for (int32_t page = first; page + 1 < last_end; ++page) {
      settle(scores);
      mask(scores, page * kLayoutPagePositions);
      soften(scores, weights);
      begin(page + 1);
      clear(scores);
      wgmma_fence();
      multiply_values(page, weights);
      multiply_keys(page + 1, scores);
      wgmma_commit();
      wgmma_wait<0>();
      settle(output_);
      end(page);
    }
    settle(scores);
    mask(scores, (last_end - 1) * kLayoutPagePositions);
    soften(scores, weights);
    wgmma_fence();
    multiply_values(last_end - 1, weights);
    wgmma_commit();
    wgmma_wait<0>();
    settle(output_);
    end(last_end - 1);
  }
  static BOREAS_DEVICE void clear(float (&values)[32]) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < 32; ++i) values[i] = 0;
  }
  // Nothing that reads these moves before the wait that stands above.
  template <int32_t kCount>
  static BOREAS_DEVICE void settle(float (&values)[kCount]) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < kCount; ++i) opaque(values[i]);
  }
  BOREAS_DEVICE void multiply_keys(int32_t page, float (&scores)[32]) const {
    static_assert(kQuerySlabBytes == kUnfoldedSlabBytes);
    const uint64_t q = descriptor_of(queries()), keys = descriptor_of(stage(page - page_first_));
    BOREAS_UNROLL
    for (int32_t k = 0; k < 8; ++k) {
      const uint64_t step = static_cast<uint64_t>(k / 4 * (kQuerySlabBytes >> 4)) + k % 4 * kDescriptorK;
      wgmma_shared(scores, q + step, keys + step);
    }
  }
  BOREAS_DEVICE void multiply_values(int32_t page, const uint32_t (&weights)[4][4]) {
    const uint64_t values = descriptor_of(stage(page - page_first_) + kUnfoldedValues);
    BOREAS_UNROLL
    for (int32_t k = 0; k < 4; ++k) wgmma(output_, weights[k], values + k * kDescriptorK);
  }

  // Column 8 n + 2 c + e of the scores is the key at unfolded_key().
  BOREAS_DEVICE void mask(float (&scores)[32], int32_t position) const {
    const int32_t last = position_ + own_tokens_ - 1;
    if (position + kLayoutPagePositions - 1 <= position_ && position >= visible_first(last)) return;
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      const int32_t own = position_ + token_of(row_of(i)), shift = position + lane_ % 4 * 8;
      const int32_t first = visible_first(own) - shift, end = own - shift;
      BOREAS_UNROLL
      for (int32_t k = 0; k < 16; ++k) {
        const int32_t n = k / 2, key = n / 4 * 32 + n % 4 * 2 + k % 2;
        if (key < first || key > end) scores[4 * n + 2 * i + k % 2] = kNoScore;
      }
    }
  }

  // Running maximum and sum; weights in bf16, which both the sum and the output use.
  BOREAS_DEVICE void soften(const float (&scores)[32], uint32_t (&weights)[4][4]) {
    float factor[2], base[2];
    bool same = true;
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      float most = maximum_[i];
      BOREAS_UNROLL
      for (int32_t n = 0; n < 8; ++n) most = fmaxf(most, fmaxf(scores[4 * n + 2 * i], scores[4 * n + 2 * i + 1]));
      most = fmaxf(most, shuffle_xor(most, 1));
      most = fmaxf(most, shuffle_xor(most, 2));
      base[i] = most == kNoScore ? 0.0f : most * kPrefillScale;
      // Exactly 1 where nothing has changed.
      factor[i] = most == maximum_[i] ? 1.0f : weight(maximum_[i], base[i]);
      same = same && most == maximum_[i];
      maximum_[i] = most;
      sum_[i] *= factor[i];
    }
    if (!all_lanes(same)) rescale(factor);
    BOREAS_UNROLL
    for (int32_t n = 0; n < 8; ++n) {
      BOREAS_UNROLL
      for (int32_t i = 0; i < 2; ++i) {
        const uint32_t pair =
            pack_bf16(weight(scores[4 * n + 2 * i], base[i]), weight(scores[4 * n + 2 * i + 1], base[i]));
        sum_[i] += low_half_of(pair) + high_half_of(pair);
        weights[n / 2][n % 2 * 2 + i] = pair;
      }
    }
  }
  static BOREAS_DEVICE float weight(float score, float base) {
    return exp2_approximate(multiply_add(score, kPrefillScale, -base));
  }
  BOREAS_DEVICE void rescale(const float (&factor)[2]) {
    BOREAS_UNROLL
    for (int32_t i = 0; i < 64; ++i) output_[i] *= factor[i % 4 / 2];
  }

  // Four blocks of 8 dims of a lane are 16 bytes in operand order.
  BOREAS_DEVICE void store() {
    BOREAS_UNROLL
    for (int32_t i = 0; i < 2; ++i) {
      float sum = sum_[i];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      const int32_t row = row_of(i);
      const int64_t token = first_token() + row / kQueries;
      uint16_t* to = args_.output + token * args_.query_heads * kKvHeadDim +
                     (head() * kQueries + row % kQueries) * kKvHeadDim + lane_ % 4 * 8;
      if (row / kQueries >= own_tokens_) continue;
      BOREAS_UNROLL
      for (int32_t block = 0; block < 4; ++block) {
        uint32_t pair[4];
        BOREAS_UNROLL
        for (int32_t j = 0; j < 4; ++j) {
          const float* o = output_ + 4 * (4 * block + j) + 2 * i;
          pair[j] = pack_bf16(o[0] / sum, o[1] / sum);
        }
        store_quad(to + block * kBlockColumns, {pair[0], pair[1], pair[2], pair[3]});
      }
    }
  }

  const AttentionArgs& args_;
  int32_t lane_, warp_;
  uint32_t base_;
  int32_t page_first_, page_end_;
  int32_t own_tokens_, position_;  // the warpgroup's tokens and the position of the first
  float maximum_[2] = {kNoScore, kNoScore};
  float sum_[2] = {};
  float output_[64] = {};
};

}  // namespace boreas::cuda::prefill
