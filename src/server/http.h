// HTTP/1.1 and server-sent events, without any idea of what is served. HttpServer (http_server.cc: Asio, Beast's
// parser) owns sockets and their deadlines; an HttpHandler (routes.cc) owns meaning.
//
// What always holds:
// - One I/O thread runs everything here: every call to a handler, a responder or a callback. Only HttpServer::post and
//   HttpServer::stop may be called from elsewhere.
// - Everything a client controls is bounded: header bytes and fields, body bytes (one and all together), connections,
//   time to send a header or the next piece of a body, idle time, bytes waiting to be read by the client and the time
//   they wait.
// - Requests that two servers could frame differently (any Transfer-Encoding but exactly "chunked", several
//   Content-Lengths, folded fields, bare LF, no Host) are refused with 400.
// - A client that leaves is noticed at once, also while nothing is sent to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boreas {

struct HttpField {
  std::string name;  // lower case in requests
  std::string value;
};
using HttpFields = std::vector<HttpField>;

struct HttpRequest {
  std::string method;  // as sent
  std::string path;    // without the query, still percent-encoded; "*" for OPTIONS *
  HttpFields fields;
  std::string body;
  // The first field of this (lower-case) name; empty if there is none.
  std::string_view field(std::string_view name) const;
};

struct HttpAnswer {
  int status = 200;
  HttpFields fields;  // without Content-Length and Connection
  std::string body;
};

// One answer to one request. After the client has left every call is a no-op.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;
  // The whole answer at once.
  virtual void send(HttpAnswer answer) = 0;
  // Or a stream of events: start_sse, then sse any number of times, then end.
  virtual void start_sse(const HttpFields& fields) = 0;
  // One event; `data` must not hold line breaks. Bytes leave at the end of the current turn of the I/O thread.
  virtual void sse(std::string_view data) = 0;
  virtual void end() = 0;
  // The client reads slower than we write and its buffer is full: the owner should keep its events back until
  // on_writable's callback.
  virtual bool congested() const = 0;
  // Nobody will read an answer any more.
  virtual bool gone() const = 0;
  // The client has left (or was given up as too slow). Called at most once, never from inside a call to the responder,
  // and not after end().
  virtual void on_disconnect(std::function<void()> callback) = 0;
  virtual void on_writable(std::function<void()> callback) = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The header is complete, the body not yet read. An answer here ends the request (authorisation, unknown route).
  virtual std::optional<HttpAnswer> screen(const HttpRequest& request) = 0;
  // Answers now or later, through the responder.
  virtual void handle(HttpRequest&& request, std::shared_ptr<HttpResponder> responder) = 0;
  // The answer to a request that HTTP itself refuses.
  virtual HttpAnswer refuse(int status, std::string_view message) = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;                            // 0: any free one
  size_t header_bytes_max = 64 << 10;           // -> 431
  int32_t header_fields_max = 256;              // -> 431
  int64_t body_bytes_max = 32 << 20;            // -> 413
  int64_t bodies_bytes_max = int64_t{1} << 30;  // of all requests being received -> 503
  int32_t connections_max = 16384;              // -> 503
  size_t stream_bytes_max = 4 << 20;            // unread by the client: the responder is congested
  int64_t header_timeout_ms = 10'000;           // from the first byte to the empty line -> 408
  int64_t body_timeout_ms = 30'000;             // between two pieces of a body -> 408
  int64_t body_total_timeout_ms = 600'000;      // for the whole body -> 408
  int64_t idle_timeout_ms = 75'000;             // between requests: closed
  int64_t write_timeout_ms = 60'000;            // without the client reading a byte: given up
  int64_t linger_timeout_ms = 2'000;            // after a refusal, to let the client read it
  int64_t ping_interval_ms = 15'000;            // silent event streams get a comment line; 0: never
  int64_t sweep_interval_ms = 250;              // how often deadlines are looked at
};

class HttpServer {
 public:
  // The handler must outlive the server.
  HttpServer(const HttpOptions& options, HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Binds and listens. Errors: unknown host, port in use, no permission.
  Status listen();
  uint16_t port() const;  // after listen
  // Serves on the calling thread until stop() has done its work.
  void run();

  // From any thread: runs a function on the I/O thread.
  void post(std::function<void()> function);
  // From any thread: closes the listener and idle connections, lets answers that are under way leave for at most
  // grace_ms, then run() returns.
  void stop(int64_t grace_ms);

  // On the I/O thread (or before run).
  void call_after(int64_t delay_ms, std::function<void()> function);
  void on_sweep(std::function<void()> function);  // at every look at the deadlines, while anybody is connected
  void on_signal(std::function<void(int signal)> function);  // takes over SIGINT and SIGTERM
  void close_after_answer();                                 // from now on every answer says "Connection: close"

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boreas
