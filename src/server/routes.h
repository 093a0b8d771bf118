// What is served under which path: one table, one line an endpoint. Checks that come before any endpoint (API keys,
// methods, content type, readiness) and what every answer carries (request id, CORS) are here as well.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"
#include "server/serving.h"

namespace boreas {

// A request under way to its endpoint.
struct Call {
  HttpRequest request;
  std::string path_rest;   // behind a prefix route's path, percent-decoded
  std::string request_id;  // the client's X-Request-Id, or random
  std::shared_ptr<HttpResponder> responder;
};

struct Route;  // a line of the table

class Routes final : public HttpHandler {
 public:
  explicit Routes(const ServerOptions& options) : options_(options) {}
  // Before the HTTP server runs.
  void set_serving(Serving* serving) { serving_ = serving; }

  std::optional<HttpAnswer> screen(const HttpRequest& request) override;
  void handle(HttpRequest&& request, std::shared_ptr<HttpResponder> responder) override;
  HttpAnswer refuse(int status, std::string_view message) override;

 private:
  std::optional<ApiError> check_key(const HttpRequest& request) const;
  void add_cors(const HttpRequest& request, HttpFields& fields) const;
  HttpAnswer preflight(const HttpRequest& request, std::string_view methods) const;
  std::optional<HttpAnswer> answer_before_body(const HttpRequest& request) const;

  void count(const Route* route, std::string_view method, int status) const;

  const ServerOptions& options_;
  Serving* serving_ = nullptr;
};

// Endpoints.
void serve_health(Serving& serving, Call&& call);
void serve_live(Serving& serving, Call&& call);
void serve_version(Serving& serving, Call&& call);
void serve_models(Serving& serving, Call&& call);
void serve_model(Serving& serving, Call&& call);
void serve_load(Serving& serving, Call&& call);
void serve_metrics(Serving& serving, Call&& call);
void serve_chat_completions(Serving& serving, Call&& call);
void serve_completions(Serving& serving, Call&& call);

// Whether two secrets are equal, in a time that depends on their lengths only.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace boreas
