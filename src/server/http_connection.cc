#include "server/http_connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace boreas::http_internal {

namespace {

namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;

constexpr size_t kHeaderReadBytes = 4 << 10;
constexpr size_t kChunkLineBytesMax = 8 << 10;  // chunk size line with extensions, or trailers

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// HttpShared

void HttpShared::mark_for_flush(std::shared_ptr<Connection> connection) {
  to_flush.push_back(std::move(connection));
  if (to_flush.size() > 1) return;
  asio::post(io, [this] {
    const std::vector<std::shared_ptr<Connection>> marked = std::exchange(to_flush, {});
    for (const std::shared_ptr<Connection>& each : marked) {
      each->not_marked();
      each->flush();
    }
  });
}

void HttpShared::connection_gone(Connection* connection) {
  connections.erase(connection);
  if (stopping && connections.empty() && !destroying) io.stop();
}

// ---------------------------------------------------------------------------------------------------------------------
// Exchange

void Exchange::send(HttpAnswer answer) {
  if (!connection_) return;
  const BodyFraming framing = answer.status == 204 ? BodyFraming::kNone : BodyFraming::kLength;
  std::string& out = connection_->tail();
  out += response_head(answer.status, answer.fields, framing, answer.body.size(), connection_->keeps_alive());
  if (!head_only_) out += answer.body;
  connection_->answer_complete();
}

void Exchange::start_sse(const HttpFields& fields) {
  if (!connection_) return;
  if (http10_) connection_->must_close();
  const BodyFraming framing = http10_ ? BodyFraming::kUntilClose : BodyFraming::kChunked;
  connection_->tail() += response_head(200, fields, framing, 0, connection_->keeps_alive());
  streaming_ = true;
}

void Exchange::append_event(std::string_view before, std::string_view data) {
  if (!connection_ || !streaming_) return;
  std::string& out = connection_->tail();
  if (http10_) {
    out += before;
    out += data;
    out += "\n\n";
  } else {
    append_chunk(out, before, data, "\n\n");
  }
}

void Exchange::sse(std::string_view data) { append_event("data: ", data); }
void Exchange::ping() { append_event(": ping", ""); }

void Exchange::end() {
  if (!connection_ || !streaming_) return;
  std::string& out = connection_->tail();
  if (!http10_) out += "0\r\n\r\n";
  streaming_ = false;
  connection_->answer_complete();
}

bool Exchange::congested() const { return connection_ && connection_->congested(); }

// ---------------------------------------------------------------------------------------------------------------------
// Connection: reading

asio::awaitable<void> Connection::serve(std::shared_ptr<Connection> self) {
  while (!self->gone_ && co_await self->serve_one()) {
  }
  error_code ignored;
  self->socket_.close(ignored);
}

// One request and its answer. False: the connection ends.
asio::awaitable<bool> Connection::serve_one() {
  std::optional<HttpRefusal> refusal = co_await read_header();
  if (gone_) co_return false;
  if (refusal) co_return co_await refuse(std::move(*refusal));

  if (std::optional<HttpAnswer> answer = server_.handler.screen(request_)) {
    if (has_body_) keep_alive_ = false;
    begin_exchange();
    exchange_->send(std::move(*answer));
    co_await wait_for_answer();
    if (has_body_ && !gone_) co_await linger();
    co_return keep_alive_ && !gone_;
  }
  if (has_body_) {
    refusal = co_await read_body();
    if (gone_) co_return false;
    if (refusal) co_return co_await refuse(std::move(*refusal));
  }
  parser_.reset();
  if (in_.size() == 0) in_.shrink_to_fit();
  server_.body_bytes -= std::exchange(body_bytes_, 0);
  begin_exchange();
  server_.handler.handle(std::move(request_), exchange_);
  request_ = {};
  watch();
  co_await wait_for_answer();
  co_return keep_alive_ && !gone_;
}

asio::awaitable<size_t> Connection::read_some(size_t bytes_max) {
  error_code error;
  const size_t bytes = co_await socket_.async_read_some(in_.prepare(bytes_max), into(error));
  if (!error) {
    in_.commit(bytes);
    co_return bytes;
  }
  if (!timed_out_) leave();
  co_return 0;
}

// Old clients put an empty line behind a body; it is not part of the next request.
void Connection::skip_empty_line() {
  const auto* bytes = static_cast<const char*>(in_.data().data());
  if (in_.size() >= 2 && bytes[0] == '\r' && bytes[1] == '\n') in_.consume(2);
}

// Reads up to the empty line and parses. Leaves what follows in in_.
asio::awaitable<std::optional<HttpRefusal>> Connection::read_header() {
  HeaderScan scan(server_.options.header_bytes_max, server_.options.header_fields_max);
  arm(Phase::kIdle, server_.options.idle_timeout_ms);
  timed_out_ = false;
  while (true) {
    if (in_.size() > 0) {
      if (phase_ == Phase::kIdle) arm(Phase::kHeader, server_.options.header_timeout_ms);
      skip_empty_line();
      const std::string_view bytes(static_cast<const char*>(in_.data().data()), in_.size());
      if (std::optional<HttpRefusal> refusal = scan.look(bytes)) co_return refusal;
      if (scan.header_bytes() > 0) co_return parse_header(scan.header_bytes());
    } else {
      // Waiting between requests needs no buffer.
      if (server_.stopping) leave();
      error_code error;
      if (!gone_) co_await socket_.async_wait(tcp::socket::wait_read, into(error));
      if (error && !timed_out_) leave();
    }
    if (!gone_ && !timed_out_) co_await read_some(kHeaderReadBytes);
    if (gone_ || timed_out_) co_return timeout_refusal();
  }
}

std::optional<HttpRefusal> Connection::parse_header(size_t header_bytes) {
  parser_.emplace();
  // Our own scan has checked the length, so Beast's limit only has to be no smaller.
  parser_->header_limit(static_cast<uint32_t>(server_.options.header_bytes_max + 1));
  parser_->body_limit(static_cast<uint64_t>(server_.options.body_bytes_max));
  error_code error;
  const size_t used = parser_->put(asio::buffer(in_.data().data(), header_bytes), error);
  in_.consume(used);
  if (error == http::error::body_limit) {
    return HttpRefusal{413, "The body is larger than " + std::to_string(server_.options.body_bytes_max) + " bytes."};
  }
  if (error && error != http::error::need_more) return HttpRefusal{400, "Malformed HTTP: " + error.message() + "."};
  if (!parser_->is_header_done()) return HttpRefusal{400, "Malformed HTTP header."};

  const auto& message = parser_->get();
  request_ = {};
  request_.method = std::string(message.method_string());
  request_.path = std::string(target_path(std::string_view(message.target().data(), message.target().size())));
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    request_.fields.push_back({std::move(name), std::string(field.value())});
  }
  if (message.version() != 10 && message.version() != 11)
    return HttpRefusal{400, "Only HTTP/1.0 and 1.1 are spoken here."};
  http10_ = message.version() == 10;
  keep_alive_ = parser_->keep_alive();
  has_body_ = !parser_->is_done();
  return check_framing(request_.fields, http10_ ? 0 : 1);
}

