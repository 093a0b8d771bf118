#include "exec/cuda/weight_upload.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "exec/cuda/weight_reader.h"
#include "model/dummy_weights.h"

namespace boreas::cuda {
namespace {

constexpr size_t kBytesBf16 = 2;
constexpr int64_t kProgressCallsMax = 200;
constexpr size_t kPieceBytes = size_t{1} << 20;      // what a thread reads at once
constexpr int64_t kBytesAhead = int64_t{256} << 20;  // what the disk is told of before it is wanted

bool is_norm(WeightRole role) { return role == WeightRole::kInputNorm || role == WeightRole::kFinalNorm; }

size_t aligned(size_t bytes) { return (bytes + kStageAlign - 1) / kStageAlign * kStageAlign; }

class Upload {
 public:
  Upload(Device& device, const Model& model, int32_t workers, const WeightLayout& layout, std::byte* weights,
         std::byte* norms, const LoadProgress& progress)
      : device_(device),
        model_(model),
        workers_(workers),
        layout_(layout),
        weights_(weights),
        norms_(norms),
        progress_(progress),
        keys_(weight_keys(model.config())) {
    for (const WeightKey& key : keys_) total_ += bytes_of(key);
  }

  Status run() {
    RETURN_IF_ERROR(model_.is_dummy() ? make_up() : read());
    RETURN_IF_ERROR(device_.synchronize());
    if (progress_ && reported_ < total_) progress_(total_, total_);
    return Ok{};
  }

 private:
  // ---- made-up weights
  Status make_up() {
    for (const WeightKey& key : keys_) {
      const std::string name = published_tensor_name(key.role, key.layer, key.expert);
      const int32_t columns = static_cast<int32_t>(shape_of(key).cols);
      const Status status =
          device_.scatter_dummy(base_of(key), places_of(key.role), columns, name, dummy_exponent(key.role));
      if (!status.ok()) return Error{"loading " + name + ": " + status.error().message};
      report(bytes_of(key));
    }
    return Ok{};
  }

  // ---- weights of files: in the files' order, a stage at a time, while the last one's bytes are on their way
  Status read() {
    std::sort(keys_.begin(), keys_.end(),
              [&](const WeightKey& a, const WeightKey& b) { return std::less<>()(view_of(a).data, view_of(b).data); });
    RETURN_IF_ERROR(begin_stage());
    for (size_t i = 0; i < keys_.size(); ++i) {
      expect_from(i);
      RETURN_IF_ERROR(read_tensor(keys_[i]));
    }
    return end_stage();
  }

  // Tells the files what will be read soon.
  void expect_from(size_t key) {
    if (key > 0) ahead_ -= bytes_of(keys_[key - 1]);
    for (; expected_ < keys_.size() && ahead_ < kBytesAhead; ++expected_) {
      model_.expect_weight(view_of(keys_[expected_]));
      ahead_ += bytes_of(keys_[expected_]);
    }
  }

  Status read_tensor(const WeightKey& key) {
    const TensorView& view = view_of(key);
    CHECK(view.rows == shape_of(key).rows && view.cols == shape_of(key).cols && view.dtype == Dtype::kBF16);
    const std::span<const RowPlace> places = places_of(key.role);
    const size_t row_bytes = static_cast<size_t>(view.cols) * kBytesBf16;
    for (size_t row = 0; row < places.size();) {
      const size_t free = stage_.size() - used_, margin = 2 * kStageAlign;
      const size_t fit = free < margin ? 0 : (free - margin) / (row_bytes + sizeof(RowPlace));
      if (fit == 0) {
        CHECK(used_ > 0);  // a stage holds at least a row
        RETURN_IF_ERROR(end_stage());
        RETURN_IF_ERROR(begin_stage());
        continue;
      }
      const size_t rows = std::min(fit, places.size() - row);
      stage_rows(base_of(key), view, row, places.subspan(row, rows));
      row += rows;
    }
    return Ok{};
  }

  // Rows of a tensor from `first` on, one a place, to what is free of the stage.
  void stage_rows(std::byte* base, const TensorView& view, size_t first, std::span<const RowPlace> places) {
    const size_t row_bytes = static_cast<size_t>(view.cols) * kBytesBf16, bytes = places.size() * row_bytes;
    StagedRows rows{base, used_, 0, static_cast<int32_t>(places.size()), static_cast<int32_t>(view.cols)};
    for (size_t at = 0; at < bytes; at += kPieceBytes) {
      const size_t some = std::min(kPieceBytes, bytes - at);
      pieces_.push_back({&view, first * row_bytes + at, stage_.subspan(used_ + at, some)});
    }
    rows.places = used_ + aligned(bytes);
    std::memcpy(stage_.data() + rows.places, places.data(), places.size_bytes());
    used_ = aligned(rows.places + places.size_bytes());
    staged_.push_back(rows);
    staged_bytes_ += static_cast<int64_t>(bytes);
  }

  Status begin_stage() {
    ASSIGN_OR_RETURN(stage_, device_.begin_stage());
    return Ok{};
  }
  Status end_stage() {
    RETURN_IF_ERROR(reader_.read(pieces_));
    RETURN_IF_ERROR(device_.scatter_stage(used_, staged_));
    report(staged_bytes_);
    pieces_.clear();
    staged_.clear();
    used_ = 0;
    staged_bytes_ = 0;
    return Ok{};
  }

  // ---- what both need
  void report(int64_t bytes) {
    done_ += bytes;
    if (!progress_ || done_ - reported_ < total_ / kProgressCallsMax || bytes == 0) return;
    progress_(done_, total_);
    reported_ = done_;
  }
  WeightShape shape_of(const WeightKey& key) const { return weight_shape(model_.config(), key.role); }
  int64_t bytes_of(const WeightKey& key) const {
    const WeightShape shape = shape_of(key);
    return shape.rows * shape.cols * static_cast<int64_t>(kBytesBf16);
  }
  const TensorView& view_of(const WeightKey& key) const { return model_.weights().at(key.role, key.layer, key.expert); }
  std::byte* base_of(const WeightKey& key) const {
    if (!is_norm(key.role)) return weights_ + region_offset(layout_, key.role, key.layer, key.expert);
    const ModelConfig& config = model_.config();
    const int64_t row = key.role == WeightRole::kFinalNorm ? config.layer_count() : key.layer;
    return norms_ + row * config.hidden_size * static_cast<int64_t>(kBytesBf16);
  }
  // All tensors of a role lie alike in their regions.
  std::span<const RowPlace> places_of(WeightRole role) {
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
  const LoadProgress& progress_;
  std::vector<WeightKey> keys_;
  std::map<WeightRole, std::vector<RowPlace>> places_;
  int64_t total_ = 0, done_ = 0, reported_ = 0;  // bytes of tensors
  WeightReader reader_{model_, model_.is_dummy() ? 1 : WeightReader::threads_for_machine()};
  // The stage in hand: what is to be read into it and where that goes then.
  std::span<std::byte> stage_;
  size_t used_ = 0;
  std::vector<WeightReader::Piece> pieces_;
  std::vector<StagedRows> staged_;
  int64_t staged_bytes_ = 0;
  size_t expected_ = 0;  // keys of which the files know
  int64_t ahead_ = 0;    // their bytes, of those not yet read
};

}  // namespace

Status upload_weights(Device& device, const Model& model, int32_t workers, const WeightLayout& layout,
                      std::byte* weights, std::byte* norms, const LoadProgress& progress) {
  return Upload(device, model, workers, layout, weights, norms, progress).run();
}

}  // namespace boreas::cuda
