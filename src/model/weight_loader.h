// From the weight files of a checkpoint directory to a full WeightTable: finds the files, opens and checks them, and
// gives every tensor its place by the family's naming. Called by load_model.cc only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace boreas {

// A complete table and what keeps its memory alive.
struct LoadedWeights {
  WeightTable table;
  std::vector<std::shared_ptr<const SafetensorsFile>> files;
  std::vector<std::shared_ptr<const void>> buffers;
};

// Every weight of `config` exactly once, with the right shape, in BF16, and no tensor that is not understood; anything
// else is an Error that names file and tensor. Tensor data is not read, apart from biases (which must be zero).
Result<LoadedWeights> load_weights(const ModelConfig& config, const std::string& directory,
                                   const LoadProgress& progress);

}  // namespace boreas