asio::awaitable<std::optional<HttpRefusal>> Connection::read_body() {
  const std::string_view expect = request_.field("expect");
  if (!expect.empty() && !equals_ignoring_case(expect, "100-continue")) {
    co_return HttpRefusal{417, "The only expectation understood is 100-continue."};
  }
  if (!expect.empty()) tail() += "HTTP/1.1 100 Continue\r\n\r\n";
  if (const auto length = parser_->content_length()) {
    request_.body.reserve(std::min<size_t>(*length, 256 << 10));  // more only when it really comes
  }
  body_deadline_ = Clock::now() + std::chrono::milliseconds(server_.options.body_total_timeout_ms);
  bool need_more = in_.size() == 0;
  while (!parser_->is_done()) {
    if (need_more) {
      arm(Phase::kBody, server_.options.body_timeout_ms);
      deadline_ = std::min(deadline_, body_deadline_);
      co_await read_some(kBodyReadBytes);
      if (gone_ || timed_out_) co_return timeout_refusal();
    }
    if (std::optional<HttpRefusal> refusal = take_body_piece(need_more)) co_return refusal;
  }
  co_return std::nullopt;
}

std::optional<HttpRefusal> Connection::take_body_piece(bool& need_more) {
  auto& body = parser_->get().body();
  body.data = server_.piece.data();
  body.size = server_.piece.size();
  body.more = true;
  error_code error;
  const size_t used = parser_->put(in_.data(), error);
  in_.consume(used);
  const size_t taken = server_.piece.size() - body.size;
  request_.body.append(server_.piece.data(), taken);
  body_bytes_ += static_cast<int64_t>(taken);
  server_.body_bytes += static_cast<int64_t>(taken);
  need_more = error == http::error::need_more || (!error && used == 0);
  if (error == http::error::body_limit) {
    return HttpRefusal{413, "The body is larger than " + std::to_string(server_.options.body_bytes_max) + " bytes."};
  }
  if (error && error != http::error::need_more && error != http::error::need_buffer) {
    return HttpRefusal{400, "Malformed HTTP body: " + error.message() + "."};
  }
  if (used == 0 && in_.size() > kChunkLineBytesMax) return HttpRefusal{400, "A chunk's head is too long."};
  if (static_cast<int64_t>(request_.body.size()) > server_.options.body_bytes_max) {
    return HttpRefusal{413, "The body is larger than " + std::to_string(server_.options.body_bytes_max) + " bytes."};
  }
  if (server_.body_bytes > server_.options.bodies_bytes_max) {
    return HttpRefusal{503, "Too many large requests are arriving at once."};
  }
  return std::nullopt;
}

