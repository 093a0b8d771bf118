#include "server/generation.h"

#include <ctime>

#include "server/log.h"

namespace boreas {

namespace {

using Steady = std::chrono::steady_clock;

// A client that keeps reading, but ever more slowly than we write, holds at most so many events; then it is given up.
constexpr size_t kBacklogEventsMax = 1 << 16;

int64_t milliseconds_between(Steady::time_point begin, Steady::time_point end) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(end - begin).count();
}

double seconds_between(Steady::time_point begin, Steady::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

ApiError submit_error(const Engine::Submitted& refused, const std::string& prompt_field) {
  switch (*refused.error) {
    case SubmitError::kQueueFull:
      return queue_full(refused.retry_after_ms);
    case SubmitError::kDraining:
      return server_draining();
    case SubmitError::kDead:
      return engine_dead();
    case SubmitError::kNeverFits:
      break;
  }
  ApiError refusal = invalid_value(
      prompt_field, "The request needs more KV memory than this server has; shorten the prompt or max_tokens.");
  refusal.code = "context_length_exceeded";
  return refusal;
}

}  // namespace

Generation::Generation(Serving& serving, std::shared_ptr<HttpResponder> responder, GenerationPlan plan)
    : serving_(serving),
      responder_(std::move(responder)),
      plan_(std::move(plan)),
      id_(serving.take_id(plan_.id_wanted)),
      created_(std::time(nullptr)),
      cached_tokens_(plan_.requests.size()),
      done_(static_cast<size_t>(choice_count())),
      started_(Steady::now()),
      last_token_(static_cast<size_t>(choice_count())) {
  chunk_head_ =
      answer_head(id_, plan_.chunk_object, created_, options().model_names.front(), model().served.fingerprint);
  for (const Request& request : plan_.requests) usage_.prompt_tokens += static_cast<int64_t>(request.prompt.size());
}

Generation::~Generation() { serving_.release_id(id_); }

void Generation::launch() {
  key_ = serving_.add(shared_from_this());
  const std::weak_ptr<Generation> self = weak_from_this();
  responder_->on_disconnect([self] {
    if (const auto generation = self.lock()) generation->end("client left", 499);
  });
  responder_->on_writable([self] {
    if (const auto generation = self.lock()) generation->drain_backlog();
  });
  if (!submit_all() || !streams()) return;
  opened_ = true;
  responder_->start_sse({{"Content-Type", "text/event-stream; charset=utf-8"},
                         {"Cache-Control", "no-cache"},
                         {"X-Accel-Buffering", "no"}});
  open_stream();
}

bool Generation::submit_all() {
  const int64_t timeout_ms = options().limits.request_timeout_ms;
  for (size_t i = 0; i < plan_.requests.size(); ++i) {
    Request& request = plan_.requests[i];
    if (timeout_ms > 0) request.deadline_ns = model().served.clock->now_ns() + timeout_ms * 1'000'000;
    const Engine::Submitted submitted =
        model().served.engine->submit(std::move(request), serving_.sink(key_, static_cast<int32_t>(i)));
    if (submitted.error) {
      fail(submit_error(submitted, plan_.prompt_field));
      return false;
    }
    engine_ids_.push_back(submitted.id);
  }
  return true;
}

void Generation::on_event(int32_t prompt, TokenEvent&& event) {
  if (ended_) return;
  measure(prompt * plan_.fields.choices + event.choice, event);
  if (responder_->congested() || !backlog_.empty()) {
    backlog_.emplace_back(prompt, std::move(event));
    if (backlog_.size() > kBacklogEventsMax) fail(refused(408, "The client reads too slowly."));
    return;
  }
  process(prompt, event);
}

// When tokens came, not when the client reads them.
void Generation::measure(int32_t index, const TokenEvent& event) {
  if (event.tokens.empty() || done_[static_cast<size_t>(index)]) return;
  const Steady::time_point now = Steady::now();
  const Steady::time_point before = std::exchange(last_token_[static_cast<size_t>(index)], now);
  if (first_token_ == Steady::time_point()) first_token_ = now;
  if (before == Steady::time_point()) {
    serving_.traffic().first_token_s.observe(seconds_between(started_, now));
  } else {
    serving_.traffic().between_tokens_s.observe(seconds_between(before, now));
  }
}

void Generation::drain_backlog() {
  const std::shared_ptr<Generation> self = shared_from_this();  // process() may end it
  while (!ended_ && !backlog_.empty() && !responder_->congested()) {
    std::pair<int32_t, TokenEvent> next = std::move(backlog_.front());
    backlog_.pop_front();
    process(next.first, next.second);
  }
}

void Generation::process(int32_t prompt, TokenEvent& event) {
  const int32_t index = prompt * plan_.fields.choices + event.choice;
  if (done_[static_cast<size_t>(index)]) return;  // ended here before the engine noticed
  if (event.choice == 0 && event.cached_tokens > 0) {
    // Every event repeats the number; the prompt counts once.
    usage_.cached_tokens +=
        event.cached_tokens - std::exchange(cached_tokens_[static_cast<size_t>(prompt)], event.cached_tokens);
  }
  if (event.finish && (*event.finish == FinishReason::kAbort || *event.finish == FinishReason::kError)) {
    return fail(reason_of_abort(event));
  }
  take(index, event);
  if (!ended_ && done_count_ == choice_count()) complete();
}

void Generation::finish_choice(int32_t index, bool by_us) {
  done_[static_cast<size_t>(index)] = true;
  ++done_count_;
  if (!by_us) return;
  const int32_t prompt = index / plan_.fields.choices;
  model().served.engine->cancel(engine_ids_[static_cast<size_t>(prompt)], index % plan_.fields.choices,
                                FinishReason::kStop);
}

ApiError Generation::reason_of_abort(const TokenEvent& event) const {
  if (serving_.state() == ServingState::kDraining) return server_draining();
  const int64_t timeout_ms = options().limits.request_timeout_ms;
  if (timeout_ms > 0 && milliseconds_between(started_, Steady::now()) >= timeout_ms) return request_timeout();
  log_generation_error(id_, event.error);
  return generation_failed();
}

Usage Generation::usage() const {
  Usage usage = usage_;
  usage.reasoning_tokens = reasoning_tokens();
  return usage;
}

JsonWriter Generation::begin_chunk() {
  chunk_ = chunk_head_;
  return JsonWriter(chunk_);
}

void Generation::end_chunk_members(JsonWriter& writer) {
  if (plan_.fields.include_usage) {
    writer.key("usage");
    plan_.fields.continuous_usage ? append_usage(writer, usage()) : static_cast<void>(writer.null());
  }
  writer.end_object();
  responder_->sse(chunk_);
}

void Generation::complete() {
  if (streams()) {
    if (plan_.fields.include_usage) {
      JsonWriter writer = begin_chunk();
      writer.end_array().key("usage");
      append_usage(writer, usage());
      writer.end_object();
      responder_->sse(chunk_);
    }
    responder_->sse("[DONE]");
    responder_->end();
  } else {
    HttpAnswer answer{
        200,
        {{"Content-Type", "application/json"}},
        answer_head(id_, plan_.object, created_, options().model_names.front(), model().served.fingerprint)};
    JsonWriter writer(answer.body);
    append_choices(writer);
    writer.end_array().key("usage");
    append_usage(writer, usage());
    append_extras(writer);
    writer.end_object();
    responder_->send(std::move(answer));
  }
  end("done", 200);
}

void Generation::fail(const ApiError& error) {
  if (ended_) return;
  if (opened_) {
    responder_->sse(error.json());
    responder_->sse("[DONE]");
    responder_->end();
  } else {
    responder_->send(error.answer());
  }
  end("failed", error.status);
}

void Generation::end(const char* outcome, int status) {
  if (ended_) return;
  ended_ = true;
  if (done_count_ < choice_count()) cancel_all();
  backlog_.clear();
  const Steady::time_point now = Steady::now();
  const bool any = first_token_ != Steady::time_point();
  log_request({id_, plan_.endpoint, outcome, status, usage(), any ? milliseconds_between(started_, first_token_) : -1,
               milliseconds_between(started_, now)});
  if (status == 200) {
    serving_.traffic().whole_s.observe(seconds_between(started_, now));
    serving_.traffic().prompt_tokens.observe(static_cast<double>(usage_.prompt_tokens));
    serving_.traffic().output_tokens.observe(static_cast<double>(usage_.output_tokens));
  }
  serving_.remove(key_);  // may be the last reference
}

void Generation::cancel_all() {
  for (const RequestId id : engine_ids_) model().served.engine->cancel(id);
}

}  // namespace boreas
