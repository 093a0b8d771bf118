#include "eval_client.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace boreas {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr int64_t kConnectMs = 10'000;
constexpr uint32_t kHeaderBytesMax = 64 << 10;

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
    http::request<http::string_body> request(verb, target_.base + path, 11);
    request.set(http::field::host, target_.host + ":" + target_.port);
    request.set(http::field::user_agent, "boreas-eval");
    if (!target_.api_key.empty()) request.set(http::field::authorization, "Bearer " + target_.api_key);
    if (verb == http::verb::post) request.set(http::field::content_type, "application/json");
    request.body() = body;
    request.prepare_payload();
    const bool reused = stream_.has_value();
    HttpReply reply;
    beast::error_code error = attempt(request, reply);
    // A server may close an idle connection at any time; that says nothing about the request.
    const bool closed = error == http::error::end_of_stream || error == asio::error::connection_reset ||
                        error == asio::error::broken_pipe;
    if (reused && closed) error = attempt(request, reply);
    if (!error) return reply;
    stream_.reset();
    const std::string where = target_.host + ":" + target_.port;
    if (error == beast::error::timeout) return Error{"no answer from " + where + " in time", "timeout"};
    return Error{"no answer from " + where + ": " + error.message(), "url"};
  }

 private:
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

  beast::error_code attempt(http::request<http::string_body>& request, HttpReply& reply) {
    beast::error_code error;
    if (!stream_ && (error = connect())) {
      stream_.reset();
      return error;
    }
    stream_->expires_after(timeout_);
    http::async_write(*stream_, request, [&](beast::error_code result, size_t) { error = result; });
    finish();
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kBodyBytesMax);
    parser.header_limit(kHeaderBytesMax);
    if (!error) {
      http::async_read(*stream_, buffer, parser, [&](beast::error_code result, size_t) { error = result; });
      finish();
    }
    if (error || !parser.keep_alive()) stream_.reset();
    if (error) return error;
    reply.status = parser.get().result_int();
    reply.body = std::move(parser.get().body());
    return error;
  }

  void finish() {
    io_.restart();
    io_.run();
  }

  const HttpTarget target_;
  const std::chrono::milliseconds timeout_;
  asio::io_context io_;
  std::optional<beast::tcp_stream> stream_;
};

HttpClient::HttpClient(HttpTarget target, int64_t timeout_ms)
    : impl_(std::make_unique<Impl>(std::move(target), timeout_ms)) {}

HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::get(const std::string& path) { return impl_->exchange(http::verb::get, path, {}); }

Result<HttpReply> HttpClient::post_json(const std::string& path, const std::string& body) {
  return impl_->exchange(http::verb::post, path, body);
}

}  // namespace boreas
