// ATTENTION: the new K and V are in their pages, to the bit, and nothing else is; every piece that a row sees has
// m = max s, l = sum 2^((s - m) c), o = sum 2^((s - m) c) v over its visible keys, s = q . k and c = log2(e) /
// sqrt(head_dim); pieces that it does not see are not written. Positions around page and window borders and at the end
// of 262,144; decode, chunks, and both together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tests/conformance/cases.h"

namespace boreas::conformance {
namespace {

constexpr int32_t kPoolPages = 64;
constexpr int32_t kContextPages = 5;  // pages 0 to 4 hold old positions of long contexts, again and again
constexpr int32_t kRowsMax = 90;

struct TokenRange {
  int32_t position, count;
};

// Pages in random order, each once.
class Pages {
 public:
  explicit Pages(Prng& prng) {
    for (int32_t page = kContextPages; page < kPoolPages; ++page) free_.emplace_back(page);
    for (size_t i = free_.size(); i > 1; --i) std::swap(free_[i - 1], free_[prng.below(static_cast<uint32_t>(i))]);
  }
  PageId take() {
    CHECK(!free_.empty());
    const PageId page = free_.back();
    free_.pop_back();
    return page;
  }

 private:
  std::vector<PageId> free_;
};

Step step_of(const ModelConfig& config, const std::vector<TokenRange>& ranges, Prng& prng) {
  Step step;
  Pages full(prng), sliding(prng);
  for (const TokenRange& range : ranges) {
    step.tokens.emplace_back(static_cast<size_t>(range.count), 0);
    const int32_t page_last = (range.position + range.count - 1) / kPagePositions;
    std::vector<PageId>& full_pages = step.pages.emplace_back();
    for (int32_t page = 0; page <= page_last; ++page)
      full_pages.push_back(page < range.position / kPagePositions - 1 ? PageId(page % kContextPages) : full.take());
    StepRow row;
    row.sliding_first = first_visible(range.position, true, config.window) / kPagePositions;
    if (row.sliding_first > 0 && prng.below(2) == 0) --row.sliding_first;  // a page more than need be
    std::vector<PageId>& sliding_pages = step.pages.emplace_back();
    for (int32_t page = row.sliding_first; page <= page_last; ++page) sliding_pages.push_back(sliding.take());
    row.slot = static_cast<int32_t>(step.plan.rows.size());
    row.position = range.position;
    step.plan.rows.push_back(row);
    step.sequences.emplace_back();
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    step.plan.rows[i].tokens = step.tokens[i];
    step.plan.rows[i].full_pages = step.pages[2 * i];
    step.plan.rows[i].sliding_pages = step.pages[2 * i + 1];
  }
  return step;
}

// One step on one layer, seen by the plain arithmetic.
class Expected {
 public:
  Expected(const Backend& backend, const Machine& machine, const Step& step, int32_t layer, Data& data)
      : backend_(backend),
        config_(machine.config()),
        layer_(layer),
        pages_(sliding() ? data.kv_sliding : data.kv_full),
        qkv_(data.slot(Slot::kQkv)) {
    for (const LayerConfig& other : config_.layers) layers_of_pool_ += other.sliding == sliding();
    for (int32_t l = 0; l < layer; ++l) pool_layer_ += config_.layers[static_cast<size_t>(l)].sliding == sliding();
    for (const StepRow& range : step.plan.rows)
      for (int32_t i = 0; i < static_cast<int32_t>(range.tokens.size()); ++i)
        rows_.push_back({&range, range.position + i});
  }

  // Puts this step's K and V where they belong.
  void append() {
    for (size_t row = 0; row < rows_.size(); ++row)
      for (int32_t head = 0; head < config_.kv_heads; ++head)
        for (int32_t part : {0, 1})
          std::transform(vector(row, head, queries() + part), vector(row, head, queries() + part) + config_.head_dim,
                         key_or_value(rows_[row], rows_[row].position, head, part), float_to_bf16);
  }

