// What tools/compare_layers/oracle.py wrote: manifest.json and, for each run, raw little-endian arrays. A run is a
// sequence's last tokens behind a cache of `context` positions that holds seeded values (seeded_pages.h); a prompt has
// no context. The files are mapped, since they are larger than what one likes to read at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "base/result.h"
#include "model/model.h"

namespace boreas {

struct OracleRun {
  std::string name;
  int32_t context = 0;          // positions before the first token
  std::vector<TokenId> tokens;  // at positions context, context + 1, ...
  // [layers][tokens][hidden]: the residual stream before a layer, and what the layer puts out before the residual add.
  std::span<const bf16> inputs, attention, mlp;
  // Zeros and -1 in dense layers.
  std::span<const bf16> router;                    // [layers][tokens][experts] logits
  std::span<const int32_t> routes;                 // [layers][tokens][experts a token] ids in any order
  std::vector<std::shared_ptr<const void>> files;  // that the spans lie in
};

struct OracleFiles {
  std::string shape;  // for model_shape()
  std::string made_by;
  std::vector<OracleRun> runs;
};

// Errors name the file and what was expected.
Result<OracleFiles> open_oracle_files(const std::string& folder);

}  // namespace boreas
