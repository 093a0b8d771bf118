// See plain_step.h.
#include "tests/golden/long_context/plain_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "tests/golden/plain_arithmetic.h"

namespace boreas {
namespace {

using plain::multiply;
using plain::rotate;
using plain::Vector;

Vector norm(const ModelConfig& config, const Vector& x, const TensorView& weight) {
  const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + double{config.rms_norm_eps});
  Vector out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * double{bf16_to_float(weight.bf16_row(0)[i])};
  return out;
}

// softmax(q k / sqrt(head_dim)) v of one query head over cached rows [first, ...) and the token's own.
class Head {
 public:
  Head(const ModelConfig& config, const double* query) : config_(config), query_(query), sum_(dim()) {}
  template <class T>  // double, or float's bits as bf16
  void see(const T* key, const T* value) {
    double score = 0;
    for (size_t i = 0; i < dim(); ++i) score += query_[i] * number(key[i]);
    const double share = std::exp(score / std::sqrt(static_cast<double>(dim())));
    total_ += share;
    for (size_t i = 0; i < dim(); ++i) sum_[i] += share * number(value[i]);
  }
  void put(double* out) const {
    for (size_t i = 0; i < dim(); ++i) out[i] = sum_[i] / total_;
  }

 private:
  size_t dim() const { return static_cast<size_t>(config_.head_dim); }
  static double number(double value) { return value; }
  static double number(bf16 value) { return double{bf16_to_float(value)}; }
  const ModelConfig& config_;
  const double* query_;
  double total_ = 0;
  Vector sum_;
};

Vector attention(const Model& model, int32_t layer, const CachedLayer& cache, const Vector& h, int32_t position,
                 int32_t window) {
  const ModelConfig& config = model.config();
  const LayerConfig& kind = config.layers[static_cast<size_t>(layer)];
  Vector q = multiply(model.weights().at(WeightRole::kQuery, layer), h);
  Vector k = multiply(model.weights().at(WeightRole::kKey, layer), h);
  const Vector v = multiply(model.weights().at(WeightRole::kValue, layer), h);
  if (kind.rope) rotate(config, position, q), rotate(config, position, k);
  const int64_t first = kind.sliding ? std::max(0, position - (window - 1)) : 0;
  CHECK(cache.first <= first);
  const size_t dim = static_cast<size_t>(config.head_dim), width = static_cast<size_t>(config.kv_width());
  CHECK(cache.keys.size() == static_cast<size_t>(position - cache.first) * width);
  Vector out(q.size());
  for (size_t head = 0; head < static_cast<size_t>(config.query_heads); ++head) {
    const size_t kv = head / static_cast<size_t>(config.queries_per_kv()) * dim;
    Head one(config, q.data() + head * dim);
    for (size_t at = static_cast<size_t>(first - cache.first) * width + kv; at < cache.keys.size(); at += width)
      one.see(cache.keys.data() + at, cache.values.data() + at);
    one.see(k.data() + kv, v.data() + kv);
    one.put(out.data() + head * dim);
  }
  return multiply(model.weights().at(WeightRole::kOutput, layer), out);
}

Vector swiglu(const TensorView& gate, const TensorView& up, const TensorView& down, const Vector& h) {
  const Vector g = multiply(gate, h);
  Vector inner = multiply(up, h);
  for (size_t i = 0; i < inner.size(); ++i) inner[i] *= g[i] / (1 + std::exp(-g[i]));
  return multiply(down, inner);
}

Vector mlp(const Model& model, int32_t layer, const Vector& h) {
  const ModelConfig& config = model.config();
  const WeightTable& weights = model.weights();
  if (!config.is_moe(layer))
    return swiglu(weights.at(WeightRole::kDenseGate, layer), weights.at(WeightRole::kDenseUp, layer),
                  weights.at(WeightRole::kDenseDown, layer), h);
  const Vector logits = multiply(weights.at(WeightRole::kRouter, layer), h);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  Vector out(h.size());
  for (size_t j = 0; j < static_cast<size_t>(config.experts_per_token); ++j) {
    const int32_t expert = order[j];
    const Vector one =
        swiglu(weights.at(WeightRole::kExpertGate, layer, expert), weights.at(WeightRole::kExpertUp, layer, expert),
               weights.at(WeightRole::kExpertDown, layer, expert), h);
    const double share = 1 / (1 + std::exp(-logits[static_cast<size_t>(expert)]));
    for (size_t i = 0; i < out.size(); ++i) out[i] += share * one[i];
  }
  return out;
}

std::vector<float> floats(const Vector& x) { return {x.begin(), x.end()}; }

}  // namespace

PlainStep plain_step(const Model& model, const std::vector<CachedLayer>& cache, int32_t position, TokenId token,
                     int32_t window) {
  const ModelConfig& config = model.config();
  const TensorView& embedding = model.weights().at(WeightRole::kEmbedding);
  Vector x(static_cast<size_t>(config.hidden_size));
  for (size_t i = 0; i < x.size(); ++i) x[i] = bf16_to_float(embedding.bf16_row(token)[i]);
  PlainStep out;
  for (int32_t layer = 0; layer < config.layer_count(); ++layer) {
    const Vector h = norm(config, x, model.weights().at(WeightRole::kInputNorm, layer));
    const Vector a = attention(model, layer, cache[static_cast<size_t>(layer)], h, position, window);
    const Vector m = mlp(model, layer, h);
    for (size_t i = 0; i < x.size(); ++i) x[i] += a[i] + m[i];
    out.attention.push_back(floats(a));
    out.mlp.push_back(floats(m));
    out.residual.push_back(floats(x));
  }
  Vector logits = multiply(embedding, norm(config, x, model.weights().at(WeightRole::kFinalNorm)));
  for (double& logit : logits) logit *= config.logit_scale;
  out.logits = floats(logits);
  return out;
}

}  // namespace boreas
