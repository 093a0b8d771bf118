// Experts and rows as full shapes have them: choices of more than 32 experts, several flushes of an op, units that do
// not fit one; and a worker with one expert. The checkpoints of the other tests have two experts a worker and 16 at
// most.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "distance.h"
#include "emulated_machine.h"
#include "exec/cpu/cpu_executor.h"

namespace boreas {
namespace {

struct ManyExperts {
  [[maybe_unused]] static constexpr const char* kName = "many experts";
  static constexpr int32_t kHidden = 1024, kQueryHeads = 4, kKvHeads = 2, kExpertWidth = 64, kDenseWidth = 128,
                           kExperts = 128, kExpertsPerToken = 6, kVocabulary = 512;
};
// A router of one row a worker, whose pieces fill a chunk, or of one piece that is not full.
struct ExpertAWorker {
  [[maybe_unused]] static constexpr const char* kName = "an expert a worker";
  static constexpr int32_t kHidden = 2048, kQueryHeads = 4, kKvHeads = 2, kExpertWidth = 64, kDenseWidth = 128,
                           kExperts = 3, kExpertsPerToken = 2, kVocabulary = 512;
};
struct NarrowExpertAWorker : ExpertAWorker {
  [[maybe_unused]] static constexpr const char* kName = "an expert a worker, narrow";
  static constexpr int32_t kHidden = 256;
};
// Of inner vectors a third makes the first part, as in North: a hidden row is shorter than a row's inner vectors.
struct WideExperts : ManyExperts {
  [[maybe_unused]] static constexpr const char* kName = "wide experts";
  static constexpr int32_t kHidden = 256, kExpertWidth = 128;
};
constexpr int32_t kLayers = 2, kRows = 8, kSteps = 2;

// Against the CPU executor, and the first and last row bit for bit against themselves alone.
template <class Shape>
void check_rows() {
  using C = cuda::Cut<Shape, 3>;
  ModelConfig config = cuda::config_of_shape<Shape>(*model_shape("tiny"));
  config.window = 16;
  config.context_max = 4096;
  config.layers.resize(kLayers);
  const auto model = *make_dummy_model(config);
  Machine<C> machine(model, 32), lone(model, 32);
  CpuExecutorOptions options;
  options.threads = 1;
  options.context_max = config.context_max;
  std::vector<std::vector<TokenId>> tokens(kRows);
  std::vector<std::vector<float>> expected;
  for (size_t row = 0; row < kRows; ++row) {
    Prng prng(1100 + row);
    for (int32_t step = 0; step < kSteps; ++step)
      tokens[row].push_back(static_cast<TokenId>(prng.below(Shape::kVocabulary)));
    const auto traced = trace_cpu_forward(model, tokens[row], 8, options);
    ASSERT_TRUE(traced.ok()) << traced.error().message;
    expected.push_back(traced->logits);
  }
  for (int32_t step = 0; step < kSteps; ++step) {
    std::vector<typename Machine<C>::Row> rows;
    for (int32_t row = 0; row < kRows; ++row)
      rows.push_back({row, step, tokens[static_cast<size_t>(row)][static_cast<size_t>(step)]});
    const auto together = machine.run(rows, 11 + static_cast<uint64_t>(step));
    ASSERT_EQ(together.outcome, emulation::Outcome::kFinished) << together.message;
    for (size_t row = 0; row < kRows; ++row) {
      const size_t first = static_cast<size_t>(step) * Shape::kVocabulary;
      const std::span<const float> wanted(expected[row].data() + first, Shape::kVocabulary);
      EXPECT_LT(distance(machine.logits(row), wanted), bf16_distance(kLayers)) << "row " << row << " step " << step;
    }
    for (size_t row : {size_t{0}, size_t{kRows - 1}}) {
      const auto alone = lone.run({rows[row]}, 0);
      ASSERT_EQ(alone.outcome, emulation::Outcome::kFinished) << alone.message;
      EXPECT_EQ(lone.logits(0), machine.logits(row)) << "row " << row << " step " << step;
    }
  }
}

TEST(Routes, ManyRowsOfManyExperts) { check_rows<ManyExperts>(); }
TEST(Routes, InnerVectorsOfWhichAThirdComesFirst) { check_rows<WideExperts>(); }
TEST(Routes, ManyRowsOfAnExpertAWorker) { check_rows<ExpertAWorker>(); }
TEST(Routes, ManyRowsOfANarrowExpertAWorker) { check_rows<NarrowExpertAWorker>(); }

}  // namespace
}  // namespace boreas