// ---------------------------------------------------------------------------------------------------------------------
// Connection: answering

void Connection::begin_exchange() {
  exchange_ = std::make_shared<Exchange>(this, request_.method == "HEAD", http10_);
  ++exchange_number_;
  phase_ = Phase::kAnswer;
  answer_complete_ = false;
  was_congested_ = false;
  has_pipelined_bytes_ = false;
  written_at_ = Clock::now();
}

asio::awaitable<void> Connection::wait_for_answer() {
  while (!gone_ && !(answer_complete_ && out_.waiting() == 0)) {
    error_code ignored;
    co_await over_.async_wait(into(ignored));
  }
  if (exchange_) exchange_->detach(false);
  exchange_.reset();
  error_code ignored;
  if (!gone_) socket_.cancel(ignored);  // the watch
}

asio::awaitable<bool> Connection::refuse(HttpRefusal refusal) {
  keep_alive_ = false;
  timed_out_ = false;
  request_.body = {};
  begin_exchange();
  exchange_->send(server_.handler.refuse(refusal.status, refusal.message));
  co_await wait_for_answer();
  if (!gone_) co_await linger();
  co_return false;
}

// Closing while the client still sends would reset the connection and the client would never see the answer.
asio::awaitable<void> Connection::linger() {
  arm(Phase::kLinger, server_.options.linger_timeout_ms);
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  in_.consume(in_.size());
  while (!error) {
    co_await socket_.async_read_some(in_.prepare(kBodyReadBytes), into(error));
  }
}

void Connection::watch() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this(), number = exchange_number_](error_code error) {
    if (error || self->gone_ || !self->exchange_ || self->exchange_number_ != number) return;
    char byte;
    const ssize_t n = ::recv(self->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) {
      self->has_pipelined_bytes_ = true;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      self->watch();
    } else {
      self->leave();
    }
  });
}

void Connection::leave() {
  if (gone_) return;
  gone_ = true;
  error_code ignored;
  socket_.close(ignored);
  over_.cancel();
  if (exchange_) exchange_->detach(true);
}

void Connection::flush() {
  if (gone_ || waits_for_write_) return;
  size_t sent_bytes = 0;
  const SendBuffer::Outcome outcome = out_.flush(fd(), sent_bytes);
  if (sent_bytes > 0) written_at_ = Clock::now();
  if (outcome == SendBuffer::Outcome::kBroken) return leave();
  if (outcome == SendBuffer::Outcome::kStalled) {
    if (sent_bytes > 0 || !stalled_) stalled_since_ = Clock::now();
    waits_for_write_ = true;
    socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code error) {
      self->waits_for_write_ = false;
      if (!error) self->flush();
    });
  }
  stalled_ = outcome == SendBuffer::Outcome::kStalled;
  if (was_congested_ && out_.waiting() < server_.options.stream_bytes_max / 2 && exchange_) {
    was_congested_ = false;
    exchange_->writable();
  }
  if (answer_complete_ && out_.waiting() == 0) over_.cancel();
}

void Connection::sweep(SteadyTime now) {
  if (gone_) return;
  if (phase_ != Phase::kAnswer) {
    if (now < deadline_) return;
    if (phase_ == Phase::kIdle || phase_ == Phase::kLinger) return leave();
    timed_out_ = true;
    error_code ignored;
    socket_.cancel(ignored);
    return;
  }
  if (stalled_ && now - stalled_since_ >= std::chrono::milliseconds(server_.options.write_timeout_ms)) return leave();
  if (has_pipelined_bytes_) {
    pollfd state{fd(), POLLRDHUP, 0};
    if (::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR))) return leave();
  }
  if (server_.options.ping_interval_ms > 0 && out_.waiting() == 0 && exchange_ && exchange_->streaming() &&
      now - written_at_ >= std::chrono::milliseconds(server_.options.ping_interval_ms)) {
    exchange_->ping();
  }
}

}  // namespace boreas::http_internal
