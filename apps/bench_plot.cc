// See bench_plot.h. Two panels with points, and below them a row for each arm and part, with a column of bars a batch
// size:
//
//   by batch            by context
//   title 1     ======= batch 1        ======= batch 8
//   title 2     =====                  =====
#include "bench_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/check.h"
#include "bench_figures.h"

namespace boreas {
namespace {

constexpr double kWidth = 1000, kPanelTop = 116, kPanelBottom = 330, kBarsTop = 440, kRowHeight = 24, kBarHeight = 14;
constexpr double kGoalPercent = 80, kLabelDistance = 34;
constexpr size_t kCommitsShown = 4;

constexpr const char* kStyle =
    "<style>\n"
    "svg{font-family:Helvetica,Arial,sans-serif;font-size:12px}\n"
    ".page{fill:#ffffff}.ink{fill:#22272e}.muted{fill:#626b76}.grid{stroke:#e4e7eb}.axis{stroke:#8b949e}\n"
    ".goal{stroke:#b3541e;stroke-dasharray:5 3}.goaltext{fill:#b3541e}.line{stroke:#1f6feb;fill:none;stroke-width:2}\n"
    ".dot,.whole{fill:#1f6feb}.arm{fill:#8b949e}.part{fill:#6fa8e8}.untuned{fill-opacity:0.45}\n"
    ".title{font-size:16px;font-weight:bold}.head{font-weight:bold}.small{font-size:11px;paint-order:stroke;stroke:#"
    "ffffff;stroke-width:3px}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".page{fill:#161b22}.ink{fill:#e6edf3}.muted{fill:#9aa4af}.grid{stroke:#2b323b}.axis{stroke:#6e7781}\n"
    ".goal{stroke:#e58a4f}.goaltext{fill:#e58a4f}.line{stroke:#58a6ff}.dot,.whole{fill:#58a6ff}.part{fill:#35659c}\n"
    ".small{stroke:#161b22}\n"
    "}\n"
    "</style>\n";

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '\'') out += "&apos;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string formatted(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

// 1K is 1,024 positions.
std::string context_name(int32_t context) {
  return context < 1024 ? std::to_string(context) : std::to_string((context + 512) / 1024) + "K";
}

struct Panel {
  double left, right;
  double percent_low, percent_high;

  double y_of(double percent) const {
    const double share = (percent - percent_low) / (percent_high - percent_low);
    return kPanelBottom - share * (kPanelBottom - kPanelTop);
  }
};

struct Point {
  double x;  // 0 to 1, left to right
  std::string tick;
  const RecordedDecode* line;
};

class Plot {
 public:
  explicit Plot(const std::vector<RecordedDecode>& newest) : newest_(newest) {
    for (int32_t batch : kReportBatchesOfParts) columns_.push_back({batch, arms_and_parts(newest, batch)});
    for (const Column& column : columns_) {
      if (column.lines.size() < 2) continue;  // nothing beside the megakernel
      for (const RecordedDecode& line : column.lines)
        if (std::find(rows_.begin(), rows_.end(), title_of(line)) == rows_.end()) rows_.push_back(title_of(line));
    }
  }

  std::string draw() {
    const bool bars = !rows_.empty();
    const double height = bars ? kBarsTop + kRowHeight * static_cast<double>(rows_.size()) + 50 : kPanelBottom + 70;
    add("<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 %.0f %.0f' role='img'>\n",
        kWidth, height, kWidth, height);
    text_ += kStyle;
    text_ += "<rect class='page' width='100%' height='100%'/>\n";
    text(24, 30, "ink title", "start", "Decode: share of the memory bandwidth limit, %");
    text(24, 50, "muted", "start",
         newest_.front().device + "; North's shape, made-up weights, BF16, drawn at temperature 1; " +
             std::string("commit ") + commits_of(newest_));
    const std::vector<Point> batches = points_by_batch(), contexts = points_by_context();
    const double low = percent_low(batches, contexts), high = percent_high(batches, contexts);
    draw_panel({70, 470, low, high}, "Megakernel by batch size, context " + context_name(kReportContext), "batch size",
               batches);
    draw_panel({560, 960, low, high}, "Megakernel by context, batch 1", "positions before the step", contexts);
    if (bars) draw_bars();
    return text_ + "</svg>\n";
  }

