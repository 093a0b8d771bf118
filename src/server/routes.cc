#include "server/routes.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "server/http_rules.h"
#include "server/log.h"
#include "server/request_ids.h"

namespace boreas {

enum class Access : uint8_t { kOpen, kKey };
enum class Needs : uint8_t { kNothing, kModel };  // kModel: 503 until it is loaded

struct Route {
  std::string_view method;
  std::string_view path;  // ends with '/': everything below it
  Access access;
  Needs needs;
  void (*serve)(Serving&, Call&&);
};

namespace {

constexpr Route kRoutes[] = {
    {"GET", "/health", Access::kOpen, Needs::kNothing, serve_health},
    {"GET", "/ready", Access::kOpen, Needs::kNothing, serve_health},
    {"GET", "/ping", Access::kOpen, Needs::kNothing, serve_health},
    {"POST", "/ping", Access::kOpen, Needs::kNothing, serve_health},
    {"GET", "/v1/health", Access::kOpen, Needs::kNothing, serve_health},
    {"GET", "/live", Access::kOpen, Needs::kNothing, serve_live},
    {"GET", "/version", Access::kOpen, Needs::kNothing, serve_version},
    {"GET", "/metrics", Access::kOpen, Needs::kModel, serve_metrics},
    {"GET", "/load", Access::kKey, Needs::kModel, serve_load},
    {"GET", "/v1/models", Access::kKey, Needs::kModel, serve_models},
    {"GET", "/v1/models/", Access::kKey, Needs::kModel, serve_model},
    {"POST", "/v1/chat/completions", Access::kKey, Needs::kModel, serve_chat_completions},
    {"POST", "/v1/completions", Access::kKey, Needs::kModel, serve_completions},
};

constexpr std::string_view kCorsMaxAge = "86400";

bool matches(const Route& route, std::string_view path) {
  if (route.path.back() == '/')
    return path.size() > route.path.size() && path.substr(0, route.path.size()) == route.path;
  return path == route.path;
}

// "/v1/models/" is "/v1/models".
std::string_view without_slash(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

const Route* find_route(std::string_view method, std::string_view path) {
  if (method == "HEAD") method = "GET";
  for (const Route& route : kRoutes) {
    if (route.method == method && matches(route, path)) return &route;
  }
  return nullptr;
}

// Methods of a path for Allow; empty: nobody knows the path.
std::string allowed_methods(std::string_view path) {
  std::string methods;
  for (const Route& route : kRoutes) {
    if (!matches(route, path)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method;
    if (route.method == "GET") methods += ", HEAD";
  }
  if (!methods.empty()) methods += ", OPTIONS";
  return methods;
}

bool is_json(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && (content_type.back() == ' ' || content_type.back() == '\t'))
    content_type.remove_suffix(1);
  return equals_ignoring_case(content_type, "application/json");
}

// Adds to every answer what does not depend on the endpoint; tells its status.
class DecoratedResponder final : public HttpResponder {
 public:
  DecoratedResponder(std::shared_ptr<HttpResponder> inner, HttpFields fields, std::function<void(int)> on_status)
      : inner_(std::move(inner)), fields_(std::move(fields)), on_status_(std::move(on_status)) {}
  void send(HttpAnswer answer) override {
    if (!gone()) on_status_(answer.status);
    answer.fields.insert(answer.fields.end(), fields_.begin(), fields_.end());
    inner_->send(std::move(answer));
  }
  void start_sse(const HttpFields& fields) override {
    HttpFields all = fields;
    all.insert(all.end(), fields_.begin(), fields_.end());
    fields_.clear();
    if (!gone()) on_status_(200);
    inner_->start_sse(all);
  }
  void sse(std::string_view data) override { inner_->sse(data); }
  void end() override { inner_->end(); }
  bool congested() const override { return inner_->congested(); }
  bool gone() const override { return inner_->gone(); }
  void on_disconnect(std::function<void()> callback) override { inner_->on_disconnect(std::move(callback)); }
  void on_writable(std::function<void()> callback) override { inner_->on_writable(std::move(callback)); }

 private:
  std::shared_ptr<HttpResponder> inner_;
  HttpFields fields_;
  std::function<void(int)> on_status_;
};

// Of the few that are counted apart; clients may make up others.
std::string_view known_method(std::string_view method) {
  for (const std::string_view known : {"GET", "HEAD", "POST", "OPTIONS"}) {
    if (method == known) return known;
  }
  return "other";
}

}  // namespace

bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  const size_t count = std::max(a.size(), b.size());
  for (size_t i = 0; i < count; ++i) {
    const auto x = static_cast<unsigned char>(i < a.size() ? a[i] : 0);
    const auto y = static_cast<unsigned char>(i < b.size() ? b[i] : 0);
    difference |= static_cast<unsigned>(x ^ y);
  }
  return difference == 0;
}

std::optional<ApiError> Routes::check_key(const HttpRequest& request) const {
  if (options_.api_keys.empty()) return std::nullopt;
  std::string_view given = request.field("authorization");
  constexpr std::string_view kScheme = "bearer ";
  const bool is_bearer =
      given.size() > kScheme.size() && equals_ignoring_case(given.substr(0, kScheme.size()), kScheme);
  if (!is_bearer) return invalid_api_key(false);
  given.remove_prefix(kScheme.size());
  while (!given.empty() && given.front() == ' ') given.remove_prefix(1);
  bool known = false;
  for (const std::string& key : options_.api_keys) known = equal_secrets(key, given) || known;
  if (!known) return invalid_api_key(true);
  return std::nullopt;
}

void Routes::add_cors(const HttpRequest& request, HttpFields& fields) const {
  const std::string_view origin = request.field("origin");
  if (origin.empty()) return;
  const auto& allowed = options_.allowed_origins;
  if (std::find(allowed.begin(), allowed.end(), "*") != allowed.end()) {
    fields.push_back({"Access-Control-Allow-Origin", "*"});
  } else if (std::find(allowed.begin(), allowed.end(), origin) != allowed.end()) {
    fields.push_back({"Access-Control-Allow-Origin", std::string(origin)});
    fields.push_back({"Vary", "Origin"});
  } else {
    return;
  }
  // Scripts in browsers see no other fields of ours.
  fields.push_back({"Access-Control-Expose-Headers", "X-Request-Id, Retry-After, retry-after-ms"});
}

HttpAnswer Routes::preflight(const HttpRequest& request, std::string_view methods) const {
  HttpAnswer answer{204, {{"Allow", std::string(methods)}}, {}};
  const std::string_view wanted = request.field("access-control-request-headers");
  answer.fields.push_back({"Access-Control-Allow-Methods", std::string(methods)});
  answer.fields.push_back({"Access-Control-Allow-Headers",
                           wanted.empty() ? "Authorization, Content-Type, X-Request-Id" : std::string(wanted)});
  answer.fields.push_back({"Access-Control-Max-Age", std::string(kCorsMaxAge)});
  return answer;
}

// Everything that can be said from the header alone.
std::optional<HttpAnswer> Routes::answer_before_body(const HttpRequest& request) const {
  const std::string_view path = without_slash(request.path);
  const std::string methods = path == "*" ? "GET, HEAD, POST, OPTIONS" : allowed_methods(path);
  if (methods.empty()) {
    if (const auto error = check_key(request)) return error->answer();
    return not_found(path).answer();
  }
  if (request.method == "OPTIONS") return preflight(request, methods);
  const Route* route = find_route(request.method, path);
  if (!route) {
    HttpAnswer answer = refused(405, "Method " + echo_text(request.method) + " is not allowed here.").answer();
    answer.fields.push_back({"Allow", methods});
    return answer;
  }
  if (route->access == Access::kKey) {
    if (const auto error = check_key(request)) return error->answer();
  }
  if (route->needs == Needs::kModel && serving_->state() == ServingState::kLoading)
    return serving_->unavailable_answer();
  if (request.method != "POST" || route->needs == Needs::kNothing) return std::nullopt;
  if (!is_json(request.field("content-type"))) {
    return refused(415, "Content-Type must be application/json.").answer();
  }
  const std::string_view coding = request.field("content-encoding");
  if (!coding.empty() && !equals_ignoring_case(coding, "identity")) {
    return refused(415, "Content-Encoding is not supported.").answer();
  }
  if (const auto error = serving_->unavailable()) return error->answer();
  return std::nullopt;
}

void Routes::count(const Route* route, std::string_view method, int status) const {
  ++serving_->traffic().answers[{route ? route->path : "none", known_method(method), status}];
}

HttpAnswer Routes::refuse(int status, std::string_view message) {
  count(nullptr, "other", status);
  return refused(status, std::string(message)).answer();
}

std::optional<HttpAnswer> Routes::screen(const HttpRequest& request) {
  std::optional<HttpAnswer> answer = answer_before_body(request);
  if (!answer) return std::nullopt;
  count(find_route(request.method, without_slash(request.path)), request.method, answer->status);
  add_cors(request, answer->fields);
  const std::string_view given = request.field("x-request-id");
  const std::string id = is_request_id(given) ? std::string(given) : random_base62(24);
  if (answer->status >= 400) log_refusal(id, echo_text(request.path), answer->status, "", "");
  answer->fields.push_back({"X-Request-Id", id});
  return answer;
}

void Routes::handle(HttpRequest&& request, std::shared_ptr<HttpResponder> responder) {
  const std::string_view path = without_slash(request.path);
  const Route* route = find_route(request.method, path);
  Call call;
  const std::string_view id = request.field("x-request-id");
  call.request_id = is_request_id(id) ? std::string(id) : random_base62(24);
  HttpFields fields{{"X-Request-Id", call.request_id}};
  add_cors(request, fields);
  call.responder = std::make_shared<DecoratedResponder>(
      std::move(responder), std::move(fields),
      [this, route, method = known_method(request.method)](int status) { count(route, method, status); });
  if (route->path.back() == '/') {
    const std::optional<std::string> rest = percent_decode(path.substr(route->path.size()));
    if (!rest) return call.responder->send(refused(400, "Malformed percent-encoding in the path.").answer());
    call.path_rest = *rest;
  }
  call.request = std::move(request);
  route->serve(*serving_, std::move(call));
}

}  // namespace boreas
