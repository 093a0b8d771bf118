// Small whole files of a checkpoint (JSON) as text, with a bound on their size. Used by model_config.cc,
// weight_loader.cc and hub_cache.cc.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace boreas {

// The content of a regular file of at most bytes_max bytes; errors name the path.
Result<std::string> read_text_file(const std::string& path, int64_t bytes_max);

}  // namespace boreas