 private:
  struct Column {
    int32_t batch;
    std::vector<RecordedDecode> lines;
  };

  template <class... Args>
  void add(const char* format, Args... args) {
    char buffer[512];
    std::snprintf(buffer, sizeof buffer, format, args...);
    text_ += buffer;
  }
  void text(double x, double y, const char* kind, const char* anchor, const std::string& words) {
    add("<text class='%s' x='%.1f' y='%.1f' text-anchor='%s'>", kind, x, y, anchor);
    text_ += escaped(words) + "</text>\n";
  }
  void line(const char* kind, double x1, double y1, double x2, double y2) {
    add("<line class='%s' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/>\n", kind, x1, y1, x2, y2);
  }

  // ---- points
  std::vector<Point> points_by_batch() const {
    std::vector<Point> points;
    for (const RecordedDecode& each : newest_)
      if (each.is_whole() && each.context == kReportContext && each.batch <= 8)
        points.push_back({(each.batch - 1) / 7.0, std::to_string(each.batch), &each});
    return points;
  }
  std::vector<Point> points_by_context() const {
    std::vector<Point> points;
    for (const RecordedDecode& each : newest_)
      if (each.is_whole() && each.batch == 1)
        points.push_back({std::log2(each.context), context_name(each.context), &each});
    if (points.empty()) return points;
    const double first = points.front().x, last = points.back().x;  // contexts ascend
    for (Point& point : points) point.x = last > first ? (point.x - first) / (last - first) : 0.5;
    return points;
  }
  static double percent_low(const std::vector<Point>& a, const std::vector<Point>& b) {
    double least = kGoalPercent;
    for (const auto* points : {&a, &b})
      for (const Point& point : *points) least = std::min(least, point.line->percent_of_limit);
    return std::max(0.0, std::floor((least - 8) / 10) * 10);
  }
  static double percent_high(const std::vector<Point>& a, const std::vector<Point>& b) {
    double most = 100;
    for (const auto* points : {&a, &b})
      for (const Point& point : *points) most = std::max(most, point.line->percent_of_limit);
    return std::ceil(most / 10) * 10;
  }

  void draw_panel(const Panel& panel, const std::string& title, const char* axis, const std::vector<Point>& points) {
    text(panel.left, kPanelTop - 34, "ink head", "start", title);
    text(panel.left, kPanelTop - 18, "muted small", "start", "above the line % of the limit, below it tokens/s");
    for (double percent = panel.percent_low; percent <= panel.percent_high; percent += 10) {
      line("grid", panel.left, panel.y_of(percent), panel.right, panel.y_of(percent));
      text(panel.left - 8, panel.y_of(percent) + 4, "muted small", "end", formatted("%.0f %%", percent));
    }
    line("axis", panel.left, kPanelBottom, panel.right, kPanelBottom);
    text((panel.left + panel.right) / 2, kPanelBottom + 36, "muted small", "middle", axis);
    const double goal = panel.y_of(kGoalPercent);
    line("goal", panel.left, goal, panel.right, goal);
    text(panel.right + 5, goal + 4, "goaltext small", "start", formatted("%.0f %%", kGoalPercent));
    if (points.empty()) text((panel.left + panel.right) / 2, kPanelTop + 40, "muted", "middle", "nothing recorded");
    const auto x_of = [&](const Point& point) { return panel.left + 34 + point.x * (panel.right - panel.left - 68); };
    std::string path;
    for (const Point& point : points)
      path += formatted("%.1f,", x_of(point)) + formatted("%.1f ", panel.y_of(point.line->percent_of_limit));
    if (points.size() > 1) text_ += "<polyline class='line' points='" + path + "'/>\n";
    double labelled = -1e9;
    for (const Point& point : points) {
      const double x = x_of(point), y = panel.y_of(point.line->percent_of_limit);
      add("<circle class='dot' cx='%.1f' cy='%.1f' r='3.5'/>\n", x, y);
      if (x - labelled < kLabelDistance) continue;
      labelled = x;
      text(x, y - 9, "ink small", "middle", formatted("%.1f", point.line->percent_of_limit));
      text(x, y + 18, "muted small", "middle", formatted("%.0f", point.line->tok_s));
      text(x, kPanelBottom + 18, "ink small", "middle", point.tick);
    }
  }

