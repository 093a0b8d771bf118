#include "server/server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <future>
#include <thread>
#include <utility>

#include "base/check.h"
#include "server/log.h"
#include "server/openai/chat_request.h"
#include "server/routes.h"
#include "server/serving.h"

namespace boreas {

namespace {

constexpr int64_t kFlushMs = 2000;  // for answers under way when the server ends
constexpr int64_t kDeadMs = 400;    // how long a dead engine's server still answers, so that clients see why
constexpr int64_t kDeadFlushMs = 200;
// A fault ends the process within two seconds, also one that waits tell by their deadlines, after at most 1.2 s
// (exec/cuda/deadlines.h).
static_assert(kDeadMs + kDeadFlushMs < 2000 - 1200);

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Status check_options(const ServerOptions& options) {
  CHECK(!options.model_names.empty());
  if (options.api_keys.empty() && !options.allow_no_auth && !is_loopback(options.http.host)) {
    return Error{"refusing to listen on " + options.http.host +
                     " without an API key: give --api-key, or --allow-no-auth if everybody there may use the server",
                 "host"};
  }
  for (const std::string& key : options.api_keys) {
    if (key.empty()) return Error{"an API key is empty", "api-key"};
  }
  if (options.default_chat_template_kwargs.empty()) return Ok{};
  boost::system::error_code error;
  const boost::json::value arguments = boost::json::parse(options.default_chat_template_kwargs, error);
  if (error || !arguments.is_object()) {
    return Error{"--default-chat-template-kwargs must be a JSON object", "default-chat-template-kwargs"};
  }
  FieldReader reader(arguments.get_object());
  check_template_arguments(reader, arguments.get_object(), "default-chat-template-kwargs");
  if (reader.error()) return Error{reader.error()->message, reader.error()->param};
  return Ok{};
}

}  // namespace

Result<OutputMarkers> find_output_markers(const Tokenizer& tokenizer) {
  struct Marker {
    const char* name;
    TokenId OutputMarkers::*id;
    bool optional;
  };
  constexpr Marker kMarkers[] = {
      {"<|START_THINKING|>", &OutputMarkers::start_thinking, false},
      {"<|END_THINKING|>", &OutputMarkers::end_thinking, false},
      {"<|START_TEXT|>", &OutputMarkers::start_text, false},
      {"<|END_TEXT|>", &OutputMarkers::end_text, false},
      {"<|START_ACTION|>", &OutputMarkers::start_action, false},
      {"<|END_ACTION|>", &OutputMarkers::end_action, false},
      {"<|START_RESPONSE|>", &OutputMarkers::start_response, true},
      {"<|END_RESPONSE|>", &OutputMarkers::end_response, true},
      {"<|END_OF_TURN_TOKEN|>", &OutputMarkers::end_of_turn, false},
      {"<|START_OF_TURN_TOKEN|>", &OutputMarkers::start_of_turn, false},
      {"<|CHATBOT_TOKEN|>", &OutputMarkers::chatbot, false},
      {"<BOS_TOKEN>", &OutputMarkers::bos, false},
  };
  OutputMarkers markers;
  for (const Marker& marker : kMarkers) {
    const std::optional<TokenId> id = tokenizer.token_id(marker.name);
    if (id) markers.*marker.id = *id;
    if (!id && !marker.optional) return Error{std::string("the tokenizer has no token ") + marker.name, ""};
  }
  return markers;
}

class Server::Impl {
 public:
  explicit Impl(ServerOptions options_in)
      : options(std::move(options_in)),
        routes(options),
        http(options.http, routes),
        serving(http, options, [this] { stop_after_fault(); }) {
    routes.set_serving(&serving);
  }

  Status start() {
    RETURN_IF_ERROR(http.listen());
    if (options.handle_signals) http.on_signal([this](int) { on_signal(); });
    io_thread = std::thread([this] {
      ::pthread_setname_np(::pthread_self(), "http");
      http.run();
    });
    return Ok{};
  }

  void on_signal() {
    // The second signal, or nothing is served yet: there is nobody to wait for.
    if (serving.state() != ServingState::kReady) ::_exit(serving.state() == ServingState::kDead ? 1 : 0);
    log_info("shutting down; running requests have " + std::to_string(options.shutdown_timeout_ms / 1000) +
             " s, another signal ends them now");
    begin_drain();
  }

  // I/O thread.
  void begin_drain() {
    if (serving.state() == ServingState::kDraining || serving.state() == ServingState::kDead) return;
    serving.set_state(ServingState::kDraining);
    http.close_after_answer();
    if (!serving.has_model()) return http.stop(kFlushMs);
    drain_thread = std::thread([this, engine = serving.model().served.engine] {
      engine->drain(options.shutdown_timeout_ms);
      http.post([this] { serving.deliver_events(); });
      http.stop(kFlushMs);
    });
  }

  // I/O thread. Also while draining: the drain ends at once, as all requests have failed.
  void stop_after_fault() {
    exit_code = 1;
    http.close_after_answer();
    http.call_after(kDeadMs, [this] { http.stop(kDeadFlushMs); });
  }

  int wait() {
    if (io_thread.joinable()) io_thread.join();
    if (drain_thread.joinable()) drain_thread.join();
    return exit_code;
  }

  const ServerOptions options;
  Routes routes;
  HttpServer http;
  Serving serving;
  int exit_code = 0;
  std::thread io_thread;
  std::thread drain_thread;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  impl_->http.stop(0);
  impl_->wait();
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  RETURN_IF_ERROR(check_options(options));
  auto impl = std::make_unique<Impl>(std::move(options));
  RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

uint16_t Server::port() const { return impl_->http.port(); }

std::string Server::url() const {
  const std::string& host = impl_->options.http.host;
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return "http://" + shown + ":" + std::to_string(port());
}

void Server::loading(std::string phase, double progress) {
  impl_->http.post(
      [impl = impl_.get(), phase = std::move(phase), progress] { impl->serving.set_loading(phase, progress); });
}

void Server::ready(const ServedModel& model) {
  std::promise<void> done;
  impl_->http.post([this, &model, &done] {
    impl_->serving.set_model(model);
    done.set_value();
  });
  done.get_future().wait();
}

void Server::shut_down() {
  impl_->http.post([impl = impl_.get()] { impl->begin_drain(); });
}

int Server::wait() { return impl_->wait(); }

}  // namespace boreas
