// One connection and one answer, between http_server.cc (sockets come and go) and http_connection.cc (what happens on
// them). Private to these two: the only files that include Asio and Beast, because either costs seconds to compile.
//
// A connection is one coroutine: header -> screen -> body -> handle -> wait for the answer -> again. Answers do not run
// in the coroutine: a responder appends to the connection's SendBuffer and marks it; at the end of the turn every
// marked connection gets one send(). Only a full socket waits for writability. All deadlines are plain numbers that one
// periodic sweep compares with the clock, so a live stream owns no timer.
#pragma once

#include <array>
#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "server/http.h"
#include "server/http_rules.h"
#include "server/send_buffer.h"

namespace boreas::http_internal {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using SteadyTime = std::chrono::steady_clock::time_point;

inline auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

class Connection;

constexpr size_t kBodyReadBytes = 16 << 10;

// What all connections of a server share.
struct HttpShared {
  HttpShared(const HttpOptions& options_in, HttpHandler& handler_in) : options(options_in), handler(handler_in) {}

  void mark_for_flush(std::shared_ptr<Connection> connection);
  void connection_gone(Connection* connection);

  const HttpOptions options;
  HttpHandler& handler;
  bool closing = false;                    // answers say "Connection: close"
  bool stopping = false;                   // no connection is kept for another request
  bool destroying = false;                 // the server's destructor runs: connections only vanish
  int64_t body_bytes = 0;                  // of bodies being received, all connections
  std::array<char, kBodyReadBytes> piece;  // scratch: one decoded piece of a body
  std::unordered_set<Connection*> connections;
  std::vector<std::shared_ptr<Connection>> to_flush;
  asio::io_context io{1};  // last: coroutines die with it and still find what is above
};

class Exchange final : public HttpResponder {
 public:
  Exchange(Connection* connection, bool head_only, bool http10)
      : connection_(connection), head_only_(head_only), http10_(http10) {}

  void send(HttpAnswer answer) override;
  void start_sse(const HttpFields& fields) override;
  void sse(std::string_view data) override;
  void end() override;
  bool congested() const override;
  bool gone() const override { return connection_ == nullptr; }
  void on_disconnect(std::function<void()> callback) override { disconnect_callback_ = std::move(callback); }
  void on_writable(std::function<void()> callback) override { writable_callback_ = std::move(callback); }

  void ping();
  void writable() {
    if (writable_callback_) writable_callback_();
  }
  // The connection ends first (the client left) or the answer is complete.
  void detach(bool client_left) {
    connection_ = nullptr;
    const std::function<void()> callback = std::exchange(disconnect_callback_, nullptr);
    writable_callback_ = nullptr;
    if (client_left && callback) callback();
  }
  bool streaming() const { return streaming_; }

 private:
  void append_event(std::string_view before, std::string_view data);

  Connection* connection_;  // null once over
  bool head_only_;
  bool http10_;
  bool streaming_ = false;
  std::function<void()> disconnect_callback_;
  std::function<void()> writable_callback_;
};

enum class Phase : uint8_t { kIdle, kHeader, kBody, kAnswer, kLinger };

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpShared& server, tcp::socket socket) : server_(server), socket_(std::move(socket)), over_(server.io) {
    over_.expires_at(SteadyTime::max());
  }
  ~Connection() {
    server_.body_bytes -= body_bytes_;
    server_.connection_gone(this);
  }

  asio::awaitable<void> serve(std::shared_ptr<Connection> self);
  void sweep(SteadyTime now);
  void flush();
  void leave();  // the client is gone, or given up
  void close_if_waiting() {
    if (!exchange_ && phase_ != Phase::kLinger) leave();
  }

  // For Exchange.
  std::string& tail() {
    if (!marked_) {
      marked_ = true;
      server_.mark_for_flush(shared_from_this());
    }
    return out_.tail();
  }
  // Whoever hears that it is congested is told when it is no more.
  bool congested() {
    const bool full = out_.waiting() >= server_.options.stream_bytes_max;
    was_congested_ = was_congested_ || full;
    return full;
  }
  void answer_complete() { answer_complete_ = true; }
  void must_close() { keep_alive_ = false; }
  bool keeps_alive() {
    if (server_.closing || server_.stopping) keep_alive_ = false;
    return keep_alive_;
  }
  int fd() { return socket_.native_handle(); }
  void not_marked() { marked_ = false; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;

  asio::awaitable<bool> serve_one();
  asio::awaitable<std::optional<HttpRefusal>> read_header();
  void skip_empty_line();
  std::optional<HttpRefusal> parse_header(size_t header_bytes);
  asio::awaitable<std::optional<HttpRefusal>> read_body();
  std::optional<HttpRefusal> take_body_piece(bool& need_more);
  asio::awaitable<size_t> read_some(size_t bytes_max);
  asio::awaitable<void> wait_for_answer();
  asio::awaitable<bool> refuse(HttpRefusal refusal);
  asio::awaitable<void> linger();
  void begin_exchange();
  void watch();
  void arm(Phase phase, int64_t timeout_ms) {
    phase_ = phase;
    deadline_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  }
  std::optional<HttpRefusal> timeout_refusal() const {
    if (timed_out_) return HttpRefusal{408, "The request did not arrive in time."};
    return std::nullopt;
  }

  HttpShared& server_;
  tcp::socket socket_;
  asio::steady_timer over_;  // cancelled when the answer has left or the client has
  boost::beast::flat_buffer in_;
  std::optional<Parser> parser_;
  HttpRequest request_;
  SendBuffer out_;
  std::shared_ptr<Exchange> exchange_;  // while a request is being answered
  Phase phase_ = Phase::kIdle;
  SteadyTime deadline_ = SteadyTime::max();
  SteadyTime body_deadline_ = SteadyTime::max();
  SteadyTime written_at_{};     // when bytes left last
  SteadyTime stalled_since_{};  // while stalled_: when the client last took a byte
  int64_t body_bytes_ = 0;
  uint64_t exchange_number_ = 0;
  bool gone_ = false;
  bool timed_out_ = false;
  bool keep_alive_ = true;
  bool has_body_ = false;
  bool http10_ = false;
  bool answer_complete_ = false;  // all of it is in out_
  bool marked_ = false;           // in the server's list of connections to flush
  bool waits_for_write_ = false;
  bool stalled_ = false;  // the socket is full
  bool was_congested_ = false;
  bool has_pipelined_bytes_ = false;  // unread bytes hide the end of the stream from MSG_PEEK
};

}  // namespace boreas::http_internal
