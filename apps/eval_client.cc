#include "eval_client.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

namespace boreas {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr int64_t kConnectMs = 10'000;
constexpr uint32_t kHeaderBytesMax = 64 << 10;
constexpr auto kStopPoll = std::chrono::milliseconds(50);
constexpr size_t kPieceBytes = 16 << 10;

// A server may close an idle connection at any time.
bool is_closed(const beast::error_code& error) {
  return error == http::error::end_of_stream || error == asio::error::connection_reset ||
         error == asio::error::broken_pipe;
}

template <class Fields>
int32_t retry_after(const Fields& fields) {
  const std::string text(fields[http::field::retry_after]);
  int32_t seconds = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? seconds : -1;
}

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

Result<HttpTarget> parse_target(const std::string& url) {
  const Error bad{"--url must be like http://127.0.0.1:8000, not '" + url + "'", "url"};
  if (url.rfind("https://", 0) == 0) {
    return Error{"https is not supported; name a server (or a proxy on this machine) that speaks plain http", "url"};
  }
  constexpr std::string_view kScheme = "http://";
  if (url.rfind(kScheme, 0) != 0 || !is_printable(url)) return bad;
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string authority = rest.substr(0, slash);
  HttpTarget target;
  target.base = rest.substr(slash);
  if (target.base.find_first_of("?#") != std::string::npos || authority.find('@') != std::string::npos) return bad;
  while (!target.base.empty() && target.base.back() == '/') target.base.pop_back();
  if (target.base.size() < 3 || target.base.substr(target.base.size() - 3) != "/v1") target.base += "/v1";
  const size_t bracket = authority.rfind(']');  // of an IPv6 address
  const size_t colon = authority.rfind(':');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  target.port = has_port ? authority.substr(colon + 1) : "80";
  target.host = authority.substr(0, has_port ? colon : authority.size());
  if (target.host.size() > 2 && target.host.front() == '[' && target.host.back() == ']') {
    target.host = target.host.substr(1, target.host.size() - 2);
  }
  const bool digits = std::all_of(target.port.begin(), target.port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (target.host.empty() || target.port.empty() || target.port.size() > 5 || !digits) return bad;
  return target;
}

class HttpClient::Impl {
 public:
  Impl(HttpTarget target, int64_t timeout_ms)
      : target_(std::move(target)), timeout_(std::chrono::milliseconds(timeout_ms)) {}

  Result<HttpReply> exchange(http::verb verb, const std::string& path, const std::string& body) {
    return exchange(make_request(verb, path, body), {}, nullptr);
  }

  Result<HttpReply> exchange_stream(const std::string& path, const std::string& body, const StreamSink& sink,
                                    const std::atomic<bool>& stop) {
    return exchange(make_request(http::verb::post, path, body), sink, &stop);
  }

 private:
  Result<HttpReply> exchange(const std::string& request, const StreamSink& sink, const std::atomic<bool>* stop) {
    stop_ = stop;
    const bool reused = stream_.has_value();
    HttpReply reply;
    beast::error_code error = attempt(request, reply, sink);
    // That a server closed an idle connection says nothing about the request.
    if (reused && reply.status == 0 && is_closed(error)) error = attempt(request, reply, sink);
    stop_ = nullptr;
    if (!error) return reply;
    const bool connected = stream_.has_value();
    stream_.reset();
    if (stop && *stop) return Error{"stopped", "stopped"};
    if (error == beast::error::timeout) return Error{"no answer from " + where() + " in time", "timeout"};
    if (!connected) return Error{"no connection to " + where() + ": " + error.message(), "url"};
    const bool broken = is_closed(error) || error == http::error::partial_message || error == asio::error::eof;
    return Error{"the answer from " + where() + " broke off: " + error.message(), broken ? "closed" : "http"};
  }

  std::string where() const { return target_.host + ":" + target_.port; }

  // As one piece of bytes: Asio's composed writing of Beast's buffers costs the compiler seconds.
  std::string make_request(http::verb verb, const std::string& path, const std::string& body) const {
    http::request<http::empty_body> request(verb, target_.base + path, 11);
    request.set(http::field::host, where());
    request.set(http::field::user_agent, "boreas");
    if (!target_.api_key.empty()) request.set(http::field::authorization, "Bearer " + target_.api_key);
    if (verb == http::verb::post) {
      request.set(http::field::content_type, "application/json");
      request.content_length(body.size());
    }
    std::ostringstream text;
    text << request.base() << body;
    return text.str();
  }

  beast::error_code connect() {
    beast::error_code error;
    asio::ip::tcp::resolver resolver(io_);
    const auto addresses = resolver.resolve(target_.host, target_.port, error);
    if (error) return error;
    stream_.emplace(io_);
    stream_->expires_after(std::min(timeout_, std::chrono::milliseconds(kConnectMs)));
    stream_->async_connect(addresses, [&](beast::error_code result, const auto&) { error = result; });
    finish();
    return error;
  }

  // Connects first if need be; without stream_ afterwards, that failed.
  beast::error_code send(const std::string& request) {
    beast::error_code error;
    if (!stream_ && (error = connect())) {
      stream_.reset();
      return error;
    }
    stream_->expires_after(timeout_);
    asio::async_write(*stream_, asio::buffer(request), [&](beast::error_code result, size_t) { error = result; });
    finish();
    return error;
  }

  using Parser = http::response_parser<http::buffer_body>;

  // Reads once: up to the end of the headers, then pieces of the body.
  beast::error_code read_some(beast::flat_buffer& buffer, Parser& parser) {
    beast::error_code error;
    http::async_read_some(*stream_, buffer, parser, [&](beast::error_code result, size_t) { error = result; });
    finish();
    return error;
  }

  // Up to the end of the answer's headers. Interim answers (100 Continue, 103 Early Hints) are not the answer.
  beast::error_code read_header(beast::flat_buffer& buffer, std::optional<Parser>& parser) {
    beast::error_code error;
    do {
      parser.emplace();
      parser->body_limit(kBodyBytesMax);
      parser->header_limit(kHeaderBytesMax);
      while (!error && !parser->is_header_done()) error = read_some(buffer, *parser);
    } while (!error && parser->get().result_int() / 100 == 1);
    return error;
  }

  // On an error with stream_ left there was a connection. Without a sink the whole body goes into the reply: one way to
  // read for both, because each instance of Beast's reading costs the compiler seconds.
  beast::error_code attempt(const std::string& request, HttpReply& reply, const StreamSink& sink) {
    if (stream_ && reply.status == 0 && !stream_->socket().is_open()) stream_.reset();
    beast::error_code error = send(request);
    if (!stream_) return error;
    beast::flat_buffer buffer;
    std::optional<Parser> parser;
    if (!error) error = read_header(buffer, parser);
    if (error) {
      stream_->close();
      return error;
    }
    reply.status = parser->get().result_int();
    reply.retry_after_s = retry_after(parser->get());
    std::string piece(kPieceBytes, '\0');
    bool goes_on = true;
    while (goes_on && !parser->is_done()) {
      parser->get().body().data = piece.data();
      parser->get().body().size = piece.size();
      error = read_some(buffer, *parser);
      if (error == http::error::need_buffer) error = {};
      if (error) return error;
      const std::string_view bytes(piece.data(), piece.size() - parser->get().body().size);
      if (!sink || reply.status != 200) reply.body += bytes;
      else if (!bytes.empty()) goes_on = sink(bytes);
    }
    // Bytes behind the answer belong to nobody; the next one would be read out of step.
    if (!goes_on || !parser->keep_alive() || buffer.size() > 0) stream_.reset();
    return error;
  }

  // Until the operation that was started is over; with stop_, also when that becomes true.
  void finish() {
    io_.restart();
    if (stop_ == nullptr) {
      io_.run();
      return;
    }
    while (!io_.stopped()) {
      io_.run_for(kStopPoll);
      if (*stop_ && stream_) stream_->cancel();
    }
  }

  const HttpTarget target_;
  const std::chrono::milliseconds timeout_;
  asio::io_context io_;
  std::optional<beast::tcp_stream> stream_;
  const std::atomic<bool>* stop_ = nullptr;  // of the exchange that runs
};

HttpClient::HttpClient(HttpTarget target, int64_t timeout_ms)
    : impl_(std::make_unique<Impl>(std::move(target), timeout_ms)) {}

HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::get(const std::string& path) { return impl_->exchange(http::verb::get, path, {}); }

Result<HttpReply> HttpClient::post_json(const std::string& path, const std::string& body) {
  return impl_->exchange(http::verb::post, path, body);
}

Result<HttpReply> HttpClient::post_stream(const std::string& path, const std::string& body, const StreamSink& sink,
                                          const std::atomic<bool>& stop) {
  return impl_->exchange_stream(path, body, sink, stop);
}

}  // namespace boreas
