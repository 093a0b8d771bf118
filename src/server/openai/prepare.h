// From a request's bytes to what the engine can run: parsed, checked, rendered, tokenised. Runs on a worker thread and
// only reads shared, immutable things. One function an endpoint.
#pragma once

#include <memory>
#include <string>

#include "server/generation.h"

namespace boreas {

// Makes the live request on the I/O thread.
using Launch = std::function<std::shared_ptr<Generation>(Serving&, std::shared_ptr<HttpResponder>)>;

struct PrepareInput {
  const ServingModel& model;
  const ServerOptions& options;
  std::string body;
  std::string request_id;  // unless the body brings its own
};

ApiResult<Launch> prepare_chat_completion(PrepareInput&& input);
ApiResult<Launch> prepare_completion(PrepareInput&& input);

// What options of the server change about a request.
void apply_server_options(GenerationFields& fields, const ServerOptions& options);

// 404 unless `name` is empty or served.
std::optional<ApiError> check_model_name(const std::string& name, const ServerOptions& options);

}  // namespace boreas
