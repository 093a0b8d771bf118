// The prefill's own kernels on the emulated device: attention against plain double arithmetic, at window and page
// edges, with equal bits however a range is cut; routing against a plain sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/prng.h"
#include "prefill_emulation.h"

namespace boreas::cuda::prefill {
namespace {

constexpr int32_t kKvHeads = 2;

float value_of(uint16_t bits) { return bf16_to_float(bf16{bits}); }

// One sequence of one layer: its q, k, v of every position, and pages in a scrambled order with rubbish around it.
struct Attended {
  Attended(int32_t the_queries, int32_t the_length, bool the_sliding, int32_t the_window, uint64_t seed)
      : queries(the_queries), length(the_length), sliding(the_sliding), window(the_window) {
    Prng prng(seed);
    const int32_t width = (queries + 2) * kKvHeads * kKvHeadDim;
    qkv.resize(static_cast<size_t>(length * width));
    for (uint16_t& value : qkv) value = float_to_bf16((prng.uniform() - 0.5f) * 4);
    const int32_t pages = (length + 63) / 64;
    for (int32_t page = 0; page < pages; ++page) table.push_back((page * 7 + 3) % (pages + 8));
    std::vector<int32_t> used(table);
    std::sort(used.begin(), used.end());
    EXPECT_TRUE(std::adjacent_find(used.begin(), used.end()) == used.end());
    // NaN wherever nobody writes.
    memory.assign(static_cast<size_t>((pages + 8) * kKvHeads * kKvPageHeadBytes) / 2 + 64, 0xffff);
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory.data());
    pool = reinterpret_cast<uint8_t*>((at + 127) / 128 * 128);
  }

  // Positions first .. first + count - 1 computed as one batch, into `output`.
  Status run(int32_t first, int32_t count) {
    const int32_t width = (queries + 2) * kKvHeads * kKvHeadDim, query_width = queries * kKvHeads * kKvHeadDim;
    std::vector<TokenId> ids(static_cast<size_t>(count), 1);
    PrefillBatch batch;
    batch.tokens = count;
    batch.ranges.push_back({ids, first, {0, sliding ? first_visible(first, true, window) / 64 : 0, 0}});
    batch.ranges[0].pages.sliding_first = batch.ranges[0].pages.sliding;
    const PrefillTables tables = make_prefill_tables(batch, kTileRows / queries, window);
    std::vector<uint16_t> rows(qkv.begin() + int64_t{first} * width, qkv.begin() + int64_t{first + count} * width);
    AppendArgs append{};
    append.tokens = tables.tokens.data();
    append.qkv = rows.data();
    append.page_tables = table.data();
    append.pages = pool;
    append.page_bytes = kKvHeads * kKvPageHeadBytes;
    append.token_count = count;
    append.query_heads = queries * kKvHeads;
    append.kv_heads = kKvHeads;
    append.sliding = sliding;
    RETURN_IF_ERROR(emulation::run_append(append, 1));
    std::vector<uint16_t> out(static_cast<size_t>(count * query_width), 0xffff);
    std::vector<uint8_t> unfolded(tables.full.size() * kKvHeads * kUnfoldedBytes + kUnfoldedAlign, 0xff);
    const uintptr_t at = reinterpret_cast<uintptr_t>(unfolded.data());
    uint8_t* unfolded_at = reinterpret_cast<uint8_t*>((at + kUnfoldedAlign - 1) / kUnfoldedAlign * kUnfoldedAlign);
    const std::vector<UnfoldedPage>& list = sliding ? tables.sliding : tables.full;
    const UnfoldArgs unfold{list.data(), table.data(), pool, append.page_bytes, 0, unfolded_at, kKvHeads};
    RETURN_IF_ERROR(emulation::run_unfold(unfold, static_cast<int32_t>(list.size()), 1));
    AttentionArgs args{};
    args.qkv = rows.data();
    args.output = out.data();
    args.items = tables.items.data();
    args.unfolded = unfolded_at;
    args.query_heads = append.query_heads;
    args.kv_heads = kKvHeads;
    args.sliding = sliding;
    args.window = window;
    RETURN_IF_ERROR(emulation::run_attention(args, queries, static_cast<int32_t>(tables.items.size()), 2));
    output.resize(static_cast<size_t>(length * query_width));
    std::copy(out.begin(), out.end(), output.begin() + int64_t{first} * query_width);
    return Ok{};
  }

