#include "eval_ask.h"

#include <chrono>
#include <utility>

namespace boreas {

namespace json = boost::json;

namespace {

constexpr size_t kErrorBytesMax = 300;  // of a server's message that is kept

const json::value* member(const json::value* value, const char* key) {
  const json::object* object = value ? value->if_object() : nullptr;
  return object ? object->if_contains(key) : nullptr;
}

const json::array* list(const json::value* value) { return value ? value->if_array() : nullptr; }

std::string text(const json::value* value) {
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

int64_t number(const json::value* value) { return value && value->is_int64() ? value->get_int64() : 0; }

std::vector<AnswerCall> read_calls(const json::array& calls) {
  std::vector<AnswerCall> read;
  for (const json::value& call : calls) {
    const json::value* function = member(&call, "function");
    const json::value* arguments = member(function, "arguments");
    AnswerCall one{text(member(function, "name")), arguments ? *arguments : json::value()};
    if (one.arguments.is_string()) {
      if (std::optional<json::value> parsed = parse_json(one.arguments.get_string()))
        one.arguments = std::move(*parsed);
    }
    read.push_back(std::move(one));
  }
  return read;
}

// "bytes" if the server gives them, else the token as text.
std::string token_bytes(const json::value& token) {
  const json::array* bytes = list(member(&token, "bytes"));
  if (!bytes) return text(member(&token, "token"));
  std::string out;
  for (const json::value& byte : *bytes) out += static_cast<char>(number(&byte));
  return out;
}

float logprob_of(const json::value& token) {
  const json::value* logprob = member(&token, "logprob");
  return logprob && logprob->is_number() ? static_cast<float>(logprob->to_number<double>()) : 0;
}

std::vector<AnswerToken> read_tokens(const json::value* choice) {
  std::vector<AnswerToken> tokens;
  const json::array* content = list(member(member(choice, "logprobs"), "content"));
  if (!content) return tokens;
  for (const json::value& token : *content) {
    AnswerToken read{token_bytes(token), {}};
    if (const json::array* top = list(member(&token, "top_logprobs"))) {
      for (const json::value& other : *top) read.top.push_back({token_bytes(other), logprob_of(other)});
    }
    tokens.push_back(std::move(read));
  }
  return tokens;
}

std::string refusal(const HttpReply& reply) {
  const std::optional<json::value> body = parse_json(reply.body);
  std::string message = text(member(member(body ? &*body : nullptr, "error"), "message"));
  if (message.empty()) message = reply.body;
  return "HTTP " + std::to_string(reply.status) + ": " + message.substr(0, kErrorBytesMax);
}

}  // namespace

Reply read_completion(const std::string& body) {
  Reply reply;
  const std::optional<json::value> parsed = parse_json(body);
  const json::value* root = parsed ? &*parsed : nullptr;
  const json::array* choices = list(member(root, "choices"));
  const json::value* choice = choices && !choices->empty() ? &choices->front() : nullptr;
  const json::value* message = member(choice, "message");
  if (!message || !message->is_object()) {
    reply.error = "no message in the answer: " + body.substr(0, kErrorBytesMax);
    return reply;
  }
  const json::value* content = member(message, "content");
  if (content && content->is_string()) reply.answer.content = text(content);
  reply.answer.reasoning = text(member(message, "reasoning"));
  if (reply.answer.reasoning.empty()) reply.answer.reasoning = text(member(message, "reasoning_content"));
  if (const json::array* calls = list(member(message, "tool_calls"))) reply.answer.calls = read_calls(*calls);
  reply.finish_reason = text(member(choice, "finish_reason"));
  const json::value* usage = member(root, "usage");
  reply.prompt_tokens = number(member(usage, "prompt_tokens"));
  reply.output_tokens = number(member(usage, "completion_tokens"));
  reply.tokens = read_tokens(choice);
  return reply;
}

Result<Reply> ask(HttpClient& client, const json::object& request, const AskOptions& options) {
  json::object body = request;
  body["model"] = options.model;
  body["temperature"] = 0;
  body["max_tokens"] = options.max_tokens;
  body["stream"] = false;
  if (options.top_tokens) {
    body["logprobs"] = true;
    body["top_logprobs"] = 2;
  }
  const auto start = std::chrono::steady_clock::now();
  const Result<HttpReply> answer = client.post_json("/chat/completions", json::serialize(body));
  Reply reply;
  // Only a server that is gone ends the run; an answer that is broken, too long or late is that prompt's alone.
  if (!answer.ok() && answer.error().param == "url") return answer.error();
  if (!answer.ok()) {
    reply.error = answer.error().message;
  } else {
    reply = answer->status == 200 ? read_completion(answer->body) : Reply();
    if (answer->status != 200) reply.error = refusal(*answer);
  }
  const auto elapsed = std::chrono::steady_clock::now() - start;
  reply.latency_ms = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count();
  return reply;
}

Result<std::string> first_model(HttpClient& client) {
  ASSIGN_OR_RETURN(const HttpReply reply, client.get("/models"));
  if (reply.status != 200) return Error{"the server does not list its models; " + refusal(reply), "url"};
  const std::optional<json::value> body = parse_json(reply.body);
  const json::array* models = list(member(body ? &*body : nullptr, "data"));
  const std::string id = models && !models->empty() ? text(member(&models->front(), "id")) : std::string();
  if (id.empty()) return Error{"the server's /v1/models names no model; name one with --model", "model"};
  return id;
}

}  // namespace boreas