  // ---- bars
  void draw_bars() {
    text(24, kBarsTop - 42, "ink head", "start",
         "Arms, and the megakernel without a part of its design; context " + context_name(kReportContext));
    for (size_t row = 0; row < rows_.size(); ++row) text(300, bar_top(row) + 11, "ink", "end", rows_[row]);
    const auto has_bars = [](const Column& column) { return column.lines.size() > 1; };
    const int64_t shown = std::count_if(columns_.begin(), columns_.end(), has_bars);
    const double step = 680 / static_cast<double>(shown), width = step - 130;  // 130: of a bar's label
    double left = 312;
    for (const Column& column : columns_) {
      if (!has_bars(column)) continue;
      draw_column(column, left, left + width);
      left += step;
    }
  }
  static double bar_top(size_t row) { return kBarsTop + kRowHeight * static_cast<double>(row); }

  void draw_column(const Column& column, double left, double right) {
    const double bottom = bar_top(rows_.size());
    const auto x_of = [&](double percent) { return left + std::min(percent, 100.0) / 100 * (right - left); };
    text(left, kBarsTop - 20, "ink head", "start", "batch " + std::to_string(column.batch));
    for (double percent = 0; percent <= 100; percent += 20) {
      line("grid", x_of(percent), kBarsTop - 8, x_of(percent), bottom);
      text(x_of(percent), bottom + 16, "muted small", "middle", formatted("%.0f %%", percent));
    }
    const auto top_of = [&](const RecordedDecode& each) {
      return bar_top(static_cast<size_t>(std::find(rows_.begin(), rows_.end(), title_of(each)) - rows_.begin()));
    };
    for (const RecordedDecode& each : column.lines) {
      const char* kind = each.is_whole() ? "whole" : each.without.empty() ? "arm" : "part";
      add("<rect class='%s%s' x='%.1f' y='%.1f' width='%.1f' height='%.0f'/>\n", kind,
          reaches_too_little(each) ? " untuned" : "", left, top_of(each), x_of(each.percent_of_limit) - left,
          kBarHeight);
    }
    line("goal", x_of(kGoalPercent), kBarsTop - 8, x_of(kGoalPercent), bottom);
    for (const RecordedDecode& each : column.lines)
      text(x_of(each.percent_of_limit) + 6, top_of(each) + 11, "ink small", "start",
           formatted("%.1f %%, ", each.percent_of_limit) + formatted("%.0f tok/s", each.tok_s) +
               (reaches_too_little(each) ? ", untuned" : ""));
  }

  const std::vector<RecordedDecode>& newest_;
  std::vector<Column> columns_;
  std::vector<std::string> rows_;  // titles
  std::string text_;
};

}  // namespace

bool reaches_too_little(const RecordedDecode& line) { return is_untuned(line.arm, line.batch, line.percent_of_limit); }

std::string title_of(const RecordedDecode& line) {
  return line.without.empty() ? arm_title(line.arm, line.cut) : line.without;
}

std::vector<RecordedDecode> arms_and_parts(const std::vector<RecordedDecode>& newest, int32_t batch) {
  std::vector<RecordedDecode> found;
  for (const RecordedDecode& line : newest)
    if (line.context == kReportContext && line.batch == batch) found.push_back(line);
  return found;
}

std::string commits_of(const std::vector<RecordedDecode>& lines) {
  std::vector<const RecordedDecode*> by_time;
  for (const RecordedDecode& line : lines) by_time.push_back(&line);
  std::stable_sort(by_time.begin(), by_time.end(), [](const auto* a, const auto* b) { return a->time > b->time; });
  std::vector<std::string> names;
  for (const RecordedDecode* line : by_time)
    if (std::find(names.begin(), names.end(), line->commit) == names.end()) names.push_back(line->commit);
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kCommitsShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() <= kCommitsShown ? text
                                       : text + " and " + std::to_string(names.size() - kCommitsShown) + " older";
}

std::string draw_results_svg(const std::vector<RecordedDecode>& newest) {
  CHECK(!newest.empty());
  return Plot(newest).draw();
}

}  // namespace boreas
