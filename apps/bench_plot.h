// The picture of recorded decode lines, as SVG text: the megakernel's share of the bandwidth limit by batch size and by
// context, and bars of arms and of the design's parts. For `boreas bench report`; docs/performance.svg is one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_results.h"

namespace boreas {

constexpr int32_t kReportContext = 8192;             // at which batch sizes, arms and parts are compared
constexpr int32_t kReportBatchesOfParts[] = {1, 8};  // at which arms and parts are

// Whether it is an untuned arm (bench_figures.h).
bool reaches_too_little(const RecordedDecode& line);

// How tables and plots call what a line measured: the megakernel, an arm, or without what.
std::string title_of(const RecordedDecode& line);

// What arms and parts are compared by: lines of kReportContext and a batch size of the above, one title after another.
std::vector<RecordedDecode> arms_and_parts(const std::vector<RecordedDecode>& newest, int32_t batch);

// The commits of these lines, that of the newest line first; the first few by name.
std::string commits_of(const std::vector<RecordedDecode>& lines);

// newest: of one device, as newest_of_device() has them; not empty. Well-formed XML whatever their texts hold; readable
// on light and dark pages, since it brings its background along.
std::string draw_results_svg(const std::vector<RecordedDecode>& newest);

}  // namespace boreas
