// The forward pass in plain arithmetic, one position and one dot product at a time: the oracle that everything in C++
// is measured against, itself measured against transformers' Cohere2MoeForCausalLM. Every stored value is fp32; sums
// run in double, so their order does not matter. Called through the door (model.h), by tests only.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "model/model.h"

namespace boreas {
namespace {

using Vector = std::vector<float>;

class Reference {
 public:
  Reference(const Model& model, ReferenceFlaw flaw) : config_(model.config()), weights_(model.weights()), flaw_(flaw) {}

  ReferenceOutput run(std::span<const TokenId> tokens) {
    ReferenceOutput out;
    std::vector<Vector> x;  // the residual stream, [positions][hidden]
    for (const TokenId token : tokens) {
      CHECK(token >= 0 && token < config_.vocab_size);
      x.push_back(row_of(weights_.at(WeightRole::kEmbedding), token));
    }
    for (int32_t layer = 0; layer < config_.layer_count(); ++layer) {
      std::vector<Vector> h;
      for (const Vector& row : x) h.push_back(norm(row, weights_.at(WeightRole::kInputNorm, layer)));
      const std::vector<Vector> attention = attend(layer, h);
      std::vector<Vector> mlp;
      for (const Vector& row : h) mlp.push_back(config_.is_moe(layer) ? experts(layer, row) : dense(layer, row));
      for (size_t t = 0; t < x.size(); ++t) {
        for (size_t i = 0; i < x[t].size(); ++i) x[t][i] = x[t][i] + attention[t][i] + mlp[t][i];
      }
      out.attention.push_back(flatten(attention));
      out.mlp.push_back(flatten(mlp));
      out.residual.push_back(flatten(x));
    }
    for (const Vector& row : x) {
      Vector logits = multiply(weights_.at(WeightRole::kEmbedding), norm(row, weights_.at(WeightRole::kFinalNorm)));
      for (float& logit : logits) logit *= logit_scale();
      out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    }
    return out;
  }

 private:
  static Vector row_of(const TensorView& weight, int64_t row) {
    Vector out;
    for (int64_t i = 0; i < weight.cols; ++i) out.push_back(bf16_to_float(weight.bf16_row(row)[i]));
    return out;
  }

  static Vector flatten(const std::vector<Vector>& rows) {
    Vector out;
    for (const Vector& row : rows) out.insert(out.end(), row.begin(), row.end());
    return out;
  }

  // y = W x, W [rows, cols].
  static Vector multiply(const TensorView& weight, const Vector& x) {
    CHECK(!weight.empty() && weight.cols == static_cast<int64_t>(x.size()));
    Vector y;
    for (int64_t row = 0; row < weight.rows; ++row) {
      const bf16* w = weight.bf16_row(row);
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) sum += double{bf16_to_float(w[i])} * double{x[i]};
      y.push_back(static_cast<float>(sum));
    }
    return y;
  }

  float logit_scale() const {
    // The flaw is the family's class default, which a loader would take if the key were not read.
    if (flaw_ != ReferenceFlaw::kLogitScale) return config_.logit_scale;
    return config_.logit_scale == 0.0625f ? 1.0f : 0.0625f;
  }

  // x / sqrt(mean(x^2) + eps) * w. No mean is subtracted, and the weight is used as it is.
  Vector norm(const Vector& x, const TensorView& weight) const {
    const double eps = double{config_.rms_norm_eps} * (flaw_ == ReferenceFlaw::kNormEps ? 10 : 1);
    double squares = 0;
    for (const float value : x) squares += double{value} * double{value};
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
    Vector y = row_of(weight, 0);
    for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(double{x[i]} * scale * double{y[i]});
    return y;
  }

  bool rotates(int32_t layer) const {
    const LayerConfig& config = config_.layers[static_cast<size_t>(layer)];
    if (flaw_ == ReferenceFlaw::kNoRopeOnDenseLayer && config.dense_mlp) return false;
    if (flaw_ == ReferenceFlaw::kRopeOnNopeLayer && !config.rope) return true;
    return config.rope;
  }

  // Rotates every head of a q or k row at `position`: pair i by position * theta^(-2i/head_dim).
  void rotate(Vector& row, int64_t position) const {
    const size_t dim = static_cast<size_t>(config_.head_dim);
    const bool half_split = flaw_ == ReferenceFlaw::kHalfSplitRope;
    for (size_t head = 0; head < row.size(); head += dim) {
      for (size_t i = 0; i < dim / 2; ++i) {
        const double exponent = -2 * static_cast<double>(i) / static_cast<double>(dim);
        const double angle = static_cast<double>(position) * std::pow(config_.rope_theta, exponent);
        float& a = row[head + (half_split ? i : 2 * i)];
        float& b = row[head + (half_split ? i + dim / 2 : 2 * i + 1)];
        const double old_a = a;
        const double old_b = b;
        a = static_cast<float>(old_a * std::cos(angle) - old_b * std::sin(angle));
        b = static_cast<float>(old_b * std::cos(angle) + old_a * std::sin(angle));
      }
    }
  }

  // First key position that the query at `position` sees.
  size_t first_visible(int32_t layer, size_t position) const {
    if (!config_.layers[static_cast<size_t>(layer)].sliding) return 0;
    int64_t window = config_.window;
    if (flaw_ == ReferenceFlaw::kWindowPlusOne) window += 1;
    if (flaw_ == ReferenceFlaw::kWindowMinusOne) window = std::max<int64_t>(window - 1, 1);
    return static_cast<size_t>(std::max<int64_t>(static_cast<int64_t>(position) + 1 - window, 0));
  }

