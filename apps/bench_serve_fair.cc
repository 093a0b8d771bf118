#include "bench_serve_fair.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "bench_support.h"

namespace boreas {

namespace {

constexpr int32_t kRuns = 3;
constexpr uint64_t kFirstSeed = 999;  // of the run that warms up

// points: of one number of rows, in any order.
double step_seconds(std::vector<DecodePoint> points, double bytes) {
  CHECK(!points.empty());
  const auto fewer = [](const DecodePoint& a, const DecodePoint& b) { return a.bytes < b.bytes; };
  std::sort(points.begin(), points.end(), fewer);
  const auto above =
      std::find_if(points.begin(), points.end(), [bytes](const DecodePoint& point) { return point.bytes >= bytes; });
  if (above == points.begin() || above == points.end()) {
    const DecodePoint& end = above == points.end() ? points.back() : points.front();
    return end.step_s * bytes / end.bytes;
  }
  const DecodePoint& below = *(above - 1);  // reads fewer bytes than `bytes`, so fewer than `above`
  return below.step_s + (above->step_s - below.step_s) * (bytes - below.bytes) / (above->bytes - below.bytes);
}

std::optional<double> seconds_of_rows(const std::vector<DecodePoint>& points, double rows, double bytes) {
  std::vector<DecodePoint> of_rows;
  for (const DecodePoint& point : points)
    if (point.rows == rows && point.bytes > 0) of_rows.push_back(point);
  if (of_rows.empty()) return std::nullopt;
  return step_seconds(std::move(of_rows), bytes);
}

}  // namespace

std::optional<DecodeWork> decode_work(const EngineStats& before, const EngineStats& after) {
  const DecodeReads &from = before.decode_reads, &to = after.decode_reads;
  if (to.steps <= from.steps || to.rows <= from.rows) return std::nullopt;
  const auto steps = static_cast<double>(to.steps - from.steps), rows = static_cast<double>(to.rows - from.rows);
  DecodeWork work;
  work.rows = rows / steps;
  work.positions = static_cast<double>(to.positions - from.positions) / rows;
  work.experts = static_cast<double>(to.distinct_experts - from.distinct_experts) / steps;
  work.bytes = static_cast<double>(to.bytes - from.bytes) / steps;
  return work;
}

Result<std::vector<DecodePoint>> measure_points(Decode& decode, int32_t rows, int32_t steps) {
  std::vector<DecodePoint> points;
  for (int32_t kinds = rows; kinds >= 1; kinds /= 2) points.push_back({rows, kinds});
  std::vector<std::vector<double>> seconds(points.size());
  // In turn, so that what else the machine does meets all points alike. The first run warms up.
  for (int32_t run = 0; run <= kRuns; ++run) {
    for (size_t i = 0; i < points.size(); ++i) {
      DecodePoint& point = points[i];
      const uint64_t seed = kFirstSeed + static_cast<uint64_t>(run);
      ASSIGN_OR_RETURN(const DecodeRun done, decode.rows.run(seed, {rows, point.kinds}));
      if (run == 0) continue;
      seconds[i].push_back(done.seconds / steps);
      point.bytes += static_cast<double>(done.bytes) / steps / kRuns;
      point.experts += static_cast<double>(done.distinct_experts) / steps / kRuns;
    }
  }
  for (size_t i = 0; i < points.size(); ++i) points[i].step_s = spread_of(std::move(seconds[i])).median;
  return points;
}

std::optional<double> equal_work_seconds(const std::vector<DecodePoint>& points, const DecodeWork& work) {
  const double fewer = std::floor(work.rows), part = work.rows - fewer;
  const std::optional<double> least = seconds_of_rows(points, fewer, work.bytes);
  if (!least || part == 0) return least;
  const std::optional<double> most = seconds_of_rows(points, fewer + 1, work.bytes);
  if (!most) return std::nullopt;
  return *least + part * (*most - *least);
}

std::optional<double> equal_work_percent(const std::vector<DecodePoint>& points, const ServedDecode& served) {
  const std::optional<double> seconds = equal_work_seconds(points, served.work);
  if (!seconds) return std::nullopt;
  return 100 * *seconds * served.steps_s();
}

}  // namespace boreas
