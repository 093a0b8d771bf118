// Weights arrive where the layout says, from files and made up on the device, to the bit.
#include "exec/cuda/weight_upload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/shape.h"

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

}  // namespace
}  // namespace boreas::cuda
