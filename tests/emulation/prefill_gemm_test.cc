// The kernel of prefill's matrix products on the emulated device: every product of the golden shape, and a few tiles of
// North's, under seeded orders, against plain sums. What only a GPU can show (that MMAs of all widths round alike, that
// nothing is touched while it is on its way) is in tests/gpu/prefill_gemm_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "exec/cuda/prefill/gemm_kernel.cuh"
#include "exec/cuda/prefill/gemm_plan.h"
#include "exec/cuda/prefill/operand.h"
#include "exec/cuda/shape_testing.h"
#include "gemm_emulation.h"
#include "grid.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kWorkers = 128;

float made_up(uint32_t what, uint32_t row, uint32_t column) {
  uint32_t h = what * 0x9e3779b9u ^ row * 0x85ebca6bu ^ column * 0xc2b2ae35u;
  h = (h ^ h >> 16) * 0x7feb352du;
  h = (h ^ h >> 15) * 0x846ca68bu;
  return static_cast<float>(static_cast<int8_t>(h >> 24 | 1u)) / 128.0f;
}
constexpr uint32_t kX = 999;

struct Problem {
  ModelConfig config;
  GemmMatrix matrix;
  GemmResult result;
  std::vector<WeightRole> roles;
  std::vector<int32_t> tiles;   // of the plan; empty: all
  int32_t k_steps = 0;          // 0: all
  std::vector<int32_t> groups;  // tokens of each; one: dense
  bool gather = false;
};

// Rows of tensors side by side: which role and row column y of Y is the product with.
std::pair<WeightRole, int32_t> row_of(const Problem& problem, int32_t y) {
  if (problem.result == GemmResult::kSwiglu) return {problem.roles[0], y};
  for (WeightRole role : problem.roles) {
    const int32_t rows = static_cast<int32_t>(weight_shape(problem.config, role).rows);
    if (y < rows) return {role, y};
    y -= rows;
  }
  ADD_FAILURE();
  return {};
}

uint32_t seed_of(WeightRole role, int32_t group) {
  return static_cast<uint32_t>(role) * 100 + static_cast<uint32_t>(group);
}

class Run {
 public:
  explicit Run(const Problem& problem) : p_(problem), plan_(plan_gemm(p_.config, kWorkers, p_.matrix).value()) {
    first_.push_back(0);
    for (int32_t tokens : p_.groups) first_.push_back(first_.back() + tokens);
    for (int32_t tile : p_.tiles) tiles_.push_back(plan_.tiles[static_cast<size_t>(tile)]);
    if (p_.tiles.empty()) tiles_ = plan_.tiles;
    if (p_.k_steps == 0) p_.k_steps = plan_.k / kGemmStepColumns;
    make_weights();
    for (int32_t row = 0; row < rows(); ++row) list_.push_back((row * 7 + 3) % rows());
    x_.resize(static_cast<size_t>(rows()) * static_cast<size_t>(plan_.k));
    for (int32_t row = 0; row < rows(); ++row)
      for (int32_t column = 0; column < plan_.k; ++column)
        x_[static_cast<size_t>(row * plan_.k + operand_column(column))] =
            float_to_bf16(made_up(kX, static_cast<uint32_t>(row), static_cast<uint32_t>(column)));
    const size_t each = p_.result == GemmResult::kFloats ? 4 : 2;
    y_.assign(static_cast<size_t>(rows()) * static_cast<size_t>(plan_.columns) * each, std::byte{0xff});
  }

