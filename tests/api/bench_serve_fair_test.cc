// What was served beside decode in process: the arithmetic of equal work, and goals.
#include "apps/bench_serve_fair.h"

#include <gtest/gtest.h>

#include "apps/bench_serve_all.h"
#include "apps/bench_serve_list.h"
#include "model/model.h"

namespace boreas {
namespace {

DecodePoint point_of(int32_t rows, int32_t kinds, double step_s, double gb) {
  DecodePoint point;
  point.rows = rows;
  point.kinds = kinds;
  point.step_s = step_s;
  point.bytes = gb * 1e9;
  return point;
}

DecodeWork work_of(double rows, double gb) {
  DecodeWork work;
  work.rows = rows;
  work.bytes = gb * 1e9;
  return work;
}

// Eight rows: 2 ms, and 1 ms every 5 GB; seven: 1 ms less.
std::vector<DecodePoint> seven_and_eight() {
  return {point_of(8, 8, 8e-3, 30), point_of(8, 4, 6e-3, 20), point_of(8, 1, 4e-3, 10),
          point_of(7, 7, 7e-3, 30), point_of(7, 3, 5e-3, 20), point_of(7, 1, 3e-3, 10)};
}

TEST(ServeBenchFair, TheWorkOfAStepIsTheMeanBetweenTwoLooks) {
  EngineStats before, after;
  before.decode_reads = {100, 100, 1000, 800, 5'000'000};
  after.decode_reads = {104, 130, 7000, 1200, 6'000'000};
  const std::optional<DecodeWork> work = decode_work(before, after);
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->rows, 7.5);
  EXPECT_DOUBLE_EQ(work->positions, 200) << "a row";
  EXPECT_DOUBLE_EQ(work->experts, 100);
  EXPECT_DOUBLE_EQ(work->bytes, 250'000);
  EXPECT_FALSE(decode_work(after, after)) << "no step, no work";
  EXPECT_FALSE(decode_work(EngineStats{}, EngineStats{}));
}

TEST(ServeBenchFair, AStepTakesAsLongAsItsBytesTakeInProcess) {
  const std::vector<DecodePoint> points = seven_and_eight();
  const auto seconds = [&points](double rows, double gb) { return equal_work_seconds(points, work_of(rows, gb)); };
  ASSERT_TRUE(seconds(8, 20));
  EXPECT_DOUBLE_EQ(*seconds(8, 30), 8e-3);
  EXPECT_DOUBLE_EQ(*seconds(8, 20), 6e-3);
  EXPECT_DOUBLE_EQ(*seconds(8, 15), 5e-3) << "on the line between two points";
  EXPECT_DOUBLE_EQ(*seconds(8, 29), 7.8e-3);
  EXPECT_DOUBLE_EQ(*seconds(8, 5), 2e-3) << "below all at the bandwidth of the lowest";
  EXPECT_DOUBLE_EQ(*seconds(8, 60), 16e-3) << "above all at that of the highest";
  EXPECT_DOUBLE_EQ(*seconds(7, 15), 4e-3);
  EXPECT_NEAR(*seconds(7.75, 15), 4.75e-3, 1e-12) << "rows that are not whole: in proportion";
  EXPECT_FALSE(seconds(6, 15));
  EXPECT_FALSE(seconds(8.5, 15));
  EXPECT_FALSE(equal_work_seconds({}, work_of(8, 15)));
}

TEST(ServeBenchFair, APointThatReadNothingIsNone) {
  EXPECT_FALSE(equal_work_seconds({point_of(1, 1, 1e-3, 0)}, work_of(1, 1)));
}

// Streams that share experts are faster than rows that do not, and may still be served badly.
TEST(ServeBenchFair, TokensThatReadLessDoNotCountAsMuch) {
  const std::vector<DecodePoint> points = seven_and_eight();
  const double in_process = points.front().tok_s();
  EXPECT_DOUBLE_EQ(in_process, 1000);
  ServedDecode served{work_of(8, 10), 1600};
  EXPECT_GT(served.tok_s, in_process);
  ASSERT_TRUE(equal_work_percent(points, served));
  EXPECT_NEAR(*equal_work_percent(points, served), 80, 1e-9) << "steps of 5 ms, of which 4 would do";
  EXPECT_DOUBLE_EQ(served.gb_s(), 2000);
  EXPECT_DOUBLE_EQ(points.front().gb_s(), 3750);
  served = {work_of(8, 30), 950};
  EXPECT_NEAR(*equal_work_percent(points, served), 95, 1e-9) << "at the same work tokens a second are comparable";
  served = {work_of(7.5, 15), 7.5 / 5e-3};
  EXPECT_NEAR(*equal_work_percent(points, served), 90, 1e-9);
}

TEST(ServeBenchGoals, AreMetOrMissed) {
  EXPECT_TRUE(at_least(95).meets(95));
  EXPECT_FALSE(at_least(95).meets(94.99));
  EXPECT_TRUE(below(100).meets(99.99));
  EXPECT_FALSE(below(100).meets(100));
  EXPECT_TRUE(Goal{}.meets(-1));
  EXPECT_EQ(at_least(95).text(), "at least 95");
  EXPECT_EQ(below(120).text(), "below 120");
  EXPECT_EQ(Goal{}.text(), "");
}

struct Finished {
  Status status;
  std::string out;
};
Finished finish(double percent, bool goals_bind, const char* problem = nullptr) {
  ::testing::internal::CaptureStdout();
  FigureList list;
  list.show("speed", percent, at_least(95));
  list.show("no goal", 1.0);
  if (problem != nullptr) list.add_problem(problem);
  const Status status = list.finish(goals_bind, "");
  return {status, ::testing::internal::GetCapturedStdout()};
}

TEST(ServeBenchGoals, AMissedOneIsAnErrorWhereGoalsBind) {
  EXPECT_TRUE(finish(95, true).status.ok());
  const Finished bound = finish(80, true), loose = finish(80, false), bad = finish(80, true, "a request failed");
  ASSERT_FALSE(bound.status.ok());
  EXPECT_NE(bound.status.error().message.find("speed: 80.00, wanted at least 95"), std::string::npos);
  EXPECT_TRUE(loose.status.ok());
  for (const Finished& finished : {bound, loose}) {
    EXPECT_NE(finished.out.find("at least 95: missed"), std::string::npos) << finished.out;
    EXPECT_NE(finished.out.find("\"missed\":[\"speed"), std::string::npos) << finished.out;
  }
  ASSERT_FALSE(bad.status.ok());
  EXPECT_NE(bad.status.error().message.find("a request failed"), std::string::npos);
}

TEST(ServeBenchGoals, AreForMadeUpWeightsOfTheFullShapeOnAGpu) {
  const Result<ModelConfig> full = model_shape("north"), small = model_shape("bench");
  ASSERT_TRUE(full.ok() && small.ok());
  EXPECT_TRUE(goals_are_for("cuda", true, *full));
  EXPECT_TRUE(goals_are_for("cuda:1", true, *full));
  EXPECT_FALSE(goals_are_for("cpu", true, *full));
  EXPECT_FALSE(goals_are_for("cuda", false, *full));
  EXPECT_FALSE(goals_are_for("cuda", true, *small));
}

}  // namespace
}  // namespace boreas
