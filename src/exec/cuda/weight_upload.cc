#include "exec/cuda/weight_upload.h"

#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/dummy_weights.h"

namespace boreas::cuda {
namespace {

constexpr int64_t kBytesBf16 = 2;
constexpr int64_t kProgressCallsMax = 200;

bool is_norm(WeightRole role) { return role == WeightRole::kInputNorm || role == WeightRole::kFinalNorm; }

class Upload {
 public:
  Upload(Device& device, const Model& model, int32_t workers, const WeightLayout& layout, std::byte* weights,
         std::byte* norms)
      : device_(device), model_(model), workers_(workers), layout_(layout), weights_(weights), norms_(norms) {}

  Status run(const LoadProgress& progress) {
    const ModelConfig& config = model_.config();
    const std::vector<WeightKey> keys = weight_keys(config);
    int64_t total = 0;
    for (const WeightKey& key : keys) total += bytes_of(key);
    int64_t done = 0, report_at = 0;
    for (const WeightKey& key : keys) {
      const Status status = tensor(key);
      if (!status.ok())
        return Error{"loading " + published_tensor_name(key.role, key.layer, key.expert) + ": " +
                     status.error().message};
      done += bytes_of(key);
      if (!progress || done < report_at) continue;
      progress(done, total);
      report_at = done + total / kProgressCallsMax;
    }
    RETURN_IF_ERROR(device_.synchronize());
    if (progress && done < report_at) progress(done, total);
    return Ok{};
  }

 private:
  int64_t bytes_of(const WeightKey& key) const {
    const WeightShape shape = weight_shape(model_.config(), key.role);
    return shape.rows * shape.cols * kBytesBf16;
  }

  Status tensor(const WeightKey& key) {
    const ModelConfig& config = model_.config();
    const WeightShape shape = weight_shape(config, key.role);
    std::byte* base =
        is_norm(key.role) ? norm_row(key) : weights_ + region_offset(layout_, key.role, key.layer, key.expert);
    const std::vector<RowPlace>& places = places_of(key.role);
    const int32_t columns = static_cast<int32_t>(shape.cols);
    if (model_.is_dummy()) {
      return device_.scatter_dummy(base, places, columns, published_tensor_name(key.role, key.layer, key.expert),
                                   dummy_exponent(key.role));
    }
    const TensorView& view = model_.weights().at(key.role, key.layer, key.expert);
    CHECK(!view.empty() && view.rows == shape.rows && view.cols == shape.cols && view.dtype == Dtype::kBF16);
    return device_.scatter_rows(base, places, columns, {static_cast<const std::byte*>(view.data), view.bytes()});
  }

  std::byte* norm_row(const WeightKey& key) const {
    const ModelConfig& config = model_.config();
    const int64_t row = key.role == WeightRole::kFinalNorm ? config.layer_count() : key.layer;
    return norms_ + row * config.hidden_size * kBytesBf16;
  }

  // All tensors of a role lie alike in their regions.
  const std::vector<RowPlace>& places_of(WeightRole role) {
    const auto found = places_.find(role);
    if (found != places_.end()) return found->second;
    return places_.emplace(role, row_places(model_.config(), workers_, role)).first->second;
  }

  Device& device_;
  const Model& model_;
  int32_t workers_;
  const WeightLayout& layout_;
  std::byte* weights_;
  std::byte* norms_;
  std::map<WeightRole, std::vector<RowPlace>> places_;
};

}  // namespace

Status upload_weights(Device& device, const Model& model, int32_t workers, const WeightLayout& layout,
                      std::byte* weights, std::byte* norms, const LoadProgress& progress) {
  return Upload(device, model, workers, layout, weights, norms).run(progress);
}

}  // namespace boreas::cuda
