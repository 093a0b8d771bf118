// A model config with a compiled shape's numbers, for tests.
#pragma once

#include "exec/cuda/shape.h"
#include "model/model.h"

namespace boreas::cuda {

// `base`: what the shape does not say (layers, window, context).
template <class Shape>
ModelConfig config_of_shape(ModelConfig base) {
  base.hidden_size = Shape::kHidden;
  base.query_heads = Shape::kQueryHeads;
  base.kv_heads = Shape::kKvHeads;
  base.expert_width = Shape::kExpertWidth;
  base.dense_width = Shape::kDenseWidth;
  base.experts = Shape::kExperts;
  base.experts_per_token = Shape::kExpertsPerToken;
  base.vocab_size = Shape::kVocabulary;
  return base;
}
// Nine layers, three of them full.
template <class Shape>
ModelConfig config_of_shape() {
  return config_of_shape<Shape>(model_shape("demo").value());
}

}  // namespace boreas::cuda
