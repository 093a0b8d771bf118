// POST /v1/completions: the request as a struct, every field checked.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "server/openai/generation_fields.h"

namespace boreas {

// One prompt: text to be tokenised, or ids.
using CompletionPrompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationFields generation;  // max_tokens is always set
  std::vector<CompletionPrompt> prompts;
  bool echo = false;
  int32_t logprobs = -1;  // -1: none
};

ApiResult<CompletionRequest> read_completion_request(boost::json::object&& body, const RequestRules& rules);

}  // namespace boreas
