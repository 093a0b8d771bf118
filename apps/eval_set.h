// The prompts of an evaluation: held-out files (tools/train_demo/README.md says what a line holds) and subsets of them.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval_score.h"

namespace boreas {

struct EvalItem {
  std::string id;
  std::string kind, part;
  boost::json::object request;  // a chat request without model and sampling
  Check check;
};

struct EvalSet {
  std::string name;  // the file's, without its folder
  std::vector<EvalItem> items;
};

// Error: names file, line and field. Ids must differ within a file.
Result<EvalSet> read_eval_set(const std::string& file);

// Ids must differ across all sets, as results are told apart by them.
Status check_ids(const std::vector<EvalSet>& sets);

struct Subset {
  int32_t per_kind = 0;  // the first so many of every kind of a set; 0: all
  int32_t first = 0;     // then the first so many over all sets; 0: all
  int32_t spread = 0;    // then so many at even distances over all sets; 0: all
};
// Keeps what the subset says, in order. Sets that lose everything go.
void keep_subset(std::vector<EvalSet>& sets, const Subset& subset);

size_t count_items(const std::vector<EvalSet>& sets);

}  // namespace boreas
