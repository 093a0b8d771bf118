#include "bench_serve_list.h"

#include <cstdio>

#include "bench_support.h"

namespace boreas {

namespace {

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string listed(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += "\n  " + item;
  return text;
}

boost::json::array array_of(const std::vector<std::string>& items) {
  boost::json::array array;
  for (const std::string& item : items) array.emplace_back(item);
  return array;
}

}  // namespace

bool Goal::meets(double value) const {
  if (kind == Kind::kAtLeast) return value >= bound;
  return kind == Kind::kNone || value < bound;
}

std::string Goal::text() const {
  if (kind == Kind::kNone) return {};
  return (kind == Kind::kAtLeast ? "at least " : "below ") + number(bound, "%.0f");
}

void FigureList::print(const std::string& what, std::optional<double> value, const std::string& wanted) {
  if (value) std::printf("%-72s %12.2f  %s\n", what.c_str(), *value, wanted.c_str());
  else std::printf("%-72s %12s  %s\n", what.c_str(), "n/a", wanted.c_str());
  std::fflush(stdout);
  line[what] = value ? boost::json::value(*value) : boost::json::value();
}

void FigureList::show(const std::string& what, std::optional<double> value, Goal goal) {
  const bool missed = value && !goal.meets(*value);
  print(what, value, goal.text() + (missed ? ": missed" : ""));
  if (!value)
    problems_.push_back(what + ": n/a, there was nothing to measure (made-up weights write text at --temperature 1)");
  if (missed) missed_.push_back(what + ": " + number(*value, "%.2f") + ", wanted " + goal.text());
}

void FigureList::show(const std::string& what, double value, const std::string& note) { print(what, value, note); }

Status FigureList::finish(bool goals_bind, const std::string& results_dir) {
  if (!problems_.empty()) line["problems"] = array_of(problems_);
  if (!missed_.empty()) line["missed"] = array_of(missed_);
  if (!record_result(line, problems_.empty() ? results_dir : "")) return Error{"the result was not recorded"};
  if (!problems_.empty()) return Error{"the run was no good:" + listed(problems_)};
  if (goals_bind && !missed_.empty()) return Error{"goals were missed:" + listed(missed_)};
  return Ok{};
}

}  // namespace boreas
