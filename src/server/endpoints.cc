// Endpoints that answer at once, and the way of generation requests through a worker to the engine.
#include <utility>

#include "server/generation.h"
#include "server/json_writer.h"
#include "server/log.h"
#include "server/openai/prepare.h"
#include "server/routes.h"

namespace boreas {

namespace {

HttpAnswer json_answer(std::string body) { return {200, {{"Content-Type", "application/json"}}, std::move(body)}; }

void append_model(JsonWriter& writer, const Serving& serving, const std::string& name) {
  const ServingModel& model = serving.model();
  writer.begin_object().field("id", name).field("object", "model").field("created", model.created);
  writer.field("owned_by", serving.options().owned_by);
  writer.field("root", model.served.root.empty() ? name : model.served.root).field_null("parent");
  writer.field("max_model_len", int64_t{model.context_max});
  writer.key("permission").begin_array().end_array();
  writer.key("meta").begin_object().field("n_ctx_train", int64_t{model.context_max});
  writer.field("n_vocab", int64_t{model.served.vocab_size}).key("dummy_weights").boolean(model.served.dummy);
  writer.end_object().end_object();
}

// A generation request on its way through a worker.
struct Job {
  Call call;
  size_t body_bytes = 0;
  ApiResult<Launch> result = Launch();
};

void refuse_job(Job& job, const ApiError& error) {
  log_refusal(job.call.request_id, job.call.request.path, error.status, error.code, error.param);
  job.call.responder->send(error.answer());
}

// I/O thread: the worker is done.
void finish_job(Serving& serving, Job& job) {
  serving.release_job_bytes(job.body_bytes);
  if (const ApiError* error = std::get_if<ApiError>(&job.result)) return refuse_job(job, *error);
  if (const auto error = serving.unavailable()) return refuse_job(job, *error);
  if (job.call.responder->gone()) return;
  std::get<Launch>(job.result)(serving, job.call.responder)->launch();
}

// Workers only parse and tokenise: their queue moves on whatever the engine does.
constexpr int64_t kRetryForWorkerMs = 1'000;

// Parse, check, render and tokenise on a worker; then launch on the I/O thread.
void serve_generation(Serving& serving, Call&& call, ApiResult<Launch> (*prepare)(PrepareInput&&)) {
  auto job = std::make_shared<Job>();
  job->call = std::move(call);
  job->body_bytes = job->call.request.body.size();
  if (!serving.take_job_bytes(job->body_bytes)) return refuse_job(*job, queue_full(kRetryForWorkerMs));
  const bool accepted = serving.workers().submit([job, &serving, prepare] {
    job->result = prepare(
        PrepareInput{serving.model(), serving.options(), std::move(job->call.request.body), job->call.request_id});
    serving.http().post([job, &serving] { finish_job(serving, *job); });
  });
  if (accepted) return;
  serving.release_job_bytes(job->body_bytes);
  refuse_job(*job, queue_full(kRetryForWorkerMs));
}

}  // namespace

void serve_health(Serving& serving, Call&& call) {
  if (auto answer = serving.unavailable_answer()) return call.responder->send(std::move(*answer));
  call.responder->send(json_answer(R"({"status":"ok"})"));
}

void serve_live(Serving&, Call&& call) { call.responder->send(json_answer(R"({"status":"ok"})")); }

void serve_version(Serving& serving, Call&& call) {
  std::string body;
  JsonWriter(body).begin_object().field("version", serving.options().version).end_object();
  call.responder->send(json_answer(std::move(body)));
}

void serve_load(Serving& serving, Call&& call) {
  std::string body;
  JsonWriter(body).begin_object().field("server_load", static_cast<int64_t>(serving.live_count())).end_object();
  call.responder->send(json_answer(std::move(body)));
}

void serve_models(Serving& serving, Call&& call) {
  std::string body;
  JsonWriter writer(body);
  writer.begin_object().field("object", "list").key("data").begin_array();
  for (const std::string& name : serving.options().model_names) append_model(writer, serving, name);
  writer.end_array().end_object();
  call.responder->send(json_answer(std::move(body)));
}

void serve_model(Serving& serving, Call&& call) {
  if (const auto error = check_model_name(call.path_rest, serving.options())) {
    return call.responder->send(error->answer());
  }
  std::string body;
  JsonWriter writer(body);
  append_model(writer, serving, call.path_rest);
  call.responder->send(json_answer(std::move(body)));
}

void serve_chat_completions(Serving& serving, Call&& call) {
  serve_generation(serving, std::move(call), prepare_chat_completion);
}

void serve_completions(Serving& serving, Call&& call) {
  serve_generation(serving, std::move(call), prepare_completion);
}

}  // namespace boreas
