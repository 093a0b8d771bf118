// A whole server of a checkpoint in this process, for `boreas eval MODEL` and `boreas bench serve`: the same path as
// `boreas serve`, on a port of this machine alone, with a key that nobody else knows.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "eval_client.h"
#include "model_loading.h"

namespace boreas {

class LocalServer {
 public:
  // Returns when it answers. Errors: as load_with_text, make_executor and Server::start.
  // Slots and lengths are the choice's; the rest of `engine` counts.
  static Result<std::unique_ptr<LocalServer>> start(const ModelSource& source, const DeviceChoice& choice,
                                                    EngineOptions engine = {});
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  HttpTarget target() const;
  const ExecutorInfo& executor() const { return executor_->info(); }
  EngineStats stats() const { return engine_->stats(); }

 private:
  LocalServer() = default;
  SteadyClock clock_;
  LoadedModel loaded_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Engine> engine_;
  ServedModel served_;
  std::string key_;
  std::unique_ptr<Server> server_;  // first to go
};

}  // namespace boreas
