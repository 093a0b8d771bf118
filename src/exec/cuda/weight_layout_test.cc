// Every element of every weight has one place of its own, and the kernel's compile-time offsets (Cut) lead to it.
#include "exec/cuda/weight_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/shape_testing.h"
#include "program/compile.h"

namespace boreas::cuda {
namespace {

// Marks every pair of columns that the roles' rows take in one region; each must be new, and at the end none is left.
class Region {
 public:
  explicit Region(int64_t bytes) : taken_(static_cast<size_t>(bytes / kPairBytes)) {}
  void take(const ModelConfig& config, int32_t workers, WeightRole role) {
    const int32_t pairs = static_cast<int32_t>(weight_shape(config, role).cols) / 2;
    for (const RowPlace& place : row_places(config, workers, role)) {
      for (int32_t pair = 0; pair < pairs; ++pair) {
        const int64_t at = pair_offset(place, pair);
        ASSERT_EQ(at % kPairBytes, 0);
        ASSERT_LT(at / kPairBytes, static_cast<int64_t>(taken_.size()));
        ASSERT_FALSE(taken_[static_cast<size_t>(at / kPairBytes)]) << "two rows at " << at;
        taken_[static_cast<size_t>(at / kPairBytes)] = true;
      }
    }
  }
  void expect_full() const {
    for (size_t i = 0; i < taken_.size(); ++i) ASSERT_TRUE(taken_[i]) << "nobody at " << i * kPairBytes;
  }

