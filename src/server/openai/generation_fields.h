// The request fields that chat completions and completions share: sampling, limits, stops, streaming. One table a type
// of field; each bad value is a 400 that names the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/api_error.h"
#include "server/json_reader.h"
#include "server/openai/output_format.h"
#include "server/server.h"

namespace boreas {

template <class T>
using ApiResult = std::variant<T, ApiError>;

// What a request is checked against.
struct RequestRules {
  RequestLimits limits;
  SamplingDefaults sampling;
  int32_t vocab_size = 0;
  std::vector<TokenId> eos_ids;
};

struct GenerationFields {
  std::string model;  // empty: the default
  SamplingParams sampling;
  bool seeded = false;  // else the seed is drawn when the request is launched
  int32_t choices = 1;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // return_tokens_as_token_ids
  std::optional<bool> add_special_tokens;
  int32_t priority = 0;
  std::string cache_salt;
  std::string request_id;
  OutputFormat format;
};

// Problems go to reader.fail(). `scoring_allowed`: max_tokens may be 0.
GenerationFields read_generation_fields(FieldReader& reader, const RequestRules& rules, bool scoring_allowed);

// A list of allowed ids beside `other`, which says what the output must look like, is refused.
void refuse_allowed_ids(FieldReader& reader, const GenerationFields& fields, const std::string& other);

// Fields of the API that this server does not implement, with the values that mean "not used".
struct UnusedField {
  const char* name;
  const char* allowed;  // JSON values, separated by blanks; "" if only null is
  const char* message;
};
void refuse_used(FieldReader& reader, const UnusedField* fields, size_t count);
// Those of both endpoints.
void refuse_unsupported(FieldReader& reader);

// Ends generation: stop_token_ids and, unless ignored, the model's own.
std::vector<TokenId> stop_ids(const GenerationFields& fields, const RequestRules& rules);

// max_tokens for a prompt of this length; an error if it does not fit.
ApiResult<int32_t> output_budget(const GenerationFields& fields, const RequestLimits& limits, int64_t context_max,
                                 int64_t prompt_tokens, const std::string& prompt_field);

// Binds the output of a request: fills in of `rules` what the fields say, and sets the request's constraint. Errors
// name `field`.
std::optional<ApiError> bind_output(OutputRules rules, const GenerationFields& fields, const RequestRules& model,
                                    const std::string& field, Request& request);

// The engine request for one prompt.
Request engine_request(const GenerationFields& fields, const RequestRules& rules, std::vector<TokenId> prompt,
                       int32_t max_tokens);

}  // namespace boreas
