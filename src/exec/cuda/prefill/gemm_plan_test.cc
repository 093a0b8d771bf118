// Walks every plan as the kernel does: copies a K step of a region whose elements name themselves, takes each row's
// fragments from the stage, and expects the element of the tensor that Y's column wants.
#include "exec/cuda/prefill/gemm_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/prefill/operand.h"
#include "exec/cuda/shape_testing.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kWorkers = 128;

// A pair of columns of a region holds an index of this list.
struct Pair {
  WeightRole role;
  int32_t row, pair;
  bool operator==(const Pair&) const = default;
};

class Region {
 public:
  Region(const ModelConfig& config, const std::vector<WeightRole>& roles) {
    for (WeightRole role : roles) {
      const WeightShape shape = weight_shape(config, role);
      words_.resize(words_.size() + static_cast<size_t>(shape.rows * shape.cols / 2));
    }
    for (WeightRole role : roles) {
      const std::vector<RowPlace> places = row_places(config, kWorkers, role);
      const int32_t pairs = static_cast<int32_t>(weight_shape(config, role).cols) / 2;
      for (size_t row = 0; row < places.size(); ++row)
        for (int32_t pair = 0; pair < pairs; ++pair) {
          words_[static_cast<size_t>(pair_offset(places[row], pair)) / 4] = static_cast<uint32_t>(pairs_.size());
          pairs_.push_back({role, static_cast<int32_t>(row), pair});
        }
    }
  }
  const uint32_t* words() const { return words_.data(); }
  size_t bytes() const { return words_.size() * 4; }
  const Pair& pair(uint32_t word) const { return pairs_[word]; }

 private:
  std::vector<uint32_t> words_;
  std::vector<Pair> pairs_;
};

struct Stage {
  std::vector<uint32_t> words = std::vector<uint32_t>(kGemmWeightBytes / 4, ~0u);
  uint32_t at(int32_t offset) const {
    EXPECT_EQ(offset % 4, 0);
    return words.at(static_cast<size_t>(offset) / 4);
  }
};

Stage filled(const GemmTile& tile, const Region& region, int32_t k_step) {
  Stage stage;
  int32_t bytes = 0;
  for (int32_t i = 0; i < tile.copy_count; ++i) {
    const GemmCopy& copy = tile.copies[i];
    const size_t from = copy.source + size_t{copy.step} * static_cast<size_t>(k_step);
    EXPECT_EQ(from % 16 + copy.shared % 16 + copy.bytes % 16, 0u);
    EXPECT_LE(from + copy.bytes, region.bytes());
    EXPECT_LE(copy.shared + copy.bytes, kGemmWeightBytes);
    std::memcpy(stage.words.data() + copy.shared / 4, region.words() + from / 4, copy.bytes);
    bytes += copy.bytes;
  }
  EXPECT_EQ(bytes, tile.bytes);
  return stage;
}

// Registers a0, a2 (or a1, a3) of both MMAs of a block for MMA row `slot`, lane column c: four pairs of columns.
std::vector<uint32_t> registers(const GemmTile& tile, const Stage& stage, bool by_rows, int32_t slot, int32_t c,
                                int32_t block) {
  const int32_t low = slot / 16 * 16 + slot % 8;
  const bool upper = slot % 16 >= 8;
  const GemmSlot own = tile.slots[slot];
  if (by_rows || tile.slots[low].step != kTallStep) {
    const int32_t at = own.shared + block * own.step + c * 16;
    if (own.step == kTallStep) return {stage.at(at), stage.at(at + 8), stage.at(at + 512), stage.at(at + 520)};
    return {stage.at(at), stage.at(at + 8), stage.at(at + 4), stage.at(at + 12)};
  }
  // A fragment: 16 bytes are a0 .. a3.
  const int32_t at = tile.slots[low].shared + block * kTallStep + c * 16, odd = upper ? 4 : 0;
  return {stage.at(at + odd), stage.at(at + 8 + odd), stage.at(at + 512 + odd), stage.at(at + 520 + odd)};
}

// Which row of which tensor is wanted of a slot.
using Wanted = std::pair<WeightRole, int32_t>;

void expect_slot(const GemmTile& tile, const Stage& stage, const Region& region, bool by_rows, int32_t slot,
                 int32_t k_step, const Wanted& wanted) {
  for (int32_t block = 0; block < 2; ++block)
    for (int32_t c = 0; c < 4; ++c) {
      const std::vector<uint32_t> words = registers(tile, stage, by_rows, slot, c, block);
      for (int32_t i = 0; i < 4; ++i) {  // k of the block: 2 c, 2 c + 8 of the first MMA, then of the second
        const int32_t place = 16 * (i / 2) + 8 * (i % 2) + 2 * c;
        const int32_t column = k_step * kGemmStepColumns + block * kBlockColumns + column_of_operand(place);
        ASSERT_NE(words[static_cast<size_t>(i)], ~0u) << "slot " << slot << ": nothing was copied there";
        ASSERT_EQ(region.pair(words[static_cast<size_t>(i)]), (Pair{wanted.first, wanted.second, column / 2}))
            << "slot " << slot << " c " << c << " block " << block << " word " << i;
      }
    }
}

