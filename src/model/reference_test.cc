// The fp32 reference: against formulas worked out by hand on a two-dimensional model, and each deliberate flaw changes
// what its name says and nothing before it.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "model/checkpoint_fixture.h"

namespace boreas {
namespace {

std::string bf16_data(const std::vector<float>& values) {
  std::string data;
  for (const float value : values) {
    const bf16 bits = float_to_bf16(value);
    EXPECT_EQ(bf16_to_float(bits), value) << "not exact in BF16";
    data.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return data;
}

// Two layers of width 2 with one head of head_dim 2: layer 0 full, dense, with RoPE; layer 1 sliding over two
// positions, with three experts of which two are chosen. Norm weights are 1, eps is negligible, Q = K = V = O =
// identity.
class HandModel : public testing::Test {
 protected:
  HandModel() {
    config_ = *model_shape("tiny");
    config_.hidden_size = 2;
    config_.query_heads = config_.kv_heads = 1;
    config_.head_dim = 2;
    config_.expert_width = 1;
    config_.dense_width = 1;
    config_.experts = 3;
    config_.experts_per_token = 2;
    config_.vocab_size = 4;
    config_.window = 2;
    config_.eos_token_ids = {3};
    config_.layers = {{.sliding = false, .rope = true, .dense_mlp = true},
                      {.sliding = true, .rope = true, .dense_mlp = false}};
    set(WeightRole::kEmbedding, 0, 0, {3, 4, -4, 3, 1, 2, 0.5, -2});
    set(WeightRole::kFinalNorm, 0, 0, {1, 1});
    for (const int32_t layer : {0, 1}) {
      set(WeightRole::kInputNorm, layer, 0, {1, 1});
      for (const WeightRole role : {WeightRole::kQuery, WeightRole::kKey, WeightRole::kValue, WeightRole::kOutput}) {
        set(role, layer, 0, {1, 0, 0, 1});
      }
    }
    set(WeightRole::kDenseGate, 0, 0, {1, 0});
    set(WeightRole::kDenseUp, 0, 0, {0, 1});
    set(WeightRole::kDenseDown, 0, 0, {2, -1});
    // Logits: h.x, h.y, -h.x.
    set(WeightRole::kRouter, 1, 0, {1, 0, 0, 1, -1, 0});
    for (const int32_t expert : {0, 1, 2}) {
      set(WeightRole::kExpertGate, 1, expert, {1, 1});
      set(WeightRole::kExpertUp, 1, expert, {1, 0});
      set(WeightRole::kExpertDown, 1, expert, {static_cast<float>(expert + 1), 1});
    }
    write_file(directory_ / "config.json", boost::json::serialize(published_config_json(config_)));
  }

  void set(WeightRole role, int32_t layer, int32_t expert, const std::vector<float>& values) {
    weights_[published_tensor_name(role, layer, expert)] = {published_tensor_name(role, layer, expert),
                                                            published_shape(config_, role), bf16_data(values)};
  }

  std::shared_ptr<const Model> load() {
    std::vector<FixtureTensor> tensors;
    for (const auto& [name, tensor] : weights_) tensors.push_back(tensor);
    write_safetensors(directory_ / "model.safetensors", tensors);
    const auto model = load_model(directory_.path());
    CHECK(model.ok());
    return *model;
  }

  TempDirectory directory_;
  ModelConfig config_;
  std::map<std::string, FixtureTensor> weights_;
};

struct Point {
  double x = 0, y = 0;
};

Point unit(Point p) {
  const double rms = std::sqrt((p.x * p.x + p.y * p.y) / 2);
  return {p.x / rms, p.y / rms};
}

double silu(double x) { return x / (1 + std::exp(-x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void expect_row(const std::vector<float>& rows, size_t row, Point expected) {
  EXPECT_NEAR(rows[2 * row], expected.x, 2e-6) << "row " << row;
  EXPECT_NEAR(rows[2 * row + 1], expected.y, 2e-6) << "row " << row;
}

TEST_F(HandModel, FirstTokenByHand) {
  const ReferenceOutput out = reference_forward(*load(), std::vector<TokenId>{0});
  // x = (3, 4), mean square 12.5, h = x / sqrt(12.5) = (0.848528, 1.131371). One position: attention returns v = h.
  const Point h = {0.848528137, 1.131370850};
  expect_row(out.attention[0], 0, h);
  // silu(0.848528) * 1.131371 = 0.594208 * 1.131371 = 0.672270; down is (2, -1).
  expect_row(out.mlp[0], 0, {2 * silu(h.x) * h.y, -silu(h.x) * h.y});
  const Point x = {3 + h.x + 2 * silu(h.x) * h.y, 4 + h.y - silu(h.x) * h.y};
  expect_row(out.residual[0], 0, x);
  const Point h1 = unit(x);
  expect_row(out.attention[1], 0, h1);
  // Router logits (h1.x, h1.y, -h1.x), both positive ones win: experts 0 and 1, whose down are (1, 1) and (2, 1).
  const double inner = silu(h1.x + h1.y) * h1.x;
  const Point m1 = {(sigmoid(h1.x) + 2 * sigmoid(h1.y)) * inner, (sigmoid(h1.x) + sigmoid(h1.y)) * inner};
  expect_row(out.mlp[1], 0, m1);
  const Point y = unit({x.x + h1.x + m1.x, x.y + h1.y + m1.y});
  const std::vector<Point> embedding = {{3, 4}, {-4, 3}, {1, 2}, {0.5, -2}};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(out.logits[i], embedding[i].x * y.x + embedding[i].y * y.y, 1e-5);
}

// With Q = K = V = identity and one pair of frequency 1, the score of key s for query t is
// |h_t| |h_s| cos((angle_t + t) - (angle_s + s)) / sqrt(2), and |h| = sqrt(2) after the norm.
TEST_F(HandModel, RopeAndWindowByHand) {
  const std::vector<TokenId> tokens = {0, 1, 2, 3};
  const ReferenceOutput out = reference_forward(*load(), tokens);
  const std::vector<Point> embedding = {{3, 4}, {-4, 3}, {1, 2}, {0.5, -2}};
  std::vector<std::vector<Point>> input(2);  // of each layer
  for (const TokenId token : tokens) input[0].push_back(embedding[static_cast<size_t>(token)]);
  for (size_t t = 0; t < 4; ++t) input[1].push_back({out.residual[0][2 * t], out.residual[0][2 * t + 1]});
  for (size_t layer = 0; layer < 2; ++layer) {
    for (size_t t = 0; t < 4; ++t) {
      double sum = 0;
      Point expected;
      for (size_t s = layer == 1 && t > 0 ? t - 1 : 0; s <= t; ++s) {
        const Point a = input[layer][t], b = input[layer][s];
        const double turn =
            std::atan2(a.y, a.x) - std::atan2(b.y, b.x) + static_cast<double>(t) - static_cast<double>(s);
        const double weight = std::exp(std::sqrt(2.0) * std::cos(turn));
        sum += weight;
        expected.x += weight * unit(b).x;
        expected.y += weight * unit(b).y;
      }
      expect_row(out.attention[layer], t, {expected.x / sum, expected.y / sum});
    }
  }
}

// Equal router logits: the lowest expert ids win.
TEST_F(HandModel, RouterTiesGoToTheLowestExpert) {
  set(WeightRole::kRouter, 1, 0, {1, 0, 1, 0, 1, 0});
  const ReferenceOutput out = reference_forward(*load(), std::vector<TokenId>{0});
  const Point h = unit({out.residual[0][0], out.residual[0][1]});
  const double each = sigmoid(h.x) * silu(h.x + h.y) * h.x;
  expect_row(out.mlp[1], 0, {(1 + 2) * each, 2 * each});
}

class Flaws : public testing::Test {
 protected:
  static constexpr size_t kPositions = 20;  // the tiny shape's window of 16 is crossed

  Flaws() {
    const auto model = make_dummy_model(*model_shape("tiny"));
    CHECK(model.ok());
    model_ = *model;
    for (size_t i = 0; i < kPositions; ++i) tokens_.push_back(static_cast<TokenId>((i * 37 + 5) % 512));
    right_ = reference_forward(*model_, tokens_);
  }

  ReferenceOutput with(ReferenceFlaw flaw) const { return reference_forward(*model_, tokens_, flaw); }

  // First position whose row differs, or kPositions.
  size_t first_difference(const std::vector<float>& a, const std::vector<float>& b) const {
    EXPECT_EQ(a.size(), b.size());
    const size_t width = a.size() / kPositions;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) return i / width;
    }
    return kPositions;
  }

  // Layers below `layer` are untouched, and attention of `layer` first differs at `position`.
  void expect_attention_differs(ReferenceFlaw flaw, size_t layer, size_t position) const {
    const ReferenceOutput wrong = with(flaw);
    for (size_t below = 0; below < layer; ++below) EXPECT_EQ(wrong.residual[below], right_.residual[below]);
    EXPECT_EQ(first_difference(wrong.attention[layer], right_.attention[layer]), position);
    EXPECT_EQ(wrong.mlp[layer], right_.mlp[layer]);
    EXPECT_NE(wrong.logits, right_.logits);
  }

  // Layers below `layer` and its attention are untouched, its MLP differs from the first position on.
  ReferenceOutput expect_mlp_differs(ReferenceFlaw flaw, size_t layer) const {
    const ReferenceOutput wrong = with(flaw);
    for (size_t below = 0; below < layer; ++below) EXPECT_EQ(wrong.residual[below], right_.residual[below]);
    EXPECT_EQ(wrong.attention[layer], right_.attention[layer]);
    EXPECT_EQ(first_difference(wrong.mlp[layer], right_.mlp[layer]), 0u);
    EXPECT_NE(wrong.logits, right_.logits);
    return wrong;
  }

  std::shared_ptr<const Model> model_;
  std::vector<TokenId> tokens_;
  ReferenceOutput right_;
};

TEST_F(Flaws, NoneIsTheSame) { EXPECT_EQ(with(ReferenceFlaw::kNone).logits, right_.logits); }

TEST_F(Flaws, Rope) {
  // Position 0 turns by nothing.
  expect_attention_differs(ReferenceFlaw::kHalfSplitRope, 0, 1);
  expect_attention_differs(ReferenceFlaw::kNoRopeOnDenseLayer, 0, 1);
  expect_attention_differs(ReferenceFlaw::kRopeOnNopeLayer, 4, 1);
}

TEST_F(Flaws, Window) {
  // Position 16 is the first that does not see position 0.
  expect_attention_differs(ReferenceFlaw::kWindowPlusOne, 1, 16);
  expect_attention_differs(ReferenceFlaw::kWindowMinusOne, 1, 15);
}

TEST_F(Flaws, GqaGrouping) { expect_attention_differs(ReferenceFlaw::kGqaInterleaved, 0, 0); }

TEST_F(Flaws, Router) {
  expect_mlp_differs(ReferenceFlaw::kSoftmaxRouter, 1);
  expect_mlp_differs(ReferenceFlaw::kRenormalisedTopK, 1);
}

TEST_F(Flaws, DenseLayerSkipped) {
  const ReferenceOutput wrong = expect_mlp_differs(ReferenceFlaw::kDenseLayerSkipped, 0);
  for (const float value : wrong.mlp[0]) EXPECT_EQ(value, 0);
}

TEST_F(Flaws, LogitScale) {
  const ReferenceOutput wrong = with(ReferenceFlaw::kLogitScale);
  EXPECT_EQ(wrong.residual, right_.residual);
  for (size_t i = 0; i < wrong.logits.size(); ++i) ASSERT_EQ(wrong.logits[i], right_.logits[i] * 0.0625f);
}

TEST_F(Flaws, NormEps) {
  const ReferenceOutput wrong = with(ReferenceFlaw::kNormEps);
  EXPECT_EQ(first_difference(wrong.attention[0], right_.attention[0]), 0u);
  EXPECT_EQ(first_difference(wrong.mlp[0], right_.mlp[0]), 0u);
}

TEST_F(Flaws, OutputsHaveTheirShapes) {
  ASSERT_EQ(right_.logits.size(), kPositions * 512);
  ASSERT_EQ(right_.residual.size(), 5u);
  for (size_t layer = 0; layer < 5; ++layer) {
    ASSERT_EQ(right_.residual[layer].size(), kPositions * 128);
    for (size_t i = 0; i < right_.residual[layer].size(); ++i) {
      const float before =
          layer == 0 ? bf16_to_float(model_->weights().at(WeightRole::kEmbedding).bf16_row(tokens_[i / 128])[i % 128])
                     : right_.residual[layer - 1][i];
      ASSERT_EQ(right_.residual[layer][i], before + right_.attention[layer][i] + right_.mlp[layer][i]);
    }
  }
  // Causal: a prefix gives the same rows.
  const ReferenceOutput prefix = reference_forward(*model_, std::span(tokens_).first(7));
  for (size_t i = 0; i < prefix.logits.size(); ++i) ASSERT_EQ(prefix.logits[i], right_.logits[i]);
}

}  // namespace
}  // namespace boreas
