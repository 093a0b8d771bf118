// A small HTTP client for OpenAI-compatible servers: one connection, one request at a time, everything bounded. Used by
// `boreas eval`, a client a thread. Plain http only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace boreas {

struct HttpTarget {
  std::string host, port;
  std::string base;     // path before /chat/completions and the like: "/v1"
  std::string api_key;  // empty: none is sent
};

// "http://host[:port][/path]"; /v1 is appended to a path that does not end with it. Error: https, or no such URL.
Result<HttpTarget> parse_target(const std::string& url);

struct HttpReply {
  int status = 0;
  std::string body;
};

class HttpClient {
 public:
  static constexpr uint64_t kBodyBytesMax = uint64_t{64} << 20;

  HttpClient(HttpTarget target, int64_t timeout_ms);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `path` below the target's base. Error: no connection, no answer in time, an answer that is no HTTP or too long.
  Result<HttpReply> get(const std::string& path);
  Result<HttpReply> post_json(const std::string& path, const std::string& body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boreas
