// The products of prefill on a GPU: every one, on all compiled shapes, against plain double-precision sums; and a row's
// bits, whatever else is in the batch. Without a usable GPU the cases are skipped, saying why.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/prefill/operand.h"
#include "exec/cuda/shape_testing.h"
#include "tests/gpu/prefill_gemm_case.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kTokensMax = 4096;
constexpr int32_t kGuardRows = 3;  // behind Y: must stay as they were
constexpr int kPoison = 0xff;      // NaN in both types
const std::vector<int32_t> kTokenCounts = {1, 2, 7, 64, 65, 333, 4096};
const std::vector<GemmMatrix> kDense = {GemmMatrix::kQkv, GemmMatrix::kOutput, GemmMatrix::kRouter,
                                        GemmMatrix::kDenseUpGate, GemmMatrix::kDenseDown};
const std::vector<GemmMatrix> kGrouped = {GemmMatrix::kExpertUpGate, GemmMatrix::kExpertDown};

// An element of Y as it lies, with its bits.
struct Element {
  float value;
  uint32_t bits;
};
class Output {
 public:
  Output(const PrefillGemmCase& c, GemmMatrix matrix, int32_t rows)
      : case_(c), matrix_(matrix), rows_(rows), columns_(c.columns(matrix)), buffer_(bytes(rows + kGuardRows)) {
    buffer_.fill(kPoison);
  }
  void* device() const { return buffer_.as<void>(); }
  void fetch() {
    finish_gpu_work();
    host_ = buffer_.get<std::byte>(0, buffer_.bytes());
  }
  Element at(int32_t row, int32_t column) const {
    const int32_t place = case_.is_swiglu(matrix_) ? operand_column(column) : column;
    const std::byte* from = host_.data() + bytes(row) + static_cast<size_t>(place * case_.y_bytes(matrix_));
    if (!case_.is_floats(matrix_)) {
      bf16 half;
      std::memcpy(&half, from, sizeof(half));
      return {bf16_to_float(half), half};
    }
    Element element{};
    std::memcpy(&element.value, from, 4);
    std::memcpy(&element.bits, from, 4);
    return element;
  }
  bool same_row(int32_t row, const Output& other, int32_t other_row) const {
    return std::memcmp(host_.data() + bytes(row), other.host_.data() + bytes(other_row), bytes(1)) == 0;
  }
  void expect_guards() const {
    for (size_t i = bytes(rows_); i < host_.size(); ++i) ASSERT_EQ(host_[i], std::byte{kPoison}) << "behind Y, " << i;
  }

 private:
  size_t bytes(int32_t rows) const {
    return static_cast<size_t>(rows) * static_cast<size_t>(columns_ * case_.y_bytes(matrix_));
  }
  const PrefillGemmCase& case_;
  GemmMatrix matrix_;
  int32_t rows_, columns_;
  GpuBuffer buffer_;
  std::vector<std::byte> host_;
};

// fp32 sums over MMAs of 16 columns: each adds at most two ulps (the unit truncates) of what has been summed, which the
// sum of magnitudes bounds.
double sum_tolerance(const ExactSum& sum, int32_t k) { return sum.magnitude * (k / 16 + 1) * 0x1p-22; }
constexpr double kHalfRounding = 0x1p-8;

void expect_rows(const PrefillGemmCase& c, GemmMatrix matrix, const Output& y, const std::vector<int32_t>& y_rows,
                 const std::vector<int32_t>& x_rows, const std::vector<int32_t>& experts) {
  const std::vector<ExactSum> sums = c.exact(matrix, x_rows, experts);
  const int32_t columns = c.columns(matrix), k = c.k(matrix);
  double worst = 0;
  for (size_t i = 0; i < y_rows.size(); ++i)
    for (int32_t column = 0; column < columns; ++column) {
      const size_t at = i * static_cast<size_t>(columns) + static_cast<size_t>(column);
      double want = sums[at].value, tolerance = sum_tolerance(sums[at], k);
      if (c.is_swiglu(matrix)) {
        const ExactSum& up = sums[at + y_rows.size() * static_cast<size_t>(columns)];
        const double silu = want / (1 + std::exp(-want));
        // |silu'| < 1.1; ex2 and division are good to 2^-20.
        tolerance = 1.1 * tolerance * std::abs(up.value) + std::abs(silu) * sum_tolerance(up, k) +
                    std::abs(silu * up.value) * 0x1p-20;
        want = silu * up.value;
      }
      if (!c.is_floats(matrix)) tolerance += std::abs(want) * kHalfRounding;
      const double got = y.at(y_rows[i], column).value;
      ASSERT_LE(std::abs(got - want), tolerance + 1e-30)
          << "row " << y_rows[i] << " column " << column << ": " << got << ", expected " << want;
      worst = std::max(worst, std::abs(got - want) / (tolerance + 1e-30));
    }
  testing::Test::RecordProperty("worst", std::to_string(worst));
}