 private:
  static constexpr int64_t kPairBytes = 4;
  std::vector<bool> taken_;
};

void expect_own_places(const ModelConfig& config, int32_t workers) {
  using enum WeightRole;
  const std::vector<std::vector<WeightRole>> regions = {
      {kQuery, kKey, kValue}, {kOutput},     {kRouter},    {kExpertGate, kExpertUp},
      {kDenseGate, kDenseUp}, {kExpertDown}, {kDenseDown}, {kEmbedding}};
  for (const std::vector<WeightRole>& roles : regions) {
    int64_t bytes = 0;
    for (WeightRole role : roles) bytes += weight_shape(config, role).rows * weight_shape(config, role).cols * 2;
    Region region(bytes);
    for (WeightRole role : roles) region.take(config, workers, role);
    region.expect_full();
  }
}

// An element by the kernel's arithmetic: unit of the worker, then its place in the unit.
void expect_row(const RowPlace& place, int64_t unit, int32_t unit_rows, int32_t columns, int32_t unit_row,
                const std::string& what) {
  for (int32_t column = 0; column < columns; column += 2)
    ASSERT_EQ(pair_offset(place, column / 2), unit + unit_element_offset(unit_rows, columns, unit_row, column))
        << what << " row " << unit_row << " column " << column;
}

template <class C>
void expect_slices(WeightRole role, int32_t part, int32_t parts) {
  const ModelConfig config = config_of_shape<typename C::S>();
  const WeightShape shape = weight_shape(config, role);
  const int32_t rows = static_cast<int32_t>(shape.rows), columns = static_cast<int32_t>(shape.cols);
  const std::vector<RowPlace> places = row_places(config, C::kWorkers, role);
  ASSERT_EQ(places.size(), static_cast<size_t>(rows));
  for (int32_t worker = 0; worker < C::kWorkers; ++worker) {
    const Range own = C::slice_of(rows, worker);
    const int64_t unit = int64_t{parts} * own.first * columns * 2;
    for (int32_t row = 0; row < own.count; ++row)
      expect_row(places[static_cast<size_t>(own.first + row)], unit, parts * own.count, columns, part + parts * row,
                 published_tensor_name(role, 0, 0));
  }
}

void expect_load(const ModelConfig& config, const WeightLayout& layout, int32_t workers, const TaskDesc& task,
                 const TaskDesc& consumer) {
  using enum WeightRole;
  const LoadOp::Stream stream = static_cast<LoadOp::Stream>(task.args[LoadOp::kStream]);
  if (stream == LoadOp::kKvPages) return;  // its parts are a page's, not a weight's
  const auto [role, row] = [&]() -> std::pair<WeightRole, int32_t> {
    const int32_t head_queries = config.queries_per_kv() * config.head_dim;
    const int32_t* args = consumer.args;
    switch (stream) {
      case LoadOp::kRouter:
        return {kRouter, args[RouterLogitsOp::kFirst]};
      case LoadOp::kQkv:
        return {kQuery, args[QkvOp::kHeadFirst] * head_queries + args[QkvOp::kQFirst]};
      case LoadOp::kExpertUpGate:
        return {kExpertGate, args[UpGateOp::kFirst]};
      case LoadOp::kDenseUpGate:
        return {kDenseGate, args[UpGateOp::kFirst]};
      case LoadOp::kOutput:
        return {kOutput, args[OutProjOp::kFirst]};
      case LoadOp::kExpertDown:
        return {kExpertDown, args[DownOp::kFirst]};
      case LoadOp::kDenseDown:
        return {kDenseDown, args[DownOp::kFirst]};
      default:
        return {kEmbedding, args[LmHeadOp::kFirst]};
    }
  }();
  const uint64_t first = region_offset(layout, role, std::max(task.layer, 0), 0) +
                         static_cast<uint64_t>(row_places(config, workers, role)[static_cast<size_t>(row)].offset);
  const uint64_t from = static_cast<uint32_t>(task.args[kLoadFromLow]) |
                        static_cast<uint64_t>(static_cast<uint32_t>(task.args[kLoadFromHigh])) << 32;
  EXPECT_EQ(from, first) << "stream " << stream << " layer " << task.layer;
  const uint64_t expert =
      region_offset(layout, role, std::max(task.layer, 0), 1) - region_offset(layout, role, std::max(task.layer, 0), 0);
  EXPECT_EQ(static_cast<uint64_t>(task.args[kLoadStride]), expert) << "stream " << stream;
}

template <class C>
void expect_qkv() {
  const ModelConfig config = config_of_shape<typename C::S>();
  const std::vector<RowPlace> query = row_places(config, C::kWorkers, WeightRole::kQuery);
  const std::vector<RowPlace> key = row_places(config, C::kWorkers, WeightRole::kKey);
  const std::vector<RowPlace> value = row_places(config, C::kWorkers, WeightRole::kValue);
  for (int32_t worker = 0; worker < C::kWorkers; ++worker) {
    const auto group = C::group_of(worker);
    const int32_t index = worker - group.workers.first;
    const Range q = C::q_slice(group.workers.count, index), kv = C::kv_slice(group.workers.count, index);
    const int32_t unit_rows = q.count + 2 * kv.count;
    const int64_t unit = query[static_cast<size_t>(group.head * C::kHeadQueryWidth + q.first)].offset;
    for (int32_t row = 0; row < q.count; ++row)
      expect_row(query[static_cast<size_t>(group.head * C::kHeadQueryWidth + q.first + row)], unit, unit_rows,
                 C::kHidden, row, "query");
    for (int32_t row = 0; row < kv.count; ++row) {
      const size_t at = static_cast<size_t>(group.head * kHeadDim + kv.first + row);
      expect_row(key[at], unit, unit_rows, C::kHidden, q.count + row, "key");
      expect_row(value[at], unit, unit_rows, C::kHidden, q.count + kv.count + row, "value");
    }
  }
}

// Every LOAD task of a compiled program names the place of its unit's first row.
void expect_loads(const ModelConfig& config, int32_t workers) {
  DeviceSpec spec = h200_spec();
  spec.workers = workers;
  Result<Program> program = compile(config, spec, 1);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const WeightLayout layout = lay_out_weights(config);
  address_loads(config, layout, program->list_first, program->tasks);
  int32_t loads = 0;
  for (int32_t worker = 0; worker < workers; ++worker) {
    std::vector<TaskDesc> consumers;
    for (const TaskDesc& task : program->list(worker, Role::kConsumer))
      if (task.stream_item >= 0) consumers.push_back(task);
    for (const TaskDesc& task : program->list(worker, Role::kProducer)) {
      if (static_cast<Op>(task.op) != Op::kLoad || task.args[LoadOp::kUnitBytes] == 0) continue;
      ++loads;
      expect_load(config, layout, workers, task, consumers[static_cast<size_t>(task.stream_item)]);
    }
  }
  EXPECT_GT(loads, 0);
}

template <class C>
void expect_cut() {
  using enum WeightRole;
  expect_own_places(config_of_shape<typename C::S>(), C::kWorkers);
  expect_qkv<C>();
  for (WeightRole role : {kRouter, kOutput, kExpertDown, kDenseDown, kEmbedding}) expect_slices<C>(role, 0, 1);
  for (WeightRole role : {kExpertGate, kDenseGate}) expect_slices<C>(role, 0, 2);
  for (WeightRole role : {kExpertUp, kDenseUp}) expect_slices<C>(role, 1, 2);
  expect_loads(config_of_shape<typename C::S>(), C::kWorkers);
}

TEST(WeightLayout, NorthOn128) { expect_cut<Cut<NorthShape, 128>>(); }
TEST(WeightLayout, DemoOn128) { expect_cut<Cut<DemoShape, 128>>(); }
TEST(WeightLayout, GoldenOn128) { expect_cut<Cut<GoldenShape, 128>>(); }
TEST(WeightLayout, GoldenOn4) { expect_cut<Cut<GoldenShape, 4>>(); }

// Uneven slices and groups: no kernel is compiled for them, but the layout promises them.
TEST(WeightLayout, UnevenWorkers) {
  for (int32_t workers : {3, 7, 100, 112}) expect_own_places(model_shape("demo").value(), workers);
}

TEST(WeightLayout, RegionsFollowEachOtherAndHoldEverythingOnce) {
  for (const char* name : {"north", "demo"}) {
    const ModelConfig config = model_shape(name).value();
    const WeightLayout layout = lay_out_weights(config);
    uint64_t end = 0;
    int32_t next_in_pool[2] = {};
    for (int32_t i = 0; i < config.layer_count(); ++i) {
      const LayerWeights& layer = layout.layers[static_cast<size_t>(i)];
      EXPECT_EQ(layer.router == kNoRouter, !config.is_moe(i));
      for (uint64_t region : {layer.qkv, layer.output, layer.router, layer.up_gate, layer.down}) {
        if (region == kNoRouter) continue;
        EXPECT_EQ(region % kRegionAlign, 0u);
        EXPECT_GE(region, end);
        end = region;
      }
      EXPECT_EQ(layer.sliding, config.layers[static_cast<size_t>(i)].sliding ? 1 : 0);
      EXPECT_EQ(layer.pool_layer, next_in_pool[layer.sliding]++);
    }
    EXPECT_GT(layout.lm_head, end);
    const int64_t norms = (config.layer_count() + 1) * int64_t{config.hidden_size} * 2;
    EXPECT_GE(static_cast<int64_t>(layout.bytes), weight_bytes(config) - norms);
    EXPECT_LT(static_cast<int64_t>(layout.bytes), weight_bytes(config) - norms + 6 * 64 * int64_t{kRegionAlign});
  }
}

TEST(WeightLayout, OffsetsOfExpertsAreStrides) {
  const ModelConfig config = model_shape("demo").value();
  const WeightLayout layout = lay_out_weights(config);
  const uint64_t first = region_offset(layout, WeightRole::kExpertUp, 2, 0);
  EXPECT_EQ(first, layout.layers[2].up_gate);
  EXPECT_EQ(region_offset(layout, WeightRole::kExpertGate, 2, 3), first + 3 * layout.expert_up_gate_stride);
  EXPECT_EQ(region_offset(layout, WeightRole::kExpertDown, 2, 5),
            layout.layers[2].down + 5 * layout.expert_down_stride);
  EXPECT_EQ(region_offset(layout, WeightRole::kValue, 4, 0), layout.layers[4].qkv);
  EXPECT_EQ(region_offset(layout, WeightRole::kEmbedding, 0, 0), layout.lm_head);
}

}  // namespace
}  // namespace boreas::cuda
