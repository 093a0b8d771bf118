// See bench_report.h.
#include "bench_report.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "bench_plot.h"

namespace boreas {
namespace {

constexpr const char* kBegin = "<!-- report: begin, written by boreas bench report -->\n";
constexpr const char* kEnd = "<!-- report: end -->\n";

struct ReportFlags {
  std::string results_dir = "bench/results", device, svg, document;
};

template <class... Args>
std::string formatted(const char* format, Args... args) {
  char buffer[1024];
  std::snprintf(buffer, sizeof buffer, format, args...);
  return buffer;
}

// Of the whole design in the line's own run. None is told of an untuned arm.
std::optional<double> loss_percent(const RecordedDecode& line) {
  if (line.is_whole() || line.tok_s_with == 0 || reaches_too_little(line)) return std::nullopt;
  return line.loss_percent();
}

// A text as the content of a Markdown table's cell.
std::string cell_of(const std::string& text) {
  std::string cell;
  for (char c : text) {
    if (c == '|' || c == '\\' || c == '<' || c == '`' || c == '*' || c == '_' || c == '[') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string markdown_table(const std::vector<RecordedDecode>& newest) {
  std::string text = "| " + cell_of(newest.front().device) +
                     " | batch | tokens/s | of the limit | loss | commit |\n|---|---:|---:|---:|---:|---|\n";
  for (int32_t batch : kReportBatchesOfParts) {
    for (const RecordedDecode& line : arms_and_parts(newest, batch)) {
      const std::optional<double> loss = loss_percent(line);
      text += "| " + cell_of(title_of(line)) +
              formatted(" | %d | %.0f | %.1f %% | ", line.batch, line.tok_s, line.percent_of_limit) +
              (loss ? formatted("%.1f %%", *loss) : std::string(reaches_too_little(line) ? "untuned" : "")) + " | " +
              cell_of(line.commit) + " |\n";
    }
  }
  return text;
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.good() && !file.eof()) return Error{"cannot read " + path};
  return text.str();
}

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return Error{"cannot write " + path};
  return Ok{};
}

Status run_report(const ReportFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<RecordedDecode> lines, read_results(flags.results_dir));
  ASSIGN_OR_RETURN(const std::vector<RecordedDecode> newest, newest_of_device(lines, flags.device));
  std::cout << report_table(newest);
  if (!flags.svg.empty()) RETURN_IF_ERROR(write_text(flags.svg, draw_results_svg(newest)));
  if (flags.document.empty()) return Ok{};
  ASSIGN_OR_RETURN(const std::string document, read_text(flags.document));
  const Result<std::string> filled = with_report(document, newest);
  if (!filled.ok()) return Error{flags.document + ": " + filled.error().message};
  return write_text(flags.document, *filled);
}

}  // namespace

std::string report_table(const std::vector<RecordedDecode>& newest) {
  std::string text = newest.front().device + "; commit " + commits_of(newest) + "\n\n";
  text += formatted("%-42s %6s %8s %8s %17s %9s %7s %7s  %s\n", "", "batch", "context", "tok/s", "least - most",
                    "of limit", "loss", "GB/s", "commit");
  for (const RecordedDecode& line : newest) {
    const std::optional<double> loss = loss_percent(line);
    text += formatted("%-42s %6d %8d %8.1f %17s %7.1f %% %7s %7.0f  %s%s\n", title_of(line).c_str(), line.batch,
                      line.context, line.tok_s, formatted("%.1f - %.1f", line.tok_s_min, line.tok_s_max).c_str(),
                      line.percent_of_limit, loss ? formatted("%.1f %%", *loss).c_str() : "", line.read_gb_s,
                      line.commit.c_str(), reaches_too_little(line) ? "  untuned: no gain counts against it" : "");
  }
  return text;
}

Result<std::string> with_report(const std::string& document, const std::vector<RecordedDecode>& newest) {
  const size_t begin = document.find(kBegin), end = document.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return Error{std::string("expected a line ") + std::string(kBegin, std::string(kBegin).size() - 1) +
                 " and after it a line " + std::string(kEnd, std::string(kEnd).size() - 1)};
  return document.substr(0, begin) + kBegin + markdown_table(newest) + document.substr(end);
}

void add_report_bench(Command bench, const std::function<void(const Status&)>& finish) {
  const Command report =
      bench.add_subcommand("report", "recorded decode figures as a table and a picture: arms, contexts, parts");
  const auto flags = std::make_shared<ReportFlags>();
  report.add_option("--results", flags->results_dir, "folder whose .ndjson files are read").show_default();
  report.add_option("--device", flags->device,
                    "part of the device's name; without it, the device with most decode lines");
  report.add_option("--svg", flags->svg, "draw them to this file");
  report.add_option("--document", flags->document,
                    "write the table of arms and parts into this Markdown file, between its two report marks");
  report.callback([=] { finish(run_report(*flags)); });
}

}  // namespace boreas