  emulation::GridResult run(uint64_t seed, int32_t width) {
    GemmParams params{};
    const EmulatedTensorMap map{x_.data(), rows(), plan_.k};
    std::memcpy(params.tensor_map, &map, sizeof(map));
    const EmulatedStoreMap y_map{reinterpret_cast<float*>(y_.data()), rows(), plan_.columns};
    std::memcpy(params.y_map, &y_map, sizeof(y_map));
    params.weights = weights_.data();
    params.group_stride = stride_;
    params.tiles = tiles_.data();
    params.row_tiles = static_cast<int32_t>(tiles_.size());
    params.k_steps = p_.k_steps;
    params.groups = static_cast<int32_t>(p_.groups.size());
    params.first = params.groups > 1 ? first_.data() : nullptr;
    params.tokens = rows();
    params.width = width;
    params.stages = gemm_stages(width);
    params.blocks = 3;
    params.x = x_.data();
    params.gather = p_.gather ? list_.data() : nullptr;
    params.x_row_bytes = plan_.k * 2;
    params.y = y_.data();
    params.columns = plan_.columns;
    emulation::forget_memory();
    emulation::register_memory(reinterpret_cast<const void*>(4096), uint64_t{1} << 47, "all memory");
    emulation::GridOptions options;
    options.blocks = params.blocks;
    options.threads = kGemmThreads;
    options.shared_bytes = kGemmSharedBytes;
    options.seed = seed;
    options.check_shared = false;  // rows that nobody wants are multiplied as they are
    return run_grid(options, [&] {
      if (p_.gather) run_gemm<GemmResult::kSwiglu, true, false>(params);
      else if (p_.result == GemmResult::kSwiglu) run_gemm<GemmResult::kSwiglu, false, true>(params);
      else if (p_.result == GemmResult::kHalves) run_gemm<GemmResult::kHalves, false, false>(params);
      else run_gemm<GemmResult::kFloats, false, false>(params);
    });
  }

  void expect_right() const {
    for (const GemmTile& tile : tiles_)
      for (int32_t half = 0; half < 2; ++half)
        for (int32_t column = tile.column[half]; column < tile.column[half] + tile.columns[half]; ++column)
          for (int32_t group = 0, row = 0; group < static_cast<int32_t>(p_.groups.size()); ++group)
            for (int32_t i = 0; i < p_.groups[static_cast<size_t>(group)]; ++i, ++row) {
              const double want = wanted(group, row, column), got = at(row, column);
              ASSERT_NEAR(got, want, 1e-3 + std::abs(want) * 0.01) << "row " << row << " column " << column;
            }
  }

 private:
  int32_t rows() const { return first_.back(); }
  void make_weights() {
    for (WeightRole role : p_.roles) {
      const WeightShape shape = weight_shape(p_.config, role);
      stride_ += shape.rows * shape.cols * 2;
    }
    weights_.resize(static_cast<size_t>(stride_) * p_.groups.size());
    for (size_t group = 0; group < p_.groups.size(); ++group)
      for (WeightRole role : p_.roles) {
        const std::vector<RowPlace> places = row_places(p_.config, kWorkers, role);
        for (size_t row = 0; row < places.size(); ++row)
          for (int32_t column = 0; column < p_.k_steps * kGemmStepColumns; ++column) {
            const bf16 value = float_to_bf16(made_up(seed_of(role, static_cast<int32_t>(group)),
                                                     static_cast<uint32_t>(row), static_cast<uint32_t>(column)));
            std::memcpy(weights_.data() + stride_ * static_cast<int64_t>(group) + pair_offset(places[row], column / 2) +
                            column % 2 * 2,
                        &value, 2);
          }
      }
  }
  double sum(WeightRole role, int32_t group, int32_t weight_row, int32_t row) const {
    double value = 0;
    const uint32_t x_row = static_cast<uint32_t>(p_.gather ? list_[static_cast<size_t>(row)] : row);
    for (uint32_t k = 0; k < static_cast<uint32_t>(p_.k_steps * kGemmStepColumns); ++k)
      value +=
          double{made_up(kX, x_row, k)} * double{made_up(seed_of(role, group), static_cast<uint32_t>(weight_row), k)};
    return value;
  }
  double wanted(int32_t group, int32_t row, int32_t column) const {
    const auto [role, weight_row] = row_of(p_, column);
    const double value = sum(role, group, weight_row, row);
    if (p_.result != GemmResult::kSwiglu) return value;
    return value / (1 + std::exp(-value)) * sum(p_.roles[1], group, weight_row, row);
  }
  double at(int32_t row, int32_t column) const {
    if (p_.result == GemmResult::kSwiglu) column = operand_column(column);
    const size_t i = static_cast<size_t>(row * plan_.columns + column);
    if (p_.result == GemmResult::kFloats) {
      float value;
      std::memcpy(&value, y_.data() + i * 4, 4);
      return double{value};
    }
    bf16 value;
    std::memcpy(&value, y_.data() + i * 2, 2);
    return double{bf16_to_float(value)};
  }