// columns[i]: what column i of Y is the product with (for SwiGLU: gates; the up row is of `up`).
void expect_plan(const ModelConfig& config, GemmMatrix matrix, const std::vector<WeightRole>& roles,
                 const std::vector<Wanted>& columns, bool swiglu) {
  const auto plan = plan_gemm(config, kWorkers, matrix);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->columns, static_cast<int32_t>(columns.size()));
  const Region region(config, roles);
  std::vector<int32_t> seen(columns.size());
  for (const GemmTile& tile : plan->tiles)
    for (int32_t k_step : {0, plan->k / kGemmStepColumns - 1}) {
      const Stage stage = filled(tile, region, k_step);
      for (int32_t slot = 0; slot < kGemmRows; ++slot) {
        const int32_t half = slot / kGemmHalfRows, in_half = slot % kGemmHalfRows;
        const int32_t column = swiglu ? column_of_operand(slot_operand_place(in_half)) : in_half;
        if (column >= tile.columns[half]) continue;
        const size_t y = static_cast<size_t>(tile.column[half] + column);
        Wanted wanted = columns.at(y);
        if (swiglu && !slot_is_gate(in_half)) wanted.first = roles[1];
        const bool by_rows = matrix == GemmMatrix::kDenseUpGate;
        expect_slot(tile, stage, region, by_rows, slot, k_step, wanted);
        if (testing::Test::HasFatalFailure()) return;
        ++seen[y];
      }
    }
  for (int32_t times : seen) ASSERT_EQ(times, swiglu ? 4 : 2);
}

void add_rows(std::vector<Wanted>& columns, WeightRole role, int32_t count) {
  for (int32_t row = 0; row < count; ++row) columns.emplace_back(role, row);
}

template <class Shape>
void expect_plans() {
  using enum WeightRole;
  const ModelConfig config = config_of_shape<Shape>();
  std::vector<Wanted> qkv;
  add_rows(qkv, kQuery, config.query_width());
  add_rows(qkv, kKey, config.kv_width());
  add_rows(qkv, kValue, config.kv_width());
  expect_plan(config, GemmMatrix::kQkv, {kQuery, kKey, kValue}, qkv, false);
  const auto expect_one = [&](GemmMatrix matrix, const std::vector<WeightRole>& roles, int32_t rows) {
    std::vector<Wanted> columns;
    add_rows(columns, roles[0], rows);
    expect_plan(config, matrix, roles, columns, roles.size() == 2);
  };
  expect_one(GemmMatrix::kOutput, {kOutput}, config.hidden_size);
  expect_one(GemmMatrix::kRouter, {kRouter}, config.experts);
  expect_one(GemmMatrix::kDenseUpGate, {kDenseGate, kDenseUp}, config.dense_width);
  expect_one(GemmMatrix::kDenseDown, {kDenseDown}, config.hidden_size);
  expect_one(GemmMatrix::kExpertUpGate, {kExpertGate, kExpertUp}, config.expert_width);
  expect_one(GemmMatrix::kExpertDown, {kExpertDown}, config.hidden_size);
}

TEST(GemmPlan, NorthFindsEveryElement) { expect_plans<NorthShape>(); }
TEST(GemmPlan, DemoFindsEveryElement) { expect_plans<DemoShape>(); }
TEST(GemmPlan, GoldenFindsEveryElement) { expect_plans<GoldenShape>(); }

// Lanes of neighbouring MMA rows load at the same time: 64 bytes each, which must lie in different halves of 128.
TEST(GemmPlan, NeighboursShareNoBanksWhereItIsHot) {
  for (GemmMatrix matrix : {GemmMatrix::kQkv, GemmMatrix::kExpertUpGate, GemmMatrix::kExpertDown}) {
    const auto plan = plan_gemm(config_of_shape<NorthShape>(), kWorkers, matrix);
    ASSERT_TRUE(plan.ok());
    for (const GemmTile& tile : plan->tiles)
      for (int32_t slot = 0; slot < kGemmRows; slot += 2) {
        if (slot % 16 >= 8 && tile.slots[slot].step == kTallStep) continue;  // loaded with rows g
        EXPECT_NE(tile.slots[slot].shared / 64 % 2, tile.slots[slot + 1].shared / 64 % 2) << plan->name << slot;
      }
  }
}

TEST(GemmPlan, CopiesOfAStageAreFew) {
  const ModelConfig config = config_of_shape<NorthShape>();
  const auto most = [&](GemmMatrix matrix) {
    const auto plan = plan_gemm(config, kWorkers, matrix).value();
    int32_t count = 0;
    for (const GemmTile& tile : plan.tiles) count = std::max(count, tile.copy_count);
    return count;
  };
  EXPECT_EQ(most(GemmMatrix::kOutput), 8);
  EXPECT_EQ(most(GemmMatrix::kQkv), 16);
  EXPECT_LE(most(GemmMatrix::kExpertUpGate), 24);
  EXPECT_EQ(most(GemmMatrix::kRouter), 32);
}

TEST(GemmPlan, NamesTheMatrixItCannotTake) {
  const auto plan = plan_gemm(config_of_shape<GoldenShape>(), 4, GemmMatrix::kExpertUpGate);  // tall units
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("expert gate and up"), std::string::npos) << plan.error().message;
}

}  // namespace
}  // namespace boreas::cuda