  // Output of one query head at a position, plainly; dims in logical order.
  std::vector<double> wanted(int32_t position, int32_t head) const {
    const int32_t width = (queries + 2) * kKvHeads * kKvHeadDim, kv = head / queries;
    const auto row = [&](int32_t at, int32_t which_head) {
      return qkv.data() + int64_t{at} * width + which_head * kKvHeadDim;
    };
    std::vector<double> scores, result(kKvHeadDim);
    double most = -1e300, sum = 0;
    const int32_t first = first_visible(position, sliding, window);
    for (int32_t key = first; key <= position; ++key) {
      double score = 0;
      for (int32_t dim = 0; dim < kKvHeadDim; ++dim)
        score += double{value_of(row(position, head)[dim])} * value_of(row(key, queries * kKvHeads + kv)[dim]);
      scores.push_back(score / std::sqrt(128.0));
      most = std::max(most, scores.back());
    }
    for (int32_t key = first; key <= position; ++key) {
      const double weight = std::exp(scores[static_cast<size_t>(key - first)] - most);
      sum += weight;
      for (int32_t dim = 0; dim < kKvHeadDim; ++dim)
        result[static_cast<size_t>(dim)] += weight * value_of(row(key, (queries + 1) * kKvHeads + kv)[dim]);
    }
    for (double& value : result) value /= sum;
    return result;
  }
  void compare(int32_t position) const {
    const int32_t query_width = queries * kKvHeads * kKvHeadDim;
    for (int32_t head = 0; head < queries * kKvHeads; ++head) {
      const std::vector<double> right = wanted(position, head);
      double off = 0, size = 0;
      for (int32_t dim = 0; dim < kKvHeadDim; ++dim) {
        const double got =
            value_of(output[static_cast<size_t>(position * query_width + operand_column(head * kKvHeadDim + dim))]);
        off += (got - right[static_cast<size_t>(dim)]) * (got - right[static_cast<size_t>(dim)]);
        size += right[static_cast<size_t>(dim)] * right[static_cast<size_t>(dim)];
      }
      // Weights and outputs are rounded to bf16 once each.
      ASSERT_LT(std::sqrt(off / size), 2 * std::ldexp(1.0, -8)) << "position " << position << ", head " << head;
    }
  }

