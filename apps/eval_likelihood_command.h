// `boreas eval MODEL --likelihood`: the flags of that mode, and what it does.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace boreas {

struct LikelihoodFlags {
  std::string folder;      // MODEL
  std::string text_file;   // empty: MODEL/likelihood.jsonl
  std::string oracle;      // folder of logits; empty: our own FP32 forward pass
  int64_t tokens_max = 0;  // 0: all
  std::string device = "auto";
  int32_t threads = 0;
  std::string json_file;
};

Status run_likelihood(const LikelihoodFlags& flags);

}  // namespace boreas
