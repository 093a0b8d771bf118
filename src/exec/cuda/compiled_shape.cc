#include "exec/cuda/compiled_shape.h"

#include <string>
#include <vector>

namespace boreas::cuda {
namespace {

struct Number {
  const char* name;
  int32_t of_model, of_shape;
};

std::vector<Number> differing(const ModelConfig& config, int32_t workers, const CompiledShape& shape) {
  const Number all[] = {{"hidden_size", config.hidden_size, shape.hidden},
                        {"head_dim", config.head_dim, kHeadDim},
                        {"query heads", config.query_heads, shape.query_heads},
                        {"KV heads", config.kv_heads, shape.kv_heads},
                        {"expert width", config.expert_width, shape.expert_width},
                        {"dense width", config.dense_width, shape.dense_width},
                        {"experts", config.experts, shape.experts},
                        {"experts a token", config.experts_per_token, shape.experts_per_token},
                        {"vocab_size", config.vocab_size, shape.vocabulary},
                        {"workers", workers, shape.workers}};
  std::vector<Number> found;
  for (const Number& number : all)
    if (number.of_model != number.of_shape) found.push_back(number);
  return found;
}

}  // namespace

std::span<const CompiledShape> compiled_shapes() {
#define BOREAS_SHAPE_ENTRY(shape, workers) compiled_shape<shape, workers>(),
  static const CompiledShape shapes[] = {BOREAS_CUDA_SHAPES(BOREAS_SHAPE_ENTRY)};
#undef BOREAS_SHAPE_ENTRY
  return shapes;
}

Result<CompiledShape> find_shape(const ModelConfig& config, int32_t workers, std::span<const CompiledShape> shapes) {
  if (config.layer_count() > kLayersMax)
    return Error{"the CUDA executor runs at most " + std::to_string(kLayersMax) + " layers, the model has " +
                 std::to_string(config.layer_count())};
  const CompiledShape* nearest = nullptr;
  std::vector<Number> nearest_numbers;
  std::string names;
  for (const CompiledShape& shape : shapes) {
    const std::vector<Number> numbers = differing(config, workers, shape);
    if (numbers.empty()) return shape;
    if (nearest == nullptr || numbers.size() < nearest_numbers.size()) {
      nearest = &shape;
      nearest_numbers = numbers;
    }
    names +=
        (names.empty() ? "" : ", ") + std::string(shape.name) + " on " + std::to_string(shape.workers) + " workers";
  }
  if (nearest == nullptr) return Error{"this build has no CUDA kernel for any model"};
  std::string message = "this build has no CUDA kernel for the model: ";
  for (size_t i = 0; i < nearest_numbers.size(); ++i) {
    const Number& number = nearest_numbers[i];
    message += (i > 0 ? ", " : "") + std::string(number.name) + " " + std::to_string(number.of_model) +
               (i == 0 ? ", expected " : " for ") + std::to_string(number.of_shape);
  }
  return Error{message + " (nearest: " + nearest->name + "; there are: " + names + "). Use --device cpu"};
}

}  // namespace boreas::cuda
