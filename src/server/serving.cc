#include "server/serving.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "server/generation.h"
#include "server/json_writer.h"
#include "server/log.h"
#include "server/request_ids.h"

namespace boreas {

Serving::Serving(HttpServer& http, const ServerOptions& options, std::function<void()> on_fault)
    : http_(http),
      options_(options),
      on_fault_(std::move(on_fault)),
      inbox_(std::make_shared<EventInbox>(
          [this] { http_.post([this] { deliver_events(); }); },
          [this](const std::string& message) { http_.post([this, message] { engine_died(message); }); })),
      workers_(options.worker_threads, static_cast<size_t>(options.worker_jobs_max)) {
  http_.on_sweep([this] { deliver_events(); });
}

Serving::~Serving() { inbox_->close(); }

void Serving::set_model(const ServedModel& served) {
  RequestRules rules{options_.limits, served.sampling, served.vocab_size, served.eos_ids};
  std::vector<std::string> marker_names;
  for (TokenId id = 0; id < served.tokenizer->vocab_size(); ++id) {
    if (served.tokenizer->is_added(id)) marker_names.emplace_back(served.tokenizer->token_bytes(id));
  }
  model_ = std::make_unique<const ServingModel>(
      ServingModel{served, std::move(rules), TokenTexts(*served.tokenizer, served.dummy), std::move(marker_names),
                   served.engine->context_max(), std::time(nullptr),
                   std::make_shared<GrammarStore>(*served.tokenizer, served.vocab_size)});
  served.engine->set_step_hook([inbox = inbox_] { inbox->step_done(); });
  served.engine->set_fault_hook([inbox = inbox_](const std::string& message) { inbox->report_fault(message); });
  if (state_ == ServingState::kLoading) state_ = ServingState::kReady;
}

std::optional<ApiError> Serving::unavailable() const {
  switch (state_) {
    case ServingState::kLoading:
      return server_loading();
    case ServingState::kDraining:
      return server_draining();
    case ServingState::kDead:
      return engine_dead();
    case ServingState::kReady:
      break;
  }
  return std::nullopt;
}

void Serving::set_loading(std::string phase, double progress) {
  loading_phase_ = std::move(phase);
  loading_progress_ = progress;
}

std::optional<HttpAnswer> Serving::unavailable_answer() const {
  const std::optional<ApiError> error = unavailable();
  if (!error) return std::nullopt;
  HttpAnswer answer = error->answer();
  const char* status = state_ == ServingState::kDead       ? "dead"
                       : state_ == ServingState::kDraining ? "draining"
                                                           : "loading";
  std::string fields;
  JsonWriter writer(fields);
  writer.begin_object().field("status", status);
  if (state_ == ServingState::kLoading) writer.field("phase", loading_phase_);
  if (state_ == ServingState::kLoading && loading_progress_ >= 0)
    writer.field("percent", static_cast<int64_t>(std::min(loading_progress_, 1.0) * 100));
  writer.end_object();
  fields.back() = ',';
  answer.body = fields + answer.body.substr(1);  // {"status":...,"error":{...}}
  return answer;
}

uint64_t Serving::add(std::shared_ptr<Generation> generation) {
  const uint64_t key = next_key_++;
  live_.emplace(key, std::move(generation));
  return key;
}

void Serving::remove(uint64_t key) { live_.erase(key); }

void Serving::deliver_events() {
  inbox_->take(items_);
  for (InboxItem& item : items_) {
    const auto found = live_.find(item.generation);
    if (found == live_.end()) continue;  // it has ended before the engine noticed
    const std::shared_ptr<Generation> generation = found->second;
    generation->on_event(item.prompt, std::move(item.event));
  }
}

void Serving::engine_died(const std::string& message) {
  log_error("the engine has stopped: " + message);
  state_ = ServingState::kDead;
  deliver_events();
  on_fault_();
}

bool Serving::take_job_bytes(size_t bytes) {
  if (job_bytes_ > 0 && job_bytes_ + bytes > options_.worker_bytes_max) return false;
  job_bytes_ += bytes;
  return true;
}

std::string Serving::take_id(const std::string& wanted) {
  std::string id = wanted;
  while (!ids_.insert(id).second) id = wanted + "-" + random_base62(6);
  return id;
}

}  // namespace boreas
