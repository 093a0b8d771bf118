// The error object of the OpenAI API and the HTTP status that goes with it. Made wherever a request can go wrong,
// turned into an answer or an event of a stream by routes.cc and generation.cc.
//
// What always holds: nothing a client can cause is a 500; messages hold no file names and at most kEchoBytesMax bytes
// of what the client sent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http.h"

namespace boreas {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string code;   // empty: null
  std::string param;  // dotted path of the offending field; empty: null
  int64_t retry_after_ms = 0;

  std::string json() const;  // {"error":{...}}
  HttpAnswer answer() const;
};

constexpr size_t kEchoBytesMax = 100;
// At most kEchoBytesMax bytes of a client's text, cut at a character, with "..." where something is missing. Valid
// UTF-8 whatever comes: paths may hold any bytes.
std::string echo_text(std::string_view text);

ApiError invalid_value(std::string param, std::string message);
ApiError missing_parameter(std::string param);
ApiError unsupported_value(std::string param, std::string message);
ApiError context_length_exceeded(std::string param, int64_t context_max, int64_t prompt_tokens);
ApiError invalid_api_key(bool given);
ApiError model_not_found(std::string_view name);
ApiError not_found(std::string_view path);
ApiError queue_full(int64_t retry_after_ms);
ApiError server_loading();
ApiError server_draining();
ApiError engine_dead();
ApiError request_timeout();
ApiError generation_failed();
// An answer to what HTTP itself or the routes refuse: 400, 405, 408, 413, 415, 417, 431, 503.
ApiError refused(int status, std::string message);

}  // namespace boreas
