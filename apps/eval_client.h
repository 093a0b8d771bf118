// A small HTTP client for OpenAI-compatible servers: one connection, one request at a time, everything bounded. Used by
// `boreas eval` and `boreas bench serve`, a client a thread. Plain http only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

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
  int32_t retry_after_s = -1;  // seconds, if the answer has a Retry-After that says so
};

// Gets the pieces of a streamed body as they come; false ends the exchange.
using StreamSink = std::function<bool(std::string_view bytes)>;

class HttpClient {
 public:
  static constexpr uint64_t kBodyBytesMax = uint64_t{64} << 20;

  HttpClient(HttpTarget target, int64_t timeout_ms);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `path` below the target's base. Error: `param` says what happened: "url" (no connection), "timeout", "closed" (in
  // the middle), "http" (an answer that is no HTTP or too long), "stopped".
  Result<HttpReply> get(const std::string& path);
  Result<HttpReply> post_json(const std::string& path, const std::string& body);
  // The body of a 200 goes to `sink`, any other into the reply. The timeout is that of the whole exchange; `stop`
  // becoming true ends it within a tenth of a second.
  Result<HttpReply> post_stream(const std::string& path, const std::string& body, const StreamSink& sink,
                                const std::atomic<bool>& stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boreas