// All rows of a small batch; of a large one those at its ends, at the ends of tiles, and some more.
std::vector<int32_t> some_rows(int32_t rows, std::mt19937& random) {
  std::vector<int32_t> some;
  if (rows <= 80) {
    for (int32_t row = 0; row < rows; ++row) some.push_back(row);
    return some;
  }
  for (int32_t row : {0, 1, 63, 64, 127, 128, 255, 256, rows - 1, rows - 2}) some.push_back(std::min(row, rows - 1));
  while (some.size() < 64) some.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(rows)));
  return some;
}

class PrefillGemm : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Status usable = check_gpu(0);
    if (!usable.ok()) GTEST_SKIP() << usable.error().message;
    const std::string name = GetParam();
    const ModelConfig config = name == "north"  ? config_of_shape<NorthShape>()
                               : name == "demo" ? config_of_shape<DemoShape>()
                                                : config_of_shape<GoldenShape>();
    case_ = std::make_unique<PrefillGemmCase>(config, kTokensMax, 1);
  }
  ExpertGroups on_gpu(const MadeGroups& groups) {
    lists_.clear();
    for (const std::vector<int32_t>* list : {&groups.first, &groups.tokens}) {
      lists_.push_back(std::make_unique<GpuBuffer>(list->size() * 4));
      lists_.back()->set(list->data(), list->size() * 4);
    }
    return {lists_[0]->as<int32_t>(), lists_[1]->as<int32_t>(), groups.first.back()};
  }
  MadeGroups groups_of(int32_t tokens, uint32_t seed) const {
    return make_groups(tokens, case_->config().experts, case_->config().experts_per_token, seed);
  }
  std::unique_ptr<PrefillGemmCase> case_;
  std::vector<std::unique_ptr<GpuBuffer>> lists_;
};

int32_t expert_of(const MadeGroups& groups, int32_t assignment) {
  const auto next = std::upper_bound(groups.first.begin(), groups.first.end(), assignment);
  return static_cast<int32_t>(next - groups.first.begin()) - 1;
}

TEST_P(PrefillGemm, DenseProductsEqualExactSums) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (GemmMatrix matrix : kDense)
    for (int32_t tokens : kTokenCounts) {
      SCOPED_TRACE(testing::Message() << "matrix " << int(matrix) << ", " << tokens << " tokens");
      Output y(*case_, matrix, tokens);
      const Status run = case_->run(matrix, tokens, 0, y.device());
      ASSERT_TRUE(run.ok()) << run.error().message;
      y.fetch();
      y.expect_guards();
      const std::vector<int32_t> rows = some_rows(tokens, random);
      expect_rows(*case_, matrix, y, rows, rows, std::vector<int32_t>(rows.size(), 0));
      if (HasFatalFailure()) return;
    }
}

TEST_P(PrefillGemm, GroupedProductsEqualExactSums) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (GemmMatrix matrix : kGrouped)
    for (int32_t tokens : kTokenCounts) {
      SCOPED_TRACE(testing::Message() << "matrix " << int(matrix) << ", " << tokens << " tokens");
      const MadeGroups groups = groups_of(tokens, static_cast<uint32_t>(random()));
      const int32_t assignments = groups.first.back();
      Output y(*case_, matrix, assignments);
      ExpertGroups lists = on_gpu(groups);
      if (random() % 2 == 0) lists.assignments = 0;  // not known: tiles are as wide as can be
      const Status run = case_->run_grouped(matrix, lists, y.device());
      ASSERT_TRUE(run.ok()) << run.error().message;
      y.fetch();
      y.expect_guards();
      const std::vector<int32_t> rows = some_rows(assignments, random);
      std::vector<int32_t> x_rows, experts;
      for (int32_t row : rows) {
        x_rows.push_back(matrix == GemmMatrix::kExpertUpGate ? groups.tokens[static_cast<size_t>(row)] : row);
        experts.push_back(expert_of(groups, row));
      }
      expect_rows(*case_, matrix, y, rows, x_rows, experts);
      if (HasFatalFailure()) return;
    }
}

