// What all live requests share, on the I/O thread: the model, the way to the engine and back, the list of who is alive.
// Owned by Server; used by routes and generations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "server/api_error.h"
#include "server/event_inbox.h"
#include "server/http.h"
#include "server/openai/generation_fields.h"
#include "server/server.h"
#include "server/token_texts.h"
#include "server/traffic.h"
#include "server/worker_pool.h"

namespace boreas {

class Generation;

enum class ServingState : uint8_t { kLoading, kReady, kDraining, kDead };

// The model as requests see it; immutable, read by workers as well.
struct ServingModel {
  ServedModel served;
  RequestRules rules;
  TokenTexts texts;
  std::vector<std::string> marker_names;  // of all added tokens: text in messages must not turn into them
  int32_t context_max = 0;
  int64_t created = 0;  // unix seconds
  std::shared_ptr<GrammarStore> grammars;
};

class Serving {
 public:
  // on_fault: called on the I/O thread after the engine has died.
  Serving(HttpServer& http, const ServerOptions& options, std::function<void()> on_fault);
  ~Serving();

  // Once, before which every route answers "loading".
  void set_model(const ServedModel& served);
  const ServingModel& model() const { return *model_; }
  const ServerOptions& options() const { return options_; }
  HttpServer& http() { return http_; }
  WorkerPool& workers() { return workers_; }

  // Bytes of request bodies that wait for a worker or are with one; false: too many.
  bool take_job_bytes(size_t bytes);
  void release_job_bytes(size_t bytes) { job_bytes_ -= bytes; }

  ServingState state() const { return state_; }
  void set_state(ServingState state) { state_ = state; }
  bool has_model() const { return model_ != nullptr; }
  // While loading: what is being done, and how much of it (0 to 1; below 0: unknown).
  void set_loading(std::string phase, double progress);
  // Why nothing can be generated now, if so.
  std::optional<ApiError> unavailable() const;
  // The same for who asks how the server is: with "status" (loading, draining, dead) beside the error, and how far the
  // loading is. Null: able to generate.
  std::optional<HttpAnswer> unavailable_answer() const;

  // A live request: events for its key reach it until remove().
  uint64_t add(std::shared_ptr<Generation> generation);
  void remove(uint64_t key);
  size_t live_count() const { return live_.size(); }
  EventSink sink(uint64_t key, int32_t prompt) { return inbox_->sink(key, prompt); }
  void deliver_events();
  void engine_died(const std::string& message);

  Traffic& traffic() { return traffic_; }

  // `wanted`, or with a suffix if a live answer has that id. Given back by release_id.
  std::string take_id(const std::string& wanted);
  void release_id(const std::string& id) { ids_.erase(id); }

 private:
  HttpServer& http_;
  const ServerOptions& options_;
  std::function<void()> on_fault_;
  std::shared_ptr<EventInbox> inbox_;
  std::vector<InboxItem> items_;  // scratch of deliver_events
  std::unique_ptr<const ServingModel> model_;
  ServingState state_ = ServingState::kLoading;
  std::string loading_phase_ = "starting";
  double loading_progress_ = -1;
  size_t job_bytes_ = 0;
  Traffic traffic_;
  uint64_t next_key_ = 1;
  std::unordered_set<std::string> ids_;
  std::unordered_map<uint64_t, std::shared_ptr<Generation>> live_;  // they give their ids back when they die
  WorkerPool workers_;                                              // last: its jobs use what is above
};

}  // namespace boreas