  int32_t queries, length;
  bool sliding;
  int32_t window;
  std::vector<uint16_t> qkv, output, memory;
  std::vector<int32_t> table;
  uint8_t* pool;
};

TEST(PrefillAttention, AgreesWithPlainArithmetic) {
  for (int32_t queries : {2, 4, 8}) {
    for (bool sliding : {false, true}) {
      Attended all(queries, 200, sliding, 100, 3);
      const Status status = all.run(0, 200);
      ASSERT_TRUE(status.ok()) << status.error().message;
      for (int32_t position : {0, 1, 31, 62, 63, 64, 65, 98, 99, 100, 127, 128, 163, 164, 198, 199})
        all.compare(position);
    }
  }
}

void expect_equal_bits_when_cut(const std::vector<std::vector<int32_t>>& ways) {
  for (int32_t queries : {2, 8}) {
    for (bool sliding : {false, true}) {
      Attended whole(queries, 150, sliding, 70, 5);
      ASSERT_TRUE(whole.run(0, 150).ok());
      for (const std::vector<int32_t>& cuts : ways) {
        Attended cut(queries, 150, sliding, 70, 5);
        int32_t from = 0;
        for (int32_t to : cuts) {
          ASSERT_TRUE(cut.run(from, to - from).ok());
          from = to;
        }
        ASSERT_TRUE(cut.run(from, 150 - from).ok());
        ASSERT_EQ(cut.output, whole.output) << queries << " queries, cut at " << cuts[0];
      }
    }
  }
}

TEST(PrefillAttention, BitsDoNotDependOnCuts) { expect_equal_bits_when_cut({{33, 100, 149}}); }
TEST(PrefillAttentionFull, BitsDoNotDependOnCuts) {
  expect_equal_bits_when_cut({{1}, {2, 7}, {63, 64}, {65}, {64, 128}, {33, 100, 149}});
}

// A page ring that turns over many times, with warps in random order.
TEST(PrefillAttention, LongContext) {
  for (bool sliding : {false, true}) {
    Attended all(8, 700, sliding, 400, 9);
    ASSERT_TRUE(all.run(0, 640).ok());
    const Status status = all.run(640, 60);
    ASSERT_TRUE(status.ok()) << status.error().message;
    for (int32_t position : {399, 400, 463, 639, 640, 641, 699}) all.compare(position);
  }
}

struct Routed {
  Routed(int32_t tokens, int32_t experts, int32_t choices)
      : chosen(static_cast<size_t>(tokens * choices), -1),
        weights(chosen.size()),
        counts(static_cast<size_t>(ceil_div(tokens, kGroupTokens) * experts)),
        first(static_cast<size_t>(experts + 1)),
        rows(chosen.size(), -1),
        slots(chosen.size(), -1) {}
  std::vector<int32_t> chosen;
  std::vector<float> weights;
  std::vector<int32_t> counts, first, rows, slots;
};

TEST(PrefillRouting, AgreesWithASort) {
  const uint64_t seed = 17;
  Prng prng(seed);
  for (const auto& [experts, choices] : {std::pair{128, 8}, std::pair{16, 4}, std::pair{8, 2}}) {
    for (int32_t tokens : {1, 31, 255, 256, 257, 700}) {
      std::vector<uint16_t> logits(static_cast<size_t>(tokens * experts));
      for (uint16_t& logit : logits) logit = float_to_bf16(std::floor((prng.uniform() - 0.5f) * 40) / 8);
      Routed routed(tokens, experts, choices);
      const Status status =
          emulation::run_route({logits.data(), routed.chosen.data(), routed.weights.data(), routed.counts.data(),
                                routed.first.data(), routed.rows.data(), routed.slots.data(), tokens, experts, choices},
                               1);
      ASSERT_TRUE(status.ok()) << status.error().message;
      std::vector<std::vector<int32_t>> lists(static_cast<size_t>(experts));
      for (int32_t token = 0; token < tokens; ++token) {
        const uint16_t* own = logits.data() + token * experts;
        std::vector<int32_t> order(static_cast<size_t>(experts));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [own](int32_t a, int32_t b) { return value_of(own[a]) > value_of(own[b]); });
        order.resize(static_cast<size_t>(choices));
        std::sort(order.begin(), order.end());
        for (int32_t choice = 0; choice < choices; ++choice) {
          const int32_t expert = order[static_cast<size_t>(choice)];
          const size_t at = static_cast<size_t>(token * choices + choice);
          ASSERT_EQ(routed.chosen[at], expert) << token;
          EXPECT_NEAR(routed.weights[at], 1 / (1 + std::exp(-value_of(own[expert]))), 1e-6);
          lists[static_cast<size_t>(expert)].push_back(token);
        }
      }
      int32_t slot = 0;
      for (int32_t expert = 0; expert < experts; ++expert) {
        ASSERT_EQ(routed.first[static_cast<size_t>(expert)], slot);
        for (int32_t token : lists[static_cast<size_t>(expert)])
          ASSERT_EQ(routed.rows[static_cast<size_t>(slot++)], token) << "expert " << expert;
      }
      ASSERT_EQ(routed.first[static_cast<size_t>(experts)], slot);
      for (size_t i = 0; i < routed.slots.size(); ++i) {
        const int32_t at = routed.slots[i], expert = routed.chosen[i];
        ASSERT_EQ(routed.rows[static_cast<size_t>(at)], static_cast<int32_t>(i) / choices);
        ASSERT_TRUE(at >= routed.first[static_cast<size_t>(expert)] &&
                    at < routed.first[static_cast<size_t>(expert) + 1]);
      }
    }
  }
}

}  // namespace
}  // namespace boreas::cuda::prefill
