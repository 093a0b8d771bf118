// The two ways to a Model: from a checkpoint directory, and from a shape alone; and its weights' bytes. Called through
// the door (model.h).
#include <cstring>

#include "base/check.h"
#include "model/dummy_weights.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "model/weight_loader.h"

namespace boreas {

Result<std::shared_ptr<const Model>> load_model(const std::string& directory, const LoadOptions& options) {
  ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(directory));
  const bool no_values = options.dummy_weights && options.dummy_values == DummyValues::kMadeByExecutor;
  LoadedWeights weights{WeightTable(config), {}, {}};
  if (!no_values) {
    ASSIGN_OR_RETURN(weights, options.dummy_weights ? make_dummy_weights(config, options.progress)
                                                    : load_weights(config, directory, options.progress));
  }
  std::shared_ptr<Model> model(new Model(config));
  model->weights_ = std::move(weights.table);
  model->files_ = std::move(weights.files);
  model->buffers_ = std::move(weights.buffers);
  model->directory_ = directory;
  model->is_dummy_ = options.dummy_weights;
  return std::shared_ptr<const Model>(std::move(model));
}

Result<std::shared_ptr<const Model>> make_dummy_model(const ModelConfig& config, const LoadProgress& progress,
                                                      DummyValues values) {
  LoadedWeights weights{WeightTable(config), {}, {}};
  if (values == DummyValues::kOnHost) {
    ASSIGN_OR_RETURN(weights, make_dummy_weights(config, progress));
  }
  std::shared_ptr<Model> model(new Model(config));
  model->weights_ = std::move(weights.table);
  model->files_ = std::move(weights.files);
  model->buffers_ = std::move(weights.buffers);
  model->is_dummy_ = true;
  return std::shared_ptr<const Model>(std::move(model));
}

Status Model::read_weight(const TensorView& weight, size_t first, std::span<std::byte> to) const {
  CHECK(first <= weight.bytes() && to.size() <= weight.bytes() - first);
  const std::byte* from = static_cast<const std::byte*>(weight.data) + first;
  for (const std::shared_ptr<const SafetensorsFile>& file : files_)
    if (const auto offset = file->offset_of(from)) return file->read(*offset, to);
  std::memcpy(to.data(), from, to.size());
  return Ok{};
}

void Model::expect_weight(const TensorView& weight) const {
  for (const std::shared_ptr<const SafetensorsFile>& file : files_)
    if (const auto offset = file->offset_of(weight.data)) return file->expect(*offset, weight.bytes());
}

}  // namespace boreas
