// The kernels of a build as a table of numbers, so that host code need not be a template: which model they fit, how
// large their hop buffers are, what they keep in shared memory. Made from Cut (shape.h); tests add shapes of their own.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "exec/cuda/shape.h"
#include "exec/cuda/shared_memory.h"
#include "model/model.h"
#include "program/task.h"

namespace boreas::cuda {

struct CompiledShape {
  const char* name = "";
  int32_t workers = 0;
  int32_t hidden = 0, query_heads = 0, kv_heads = 0, expert_width = 0, dense_width = 0, experts = 0,
          experts_per_token = 0, vocabulary = 0;
  std::array<uint32_t, kHops> hop_half_words{};  // by Hop, for kRowsMax rows
  // Of a block's shared memory beside slots and ring; its end says how much that is.
  ScratchMap (*scratch_map)(uint32_t base, int32_t rows, int32_t pages_per_row, int32_t partial_half) = nullptr;
};

template <class C>
constexpr std::array<uint32_t, kHops> hop_half_words_of() {
  std::array<uint32_t, kHops> words{};
  const auto set = [&words](Hop hop, int32_t count) { words[static_cast<size_t>(hop)] = static_cast<uint32_t>(count); };
  set(Hop::kResidual, kRowsMax * C::kWorkers * C::kResidualWords);
  set(Hop::kLogit, words_of_halves(kRowsMax) * C::kExperts);  // a word holds one expert's logits of six rows
  set(Hop::kQkv, kRowsMax * C::kWorkers * C::kQkvWords);
  set(Hop::kPartial, kRowsMax * C::kPartialRowWords);
  set(Hop::kAttention, kRowsMax * C::kWorkers * C::kAttentionWords);
  set(Hop::kInner, kRowsMax * C::kInnerRowWords);
  set(Hop::kLogits, kRowsMax * C::kWorkers);
  set(Hop::kMass, kRowsMax * C::kWorkers * kMassWords);
  set(Hop::kToken, C::kWorkers);
  return words;
}

template <class Shape, int32_t kWorkers>
CompiledShape compiled_shape() {
  using C = Cut<Shape, kWorkers>;
  CompiledShape shape;
  shape.name = Shape::kName;
  shape.workers = kWorkers;
  shape.hidden = C::kHidden;
  shape.query_heads = C::kQueryHeads;
  shape.kv_heads = C::kKvHeads;
  shape.expert_width = C::kExpertWidth;
  shape.dense_width = C::kDenseWidth;
  shape.experts = C::kExperts;
  shape.experts_per_token = C::kExpertsPerToken;
  shape.vocabulary = C::kVocabulary;
  shape.hop_half_words = hop_half_words_of<C>();
  shape.scratch_map = &map_scratch<C>;
  return shape;
}

// Of BOREAS_CUDA_SHAPES.
std::span<const CompiledShape> compiled_shapes();

// The kernel for this model on so many workers. Error: the numbers in which the nearest one differs, and all there are.
Result<CompiledShape> find_shape(const ModelConfig& config, int32_t workers, std::span<const CompiledShape> shapes);

}  // namespace boreas::cuda
