// Weights arrive where the layout says, from files and made up on the device, to the bit.
#include "exec/cuda/weight_upload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/shape.h"
#include "exec/cuda/weight_reader.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kWorkers = 128;

void expect_arrived(const Model& model) {
  const ModelConfig& config = model.config();
  const auto log = std::make_shared<HostDeviceLog>();
  HostDevice device({}, {}, log);
  const WeightLayout layout = lay_out_weights(config);
  const DeviceMemory weights = device.allocate(layout.bytes, "weights").value();
  const size_t norm_bytes = static_cast<size_t>(config.layer_count() + 1) * static_cast<size_t>(config.hidden_size) * 2;
  const DeviceMemory norms = device.allocate(norm_bytes, "norms").value();
  int64_t calls = 0, last = -1, total = 0;
  const auto progress = [&](int64_t done, int64_t of) {
    ++calls;
    EXPECT_GT(done, last);
    last = done;
    total = of;
  };
  const Status status = upload_weights(device, model, kWorkers, layout, weights.device, norms.device, progress);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, model.weights().total_bytes());
  EXPECT_LE(calls, 300);
  for (const WeightKey& key : weight_keys(config)) {
    const TensorView& view = model.weights().at(key.role, key.layer, key.expert);
    const bool norm = key.role == WeightRole::kInputNorm || key.role == WeightRole::kFinalNorm;
    const int64_t norm_row = key.role == WeightRole::kFinalNorm ? config.layer_count() : key.layer;
    const std::byte* base = norm ? norms.device + norm_row * config.hidden_size * 2
                                 : weights.device + region_offset(layout, key.role, key.layer, key.expert);
    const std::vector<RowPlace> places = row_places(config, kWorkers, key.role);
    for (size_t row = 0; row < places.size(); ++row)
      for (int32_t pair = 0; pair < view.cols / 2; ++pair)
        ASSERT_EQ(
            std::memcmp(base + pair_offset(places[row], pair), view.bf16_row(static_cast<int64_t>(row)) + 2 * pair, 4),
            0)
            << published_tensor_name(key.role, key.layer, key.expert) << " row " << row << " pair " << pair;
  }
}

TEST(WeightUpload, DummyWeightsMadeOnTheDevice) {
  expect_arrived(*make_dummy_model(model_shape("demo").value()).value());
}

TEST(WeightUpload, WeightsOfACheckpoint) {
  const Result<std::shared_ptr<const Model>> model = load_model(std::string(BOREAS_SOURCE_DIR) + "/models/demo");
  ASSERT_TRUE(model.ok()) << model.error().message;
  expect_arrived(**model);
}

// As if a download ran over it.
TEST(WeightUpload, AFileThatIsCutMeanwhileIsNamed) {
  const std::filesystem::path demo = std::filesystem::path(BOREAS_SOURCE_DIR) / "models/demo";
  const std::filesystem::path copy = testing::TempDir() + "boreas-cut-" + std::to_string(::getpid());
  std::filesystem::copy(demo, copy, std::filesystem::copy_options::recursive);
  const Result<std::shared_ptr<const Model>> model = load_model(copy.string());
  ASSERT_TRUE(model.ok()) << model.error().message;
  const std::string file = (copy / "model-00002-of-00003.safetensors").string();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  HostDevice device({}, {}, std::make_shared<HostDeviceLog>());
  const WeightLayout layout = lay_out_weights((*model)->config());
  const DeviceMemory weights = device.allocate(layout.bytes, "weights").value();
  const DeviceMemory norms = device.allocate(size_t{1} << 20, "norms").value();
  const Status status = upload_weights(device, **model, kWorkers, layout, weights.device, norms.device, {});
  std::filesystem::remove_all(copy);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message.rfind(file + " ends at byte ", 0), 0u) << status.error().message;
}

TEST(WeightReader, ThreadsReadEveryPieceOnce) {
  const Result<std::shared_ptr<const Model>> model = load_model(std::string(BOREAS_SOURCE_DIR) + "/models/tiny");
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const int32_t threads : {1, 2, 7}) {
    WeightReader reader(**model, threads);
    for (const size_t piece_bytes : {size_t{1}, size_t{7}, size_t{4096}}) {
      const TensorView& weight = (*model)->weights().at(WeightRole::kEmbedding);
      std::vector<std::byte> bytes(weight.bytes());
      std::vector<WeightReader::Piece> pieces;
      for (size_t at = 0; at < bytes.size(); at += piece_bytes)
        pieces.push_back({&weight, at, std::span(bytes).subspan(at, std::min(piece_bytes, bytes.size() - at))});
      ASSERT_TRUE(reader.read(pieces).ok());
      EXPECT_EQ(std::memcmp(bytes.data(), weight.data, bytes.size()), 0) << threads << " threads, " << piece_bytes;
    }
  }
}

}  // namespace
}  // namespace boreas::cuda
