// What served decode steps did, and how long decode in process takes for as much. Tokens a second alone cannot be
// compared: streams of made-up weights come to agree and hit the same experts, and a step that reads less is shorter.
// So decode in process is measured with rows that share experts to several degrees, and asked for the time of a step
// that reads as many bytes for as many rows. A part of `boreas bench serve --all`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "bench_decode.h"
#include "engine/engine.h"

namespace boreas {

// A step on average.
struct DecodeWork {
  double rows = 0;
  double positions = 0;  // a row
  double experts = 0;    // over layers
  double bytes = 0;
};
// Between two looks. None: no step decoded and nothing else, or the executor does not count.
std::optional<DecodeWork> decode_work(const EngineStats& before, const EngineStats& after);

// Decode in process, of so many rows that went so many ways.
struct DecodePoint {
  int32_t rows = 0, kinds = 0;
  double step_s = 0;  // by the clock on the wall, not the device's
  double bytes = 0;   // a step
  double experts = 0;

  double tok_s() const { return rows / step_s; }
  double gb_s() const { return bytes / step_s / 1e9; }
};
// For a number of rows: all going different ways, half as many ways, and so on to one.
Result<std::vector<DecodePoint>> measure_points(Decode& decode, int32_t rows, int32_t steps);

// Seconds that decode in process takes for such a step. Between points of one number of rows on the line through them;
// below and above at the bandwidth of the point there. A number of rows that is not whole: in proportion between the
// two beside it. None: no point of those rows.
std::optional<double> equal_work_seconds(const std::vector<DecodePoint>& points, const DecodeWork& work);

// Served decode: so many tokens a second in steps of such work.
struct ServedDecode {
  DecodeWork work;
  double tok_s = 0;

  double steps_s() const { return tok_s / work.rows; }
  double gb_s() const { return work.bytes * steps_s() / 1e9; }
};
// The time that decode in process takes for what was served, of the time that serving took; in percent.
std::optional<double> equal_work_percent(const std::vector<DecodePoint>& points, const ServedDecode& served);

}  // namespace boreas