  int32_t kv_head_of(int32_t query_head) const {
    return flaw_ == ReferenceFlaw::kGqaInterleaved ? query_head % config_.kv_heads
                                                   : query_head / config_.queries_per_kv();
  }

  // Attention output of all positions, [positions][hidden].
  std::vector<Vector> attend(int32_t layer, const std::vector<Vector>& h) const {
    std::vector<Vector> q, k, v;
    for (size_t t = 0; t < h.size(); ++t) {
      q.push_back(multiply(weights_.at(WeightRole::kQuery, layer), h[t]));
      k.push_back(multiply(weights_.at(WeightRole::kKey, layer), h[t]));
      v.push_back(multiply(weights_.at(WeightRole::kValue, layer), h[t]));
      if (!rotates(layer)) continue;
      rotate(q.back(), static_cast<int64_t>(t));
      rotate(k.back(), static_cast<int64_t>(t));
    }
    std::vector<Vector> out;
    for (size_t t = 0; t < h.size(); ++t) {
      Vector heads;
      for (int32_t head = 0; head < config_.query_heads; ++head) {
        const Vector one = attend_head(q[t], k, v, first_visible(layer, t), t, head);
        heads.insert(heads.end(), one.begin(), one.end());
      }
      out.push_back(multiply(weights_.at(WeightRole::kOutput, layer), heads));
    }
    return out;
  }

  // softmax(q k / sqrt(head_dim)) v over keys first .. last, for one query head.
  Vector attend_head(const Vector& q, const std::vector<Vector>& k, const std::vector<Vector>& v, size_t first,
                     size_t last, int32_t head) const {
    const size_t dim = static_cast<size_t>(config_.head_dim);
    const size_t q_at = static_cast<size_t>(head) * dim;
    const size_t kv_at = static_cast<size_t>(kv_head_of(head)) * dim;
    std::vector<double> scores;
    for (size_t s = first; s <= last; ++s) {
      double sum = 0;
      for (size_t i = 0; i < dim; ++i) sum += double{q[q_at + i]} * double{k[s][kv_at + i]};
      scores.push_back(sum / std::sqrt(static_cast<double>(dim)));
    }
    softmax(scores);
    Vector out;
    for (size_t i = 0; i < dim; ++i) {
      double sum = 0;
      for (size_t s = first; s <= last; ++s) sum += scores[s - first] * double{v[s][kv_at + i]};
      out.push_back(static_cast<float>(sum));
    }
    return out;
  }

  static void softmax(std::vector<double>& scores) {
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - top);
    for (double& score : scores) score /= sum;
  }

  // down(silu(gate x) * up x)
  static Vector swiglu(const TensorView& gate_weight, const TensorView& up_weight, const TensorView& down_weight,
                       const Vector& x) {
    Vector gate = multiply(gate_weight, x);
    const Vector up = multiply(up_weight, x);
    for (size_t i = 0; i < gate.size(); ++i) {
      const double g = gate[i];
      gate[i] = static_cast<float>(g / (1 + std::exp(-g)) * double{up[i]});
    }
    return multiply(down_weight, gate);
  }

  Vector dense(int32_t layer, const Vector& h) const {
    if (flaw_ == ReferenceFlaw::kDenseLayerSkipped) return Vector(h.size(), 0);
    return swiglu(weights_.at(WeightRole::kDenseGate, layer), weights_.at(WeightRole::kDenseUp, layer),
                  weights_.at(WeightRole::kDenseDown, layer), h);
  }

  // Weights of the chosen experts from their router logits: sigmoid of each, with no division by their sum.
  std::vector<double> expert_scores(std::vector<double> logits) const {
    if (flaw_ == ReferenceFlaw::kSoftmaxRouter) {
      softmax(logits);
      return logits;
    }
    double sum = 0;
    for (double& score : logits) sum += score = 1 / (1 + std::exp(-score));
    if (flaw_ == ReferenceFlaw::kRenormalisedTopK) {
      for (double& score : logits) score /= sum;
    }
    return logits;
  }

  Vector experts(int32_t layer, const Vector& h) const {
    const Vector logits = multiply(weights_.at(WeightRole::kRouter, layer), h);
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    // Stable: of equal logits the lowest expert comes first.
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    order.resize(static_cast<size_t>(config_.experts_per_token));
    std::vector<double> scores;
    for (const int32_t expert : order) scores.push_back(logits[static_cast<size_t>(expert)]);
    scores = expert_scores(scores);
    std::vector<double> sum(h.size(), 0);
    for (size_t j = 0; j < order.size(); ++j) {
      const Vector one = swiglu(weights_.at(WeightRole::kExpertGate, layer, order[j]),
                                weights_.at(WeightRole::kExpertUp, layer, order[j]),
                                weights_.at(WeightRole::kExpertDown, layer, order[j]), h);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += scores[j] * double{one[i]};
    }
    return Vector(sum.begin(), sum.end());
  }

  const ModelConfig& config_;
  const WeightTable& weights_;
  const ReferenceFlaw flaw_;
};

}  // namespace

ReferenceOutput reference_forward(const Model& model, std::span<const TokenId> tokens, ReferenceFlaw flaw) {
  return Reference(model, flaw).run(tokens);
}

}  // namespace boreas
