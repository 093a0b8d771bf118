// The list that `boreas bench serve --all` prints and its JSON line: figures, what they should be, and which are not.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace boreas {

// What a figure should be.
struct Goal {
  enum class Kind { kNone, kAtLeast, kBelow };
  Kind kind = Kind::kNone;
  double bound = 0;

  bool meets(double value) const;
  std::string text() const;  // "at least 95"
};
inline Goal at_least(double bound) { return {Goal::Kind::kAtLeast, bound}; }
inline Goal below(double bound) { return {Goal::Kind::kBelow, bound}; }

class FigureList {
 public:
  boost::json::object line;

  // value: none: nothing was there to measure, which is no good figure and no bad one, but a problem.
  void show(const std::string& what, std::optional<double> value, Goal goal = {});
  void show(const std::string& what, double value, const std::string& note);
  void add_problem(const std::string& problem) { problems_.push_back(problem); }
  const std::vector<std::string>& missed() const { return missed_; }  // "figure: value, wanted goal"

  // Prints the line, with problems and missed goals, and keeps it if there are no problems. Error: there are, or a goal
  // was missed and goals_bind, or the line could not be written.
  Status finish(bool goals_bind, const std::string& results_dir);

 private:
  void print(const std::string& what, std::optional<double> value, const std::string& wanted);

  std::vector<std::string> problems_, missed_;
};

}  // namespace boreas
