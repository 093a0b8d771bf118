// One prompt to one server: the request that is sent, and what its answer says.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval_client.h"
#include "eval_score.h"

namespace boreas {

struct TokenChoice {
  std::string bytes;
  float logprob = 0;
};
// A generated token and what else the model thought of there.
struct AnswerToken {
  std::string bytes;
  std::vector<TokenChoice> top;  // descending
};

struct Reply {
  Answer answer;
  std::string error;  // the server's refusal, or why there is no answer; then the answer is empty
  std::string finish_reason;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t latency_ms = 0;
  std::vector<AnswerToken> tokens;  // if asked for
};

struct AskOptions {
  std::string model;
  int32_t max_tokens = 320;
  bool top_tokens = false;  // the two likeliest tokens at every place
};

// Greedy. Error: the server cannot be reached at all; everything else is in the reply.
Result<Reply> ask(HttpClient& client, const boost::json::object& request, const AskOptions& options);

// The first model of /v1/models.
Result<std::string> first_model(HttpClient& client);

// The body of a chat completion answer as a reply; for tests.
Reply read_completion(const std::string& body);

}  // namespace boreas
