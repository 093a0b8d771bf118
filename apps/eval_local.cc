#include "eval_local.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

namespace boreas {

namespace {

std::string random_key() {
  std::random_device random;
  std::string key;
  for (int i = 0; i < 8; ++i) {
    char part[9];
    std::snprintf(part, sizeof(part), "%08x", static_cast<unsigned>(random()));
    key += part;
  }
  return key;
}

}  // namespace

Result<std::unique_ptr<LocalServer>> LocalServer::start(const ModelSource& source, const DeviceChoice& choice,
                                                        EngineOptions engine) {
  set_log_level("error");
  std::unique_ptr<LocalServer> local(new LocalServer);
  ASSIGN_OR_RETURN(local->loaded_, load_with_text(source));
  ASSIGN_OR_RETURN(local->executor_, make_executor(choice, local->loaded_.model));
  engine.running_max = choice.sequence_slots;
  engine.waiting_max = std::max(engine.waiting_max, choice.sequence_slots);
  engine.step_tokens_max = choice.step_tokens_max;
  engine.context_max = choice.context_max;
  local->engine_ = std::make_unique<Engine>(*local->executor_, engine, local->clock_);
  local->served_ = describe_served(local->loaded_, *local->engine_, local->executor_->info(), local->clock_, {});
  local->key_ = random_key();
  ServerOptions options;
  options.version = BOREAS_VERSION;
  options.model_names = {"evaluated"};
  options.api_keys = {local->key_};
  ASSIGN_OR_RETURN(local->server_, Server::start(options));
  local->server_->ready(local->served_);
  return local;
}

LocalServer::~LocalServer() = default;

HttpTarget LocalServer::target() const { return {"127.0.0.1", std::to_string(server_->port()), "/v1", key_}; }

}  // namespace boreas
