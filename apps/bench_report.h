// boreas bench report: recorded decode lines as a table, a picture, and the table of arms and parts in a document.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_results.h"
#include "command_line.h"

namespace boreas {

void add_report_bench(Command bench, const std::function<void(const Status&)>& finish);

// Every line with what it loses against the whole design, for a terminal. newest: of one device, not empty.
std::string report_table(const std::vector<RecordedDecode>& newest);

// The document with the Markdown table of arms and parts in place of what stands between its marks. Error: no marks.
Result<std::string> with_report(const std::string& document, const std::vector<RecordedDecode>& newest);

}  // namespace boreas