// The same rows in batches of any size and at any place: equal bits.
TEST_P(PrefillGemm, DenseRowsDoNotDependOnTheBatch) {
  for (GemmMatrix matrix : kDense) {
    case_->make_x(matrix, 0);
    Output all(*case_, matrix, kTokensMax);
    ASSERT_TRUE(case_->run(matrix, kTokensMax, 0, all.device()).ok());
    all.fetch();
    for (int32_t tokens : {1, 2, 7, 63, 65, 130, 200, 333, 700, 1500})
      for (int32_t first : {0, 1, 1000, 2500}) {
        case_->make_x(matrix, first);
        Output some(*case_, matrix, tokens);
        ASSERT_TRUE(case_->run(matrix, tokens, 0, some.device()).ok());
        some.fetch();
        for (int32_t row = 0; row < tokens; ++row)
          ASSERT_TRUE(some.same_row(row, all, first + row))
              << "matrix " << int(matrix) << ": row " << first + row << " as row " << row << " of " << tokens;
      }
    case_->make_x(matrix, 0);
  }
}

// A token with an expert, among others or not: equal bits. For down the row of X is the assignment's own.
TEST_P(PrefillGemm, GroupedRowsDoNotDependOnTheGroups) {
  const MadeGroups every = groups_of(kTokensMax, 5);
  Output all(*case_, GemmMatrix::kExpertUpGate, every.first.back());
  ASSERT_TRUE(case_->run_grouped(GemmMatrix::kExpertUpGate, on_gpu(every), all.device()).ok());
  all.fetch();
  for (int32_t keep : {2, 3, 10, 100, 1000}) {  // every keep-th assignment
    MadeGroups fewer;
    std::vector<int32_t> place;
    for (int32_t assignment = 0, expert = -1; assignment < every.first.back(); ++assignment) {
      for (; every.first[static_cast<size_t>(expert) + 1] <= assignment; ++expert)
        fewer.first.push_back(static_cast<int32_t>(place.size()));
      if (assignment % keep != 0) continue;
      fewer.tokens.push_back(every.tokens[static_cast<size_t>(assignment)]);
      place.push_back(assignment);
    }
    while (fewer.first.size() < every.first.size()) fewer.first.push_back(static_cast<int32_t>(place.size()));
    Output some(*case_, GemmMatrix::kExpertUpGate, fewer.first.back());
    ASSERT_TRUE(case_->run_grouped(GemmMatrix::kExpertUpGate, on_gpu(fewer), some.device()).ok());
    some.fetch();
    for (size_t row = 0; row < place.size(); ++row)
      ASSERT_TRUE(some.same_row(static_cast<int32_t>(row), all, place[row])) << "one of " << keep << ", row " << row;
  }
}

TEST_P(PrefillGemm, AllTokensInOneExpertAndNoTokensAtAll) {
  const int32_t experts = case_->config().experts;
  MadeGroups none, one;
  none.first.assign(static_cast<size_t>(experts) + 1, 0);
  none.tokens.assign(1, 0);
  one.first = none.first;
  one.first[static_cast<size_t>(experts)] = 1000;
  for (int32_t i = 0; i < 1000; ++i) one.tokens.push_back(kTokensMax - 1 - i);
  for (GemmMatrix matrix : kGrouped) {
    Output nothing(*case_, matrix, 0), y(*case_, matrix, 1000);
    ASSERT_TRUE(case_->run_grouped(matrix, on_gpu(none), nothing.device()).ok());
    nothing.fetch();
    nothing.expect_guards();
    ASSERT_TRUE(case_->run_grouped(matrix, on_gpu(one), y.device()).ok());
    y.fetch();
    y.expect_guards();
    const std::vector<int32_t> rows = {0, 255, 256, 511, 767, 768, 999};
    std::vector<int32_t> x_rows;
    for (int32_t row : rows)
      x_rows.push_back(matrix == GemmMatrix::kExpertUpGate ? one.tokens[static_cast<size_t>(row)] : row);
    expect_rows(*case_, matrix, y, rows, x_rows, std::vector<int32_t>(rows.size(), experts - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PrefillGemm, testing::Values("golden", "demo", "north"),
                         [](const auto& shape) { return std::string(shape.param); });

}  // namespace
}  // namespace boreas::cuda
