#include "server/api_error.h"

#include <utility>

#include "server/json_writer.h"
#include "server/token_texts.h"

namespace boreas {

std::string ApiError::json() const {
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().key("error").begin_object().field("message", message).field("type", type).key("param");
  param.empty() ? writer.null() : writer.string(param);
  writer.key("code");
  code.empty() ? writer.null() : writer.string(code);
  writer.end_object().end_object();
  return out;
}

HttpAnswer ApiError::answer() const {
  HttpAnswer answer{status, {{"Content-Type", "application/json"}}, json()};
  if (status == 401) answer.fields.push_back({"WWW-Authenticate", "Bearer"});
  if (retry_after_ms > 0) {
    answer.fields.push_back({"Retry-After", std::to_string((retry_after_ms + 999) / 1000)});
    answer.fields.push_back({"retry-after-ms", std::to_string(retry_after_ms)});
  }
  return answer;
}

std::string echo_text(std::string_view text) {
  if (text.size() <= kEchoBytesMax) return replace_broken_utf8(text);
  size_t end = kEchoBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return replace_broken_utf8(text.substr(0, end)) + "...";
}

ApiError invalid_value(std::string param, std::string message) {
  return {400, std::move(message), "invalid_request_error", "invalid_value", std::move(param), 0};
}

ApiError missing_parameter(std::string param) {
  std::string message = "Missing required parameter: '" + param + "'.";
  return {400, std::move(message), "invalid_request_error", "missing_required_parameter", std::move(param), 0};
}

ApiError unsupported_value(std::string param, std::string message) {
  return {400, std::move(message), "invalid_request_error", "unsupported_value", std::move(param), 0};
}

ApiError context_length_exceeded(std::string param, int64_t context_max, int64_t prompt_tokens) {
  std::string message = "This model's maximum context length is " + std::to_string(context_max) + " tokens, but the " +
                        param + " has " + std::to_string(prompt_tokens) + " tokens. Reduce its length.";
  return {400, std::move(message), "invalid_request_error", "context_length_exceeded", std::move(param), 0};
}

ApiError invalid_api_key(bool given) {
  return {401,
          given ? "Incorrect API key provided."
                : "You didn't provide an API key. Send it in the Authorization header as 'Bearer YOUR_KEY'.",
          "invalid_request_error",
          "invalid_api_key",
          "",
          0};
}

ApiError model_not_found(std::string_view name) {
  return {
      404, "The model `" + echo_text(name) + "` does not exist.", "invalid_request_error", "model_not_found", "model",
      0};
}

ApiError not_found(std::string_view path) {
  return {404, "Unknown path: " + echo_text(path), "invalid_request_error", "", "", 0};
}

ApiError queue_full(int64_t retry_after_ms) {
  return {429, "Too many requests are waiting; try again later.", "rate_limit_error", "queue_full", "", retry_after_ms};
}

ApiError server_loading() { return {503, "The model is still loading.", "server_error", "loading", "", 2000}; }

ApiError server_draining() { return {503, "The server is shutting down.", "server_error", "draining", "", 5000}; }

ApiError engine_dead() {
  return {503, "The engine has stopped after a fault; the server restarts.", "server_error", "engine_dead", "", 10000};
}

ApiError request_timeout() {
  return {503, "The request was not finished within the server's time limit.", "server_error", "timeout", "", 1000};
}

ApiError generation_failed() {
  return {500, "Generation failed on the device; retry the request.", "server_error", "internal_error", "", 0};
}

ApiError refused(int status, std::string message) {
  ApiError error{status, std::move(message), "invalid_request_error", "", "", 0};
  if (status == 413) error.code = "request_too_large";
  if (status == 503) {
    error.type = "server_error";
    error.code = "overloaded";
    error.retry_after_ms = 1000;
  }
  return error;
}

}  // namespace boreas
