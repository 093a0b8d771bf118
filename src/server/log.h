// What the server logs: one line a request, never text of prompts or answers, never keys. Lines go to stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/openai/answers.h"

namespace boreas {

struct RequestRecord {
  const std::string& id;
  const char* endpoint;
  const char* outcome;
  int status;
  Usage usage;
  int64_t first_token_ms;  // -1: none came
  int64_t total_ms;
};
void log_request(const RequestRecord& record);
// A request that never reached the engine.
void log_refusal(const std::string& id, const std::string& path, int status, const std::string& code,
                 const std::string& param);
// The engine's own words on why a request failed.
void log_generation_error(const std::string& id, const std::string& message);
void log_info(const std::string& message);
void log_error(const std::string& message);

}  // namespace boreas
