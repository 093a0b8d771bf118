// Which files of a checkpoint directory hold its weights. Called by weight_loader.cc only.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace boreas {

struct WeightFiles {
  std::vector<std::string> names;  // plain file names inside the directory, sorted
  // Tensor name -> index into names, from model.safetensors.index.json; empty if there is none.
  std::unordered_map<std::string, size_t> index;
};

// In this order: model.safetensors; the shards that model.safetensors.index.json names; worker-*.safetensors. A shard
// that is missing, or whose name would leave the directory, is an Error.
Result<WeightFiles> find_weight_files(const std::string& directory);

}  // namespace boreas