  Problem p_;
  GemmPlan plan_;
  int64_t stride_ = 0;
  std::vector<int32_t> first_, list_;
  std::vector<GemmTile> tiles_;
  std::vector<std::byte> weights_, y_;
  std::vector<bf16> x_;
};

void expect_run(const Problem& problem, int32_t width = kGemmWidthMax) {
  static const uint64_t seed = std::random_device{}();
  for (uint64_t order : {uint64_t{0}, seed}) {
    SCOPED_TRACE(testing::Message() << "seed " << order << ", matrix " << int(problem.matrix));
    Run run(problem);
    const emulation::GridResult result = run.run(order, width);
    ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
    run.expect_right();
    if (testing::Test::HasFatalFailure()) return;
  }
}

using enum WeightRole;
const ModelConfig kGolden = config_of_shape<GoldenShape>();
const ModelConfig kNorth = config_of_shape<NorthShape>();

TEST(PrefillGemmEmulation, DenseProductsOfTheGoldenShape) {
  expect_run({kGolden, GemmMatrix::kQkv, GemmResult::kHalves, {kQuery, kKey, kValue}, {0, 5}, 0, {70}});
  expect_run({kGolden, GemmMatrix::kOutput, GemmResult::kFloats, {kOutput}, {}, 0, {1}});
  expect_run({kGolden, GemmMatrix::kRouter, GemmResult::kHalves, {kRouter}, {}, 0, {333}});
  expect_run({kGolden, GemmMatrix::kDenseUpGate, GemmResult::kSwiglu, {kDenseGate, kDenseUp}, {}, 0, {150}});
  expect_run({kGolden, GemmMatrix::kDenseDown, GemmResult::kFloats, {kDenseDown}, {}, 0, {257}}, 128);
}

TEST(PrefillGemmEmulation, GroupedProductsOfTheGoldenShape) {
  const std::vector<int32_t> groups = {0, 5, 70, 1, 0, 130, 257, 64};
  expect_run({kGolden, GemmMatrix::kExpertUpGate, GemmResult::kSwiglu, {kExpertGate, kExpertUp}, {}, 0, groups, true});
  expect_run({kGolden, GemmMatrix::kExpertDown, GemmResult::kFloats, {kExpertDown}, {}, 0, groups});
}

// Tall tiles, whole and row by row; short tiles of 8 and 4 rows.
TEST(PrefillGemmEmulation, SomeTilesOfNorth) {
  expect_run({kNorth, GemmMatrix::kQkv, GemmResult::kHalves, {kQuery, kKey, kValue}, {0, 33}, 5, {70}});
  expect_run({kNorth, GemmMatrix::kOutput, GemmResult::kFloats, {kOutput}, {3}, 2, {70}});
  expect_run({kNorth, GemmMatrix::kRouter, GemmResult::kHalves, {kRouter}, {}, 2, {20}});
  expect_run({kNorth, GemmMatrix::kDenseUpGate, GemmResult::kSwiglu, {kDenseGate, kDenseUp}, {1}, 3, {70}});
  expect_run(
      {kNorth, GemmMatrix::kExpertUpGate, GemmResult::kSwiglu, {kExpertGate, kExpertUp}, {0, 2}, 6, {30, 67}, true});
}

}  // namespace
}  // namespace boreas::cuda