  void expect_pieces(std::span<const float> got, const std::string& what) const {
    const size_t width = static_cast<size_t>(config_.head_dim) + 2;
    size_t at = 0;
    for (size_t row = 0; row < rows_.size(); ++row) {
      std::vector<std::vector<int32_t>> keys;
      for (int32_t piece = 0; piece < kAttentionPieces; ++piece) keys.push_back(visible_keys(rows_[row], piece));
      for (int32_t head = 0; head < config_.kv_heads; ++head)
        for (int32_t piece = 0; piece < kAttentionPieces; ++piece)
          for (int32_t query = 0; query < queries(); ++query, at += width)
            expect_piece(row, head, query, keys[static_cast<size_t>(piece)], got.subspan(at, width),
                         what + ", row " + std::to_string(row) + " at position " + std::to_string(rows_[row].position) +
                             ", piece " + std::to_string(piece));
    }
    ASSERT_EQ(at, got.size());
  }

 private:
  struct Row {
    const StepRow* range;
    int32_t position;
  };
  bool sliding() const { return config_.layers[static_cast<size_t>(layer_)].sliding; }
  int32_t queries() const { return config_.queries_per_kv(); }
  // q head `part` of the KV head; then k, then v.
  const float* vector(size_t row, int32_t head, int32_t part) const {
    return qkv_.data() +
           ((static_cast<int64_t>(row) * config_.kv_heads + head) * (queries() + 2) + part) * config_.head_dim;
  }
  bf16* key_or_value(const Row& row, int32_t position, int32_t head, int32_t part) const {
    const int32_t index = position / kPagePositions;
    const PageId page = sliding() ? row.range->sliding_pages[static_cast<size_t>(index - row.range->sliding_first)]
                                  : row.range->full_pages[static_cast<size_t>(index)];
    const int64_t at = ((int64_t{page.value} * layers_of_pool_ + pool_layer_) * config_.kv_heads + head) * 2 + part;
    return pages_.data() + (at * kPagePositions + position % kPagePositions) * config_.head_dim;
  }
  std::vector<int32_t> visible_keys(const Row& row, int32_t piece) const {
    std::vector<int32_t> keys;
    for (int32_t key = sliding() ? std::max(0, row.position - config_.window + 1) : 0; key <= row.position; ++key)
      if (key / kPagePositions % kAttentionPieces == piece) keys.push_back(key);
    return keys;
  }

  void expect_piece(size_t row, int32_t head, int32_t query, const std::vector<int32_t>& keys,
                    std::span<const float> got, const std::string& what) const {
    if (keys.empty()) {
      ASSERT_TRUE(std::all_of(got.begin(), got.end(), [](float x) { return std::isnan(x); })) << what << ": written";
      return;
    }
    const std::span<const float> q(vector(row, head, query), static_cast<size_t>(config_.head_dim));
    std::vector<Bounded> scores;
    Bounded largest{-HUGE_VAL, 0};
    for (int32_t key : keys) {
      scores.push_back(dot(backend_, key_or_value(rows_[row], key, head, 0), q));
      largest.value = std::max(largest.value, scores.back().value);
      largest.error = std::max(largest.error, scores.back().error);
    }
    expect_near(got.first(1), std::span(&largest, 1), what + ", m");
    expect_near(got.subspan(1), sums(rows_[row], head, keys, scores, got[0]), what + ", l and o");
  }

