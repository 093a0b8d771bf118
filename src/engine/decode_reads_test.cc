// What decode steps read, from the executor's result to the engine's statistics.
#include "engine/core_testing.h"
#include "exec/fake/fake_executor.h"

namespace boreas {
namespace {

class DecodeReadsTest : public CoreFixture<FakeExecutor, FakeOptions> {
 protected:
  static constexpr int64_t kStepBytes = 1'000'000, kPositionBytes = 7;
  static constexpr int32_t kRowExperts = 3;

  DecodeReadsTest() {
    fake.step_bytes = kStepBytes;
    fake.position_bytes = kPositionBytes;
    fake.row_experts = kRowExperts;
  }
  // The other sums follow from steps, rows and positions.
  void expect_consistent(const DecodeReads& reads) {
    EXPECT_EQ(reads.distinct_experts, kRowExperts * reads.rows);
    EXPECT_EQ(reads.bytes, kStepBytes * reads.steps + kPositionBytes * reads.positions);
  }
};

TEST_F(DecodeReadsTest, EveryDecodeStepOfALoneSequence) {
  add(request(10, 5));
  finish_all();
  const DecodeReads reads = core().stats().decode_reads;
  EXPECT_EQ(reads.steps, 4) << "the prompt's step made the first token";
  EXPECT_EQ(reads.rows, 4);
  EXPECT_EQ(reads.positions, 11 + 12 + 13 + 14);
  expect_consistent(reads);
}

TEST_F(DecodeReadsTest, StepsWithPrefillAreLeftOut) {
  add(request(10, 30));
  for (int step = 0; step < 6; ++step) core().step();
  add(request(100, 4));
  finish_all();
  const EngineStats stats = core().stats();
  EXPECT_EQ(stats.decode_rows, 29 + 3);
  EXPECT_EQ(stats.decode_steps, 29);
  EXPECT_EQ(stats.decode_reads.steps, 28) << "beside the second prompt one row decoded";
  EXPECT_EQ(stats.decode_reads.rows, 28 + 3);
  expect_consistent(stats.decode_reads);
}

TEST_F(DecodeReadsTest, NothingWhereTheExecutorDoesNotCount) {
  fake.step_bytes = 0;
  add(request(10, 5));
  finish_all();
  EXPECT_EQ(core().stats().decode_steps, 4);
  EXPECT_EQ(core().stats().decode_reads.steps, 0);
  EXPECT_EQ(core().stats().decode_reads.rows, 0);
  EXPECT_EQ(core().stats().decode_reads.bytes, 0);
}

}  // namespace
}  // namespace boreas
