// Decode lines of bench/results/*.ndjson, read back: which were recorded and the newest of each kind, for `boreas bench
// report`. Files are outside data: sizes and numbers are bounded, and what is wrong is told with file, line and field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boreas {

// A decode line of North's shape with made-up weights, whose rows went different ways and drew at temperature 1 over
// the whole vocabulary: the lines that may be compared with each other.
struct RecordedDecode {
  std::string device, commit, time;  // time: UTC, ISO 8601
  std::string arm, cut;              // cut: of the arms beside the megakernel
  std::string without;               // which part of the design was taken away; empty: none
  int32_t batch = 0, context = 0;
  double tok_s = 0, tok_s_min = 0, tok_s_max = 0;
  double percent_of_limit = 0, read_gb_s = 0;
  double tok_s_with = 0;  // of the whole design in the same run, of parts and arms; 0: none is known

  bool is_whole() const { return arm == "megakernel" && without.empty(); }
  double loss_percent() const { return 100 * (1 - tok_s / tok_s_with); }
};

// Appends the comparable decode lines of a file's text. Error: "name:line: field ...".
Status read_decode_lines(const std::string& name, std::string_view text, std::vector<RecordedDecode>& out);

// All .ndjson files of a folder, by name. Error: no such folder, no such file in it, or one of the above.
Result<std::vector<RecordedDecode>> read_results(const std::string& folder);

// The lines of the one device whose name contains `device` (empty: of that with most lines), the newest of each arm,
// cut, part taken away, batch and context; in that order, the megakernel first. An arm's tok_s_with is of the last
// megakernel line of its commit before it. Error: no line, or several devices fit.
Result<std::vector<RecordedDecode>> newest_of_device(const std::vector<RecordedDecode>& lines,
                                                     const std::string& device);

}  // namespace boreas