  // l and o relative to the m that was published.
  std::vector<Bounded> sums(const Row& row, int32_t head, const std::vector<int32_t>& keys,
                            const std::vector<Bounded>& scores, float m) const {
    const double scale = std::numbers::log2e / std::sqrt(double(config_.head_dim));
    const double pages = std::ceil(static_cast<double>(keys.size()) / kPagePositions) + 1;
    std::vector<Bounded> out(static_cast<size_t>(config_.head_dim) + 1);
    std::vector<double> magnitude(out.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const double x = (scores[i].value - double{m}) * scale, p = std::exp2(x);
      // The exponent: the score's own error; difference, product and constant are rounded, once more where the maximum
      // moves (the parts of an exponent add up to it). The power: a few units, and a product for each page that moves
      // the maximum. Rounded to bf16: half a unit of 8 bits. Below 2^-126 it stays there.
      const double exponent = scores[i].error * scale + std::abs(x) * roundings(8);
      const double error = p * (std::exp2(exponent) * (1 + 0x1p-8) * (1 + roundings(8 + 4 * pages)) - 1) + 0x1p-125;
      for (size_t d = 0; d < out.size(); ++d) {
        const double v = d == 0 ? 1 : as_double(key_or_value(row, keys[i], head, 1)[d - 1]);
        out[d].value += p * v;
        out[d].error += error * std::abs(v);
        magnitude[d] += (p + error) * std::abs(v);
      }
    }
    for (size_t d = 0; d < out.size(); ++d)
      out[d].error += magnitude[d] * roundings(static_cast<double>(keys.size()) + pages);
    return out;
  }

  const Backend& backend_;
  const ModelConfig& config_;
  int32_t layer_;
  int32_t layers_of_pool_ = 0, pool_layer_ = 0;
  std::vector<bf16>& pages_;
  const std::vector<float>& qkv_;
  std::vector<Row> rows_;
};

std::vector<bf16> random_pages(Prng& prng, int64_t page_bytes) {
  std::vector<bf16> pages(static_cast<size_t>(kPoolPages * page_bytes) / sizeof(bf16));
  for (bf16& value : pages) value = float_to_bf16(2 * prng.uniform() - 1);
  return pages;
}

void check(Backend& backend, const Machine& machine, const std::vector<TokenRange>& ranges, int32_t layer, Prng& prng,
           Data& data) {
  const Step step = step_of(machine.config(), ranges, prng);
  int32_t rows = 0;
  for (const TokenRange& range : ranges) rows += range.count;
  const std::string what = machine.name + ", layer " + std::to_string(layer);
  data.slot(Slot::kQkv) = random_values(
      prng, static_cast<size_t>(rows * values_per_row(machine.config(), layer, Slot::kQkv)), prng.below(2) ? 1 : 4);
  Data want = data;
  Expected expected(backend, machine, step, layer, want);
  expected.append();
  backend.run(machine, step, {Op::kAttention, layer}, data);
  EXPECT_EQ(data.kv_full, want.kv_full) << what;
  EXPECT_EQ(data.kv_sliding, want.kv_sliding) << what;
  expected.expect_pieces(data.hop(Hop::kPartial), what);
}

}  // namespace

void check_kAttention(Backend& backend) {
  Prng prng(14);
  for_each_machine(kRowsMax, [&](const Machine& machine) {
    const int32_t w = machine.config().window;
    const std::vector<TokenRange> decode = {{0, 1},     {1, 1}, {62, 1},    {63, 1},  {64, 1}, {65, 1},
                                            {w - 1, 1}, {w, 1}, {w + 1, 1}, {127, 1}, {128, 1}};
    const std::vector<TokenRange> chunks = {{0, 5}, {0, 70}, {61, 6}};
    const std::vector<TokenRange> both = {{w - 2, 5}, {126, 4}, {250, 3}, {2111, 2}, {4000, 1}, {0, 1}};
    Data data;
    data.kv_full = random_pages(prng, page_bytes_full(machine.config()));
    data.kv_sliding = random_pages(prng, page_bytes_sliding(machine.config()));
    for (const std::vector<TokenRange>& ranges : {decode, chunks, both})
      for (int32_t layer : {1, 2}) check(backend, machine, ranges, layer, prng, data);
    check(backend, machine, {{262140, 4}, {262142, 1}}, 0, prng, data);
    // A quarter of a million keys, once: every piece goes over 128 pages.
    if (machine.program.workers() == 16 && machine.config().head_dim == 16)
      check(backend, machine, {{262143, 1}}, 3, prng, data);
  });
}

}  // namespace boreas::conformance
