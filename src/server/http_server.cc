// HttpServer: the listener, signals, the sweep over all deadlines, and the end.
#include <fcntl.h>

#include <csignal>

#include "server/http_connection.h"

namespace boreas {

using namespace http_internal;

namespace {
constexpr int64_t kAcceptPauseMs = 100;  // out of file descriptors
}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, HttpHandler& handler) : shared(options, handler) {}

  Status listen();
  asio::awaitable<void> accept_loop();
  void admit(tcp::socket socket);
  void arm_sweep();
  void sweep();
  void begin_stop(int64_t grace_ms);
  void wait_for_signal();

  HttpShared shared;
  std::function<void()> sweep_callback;
  std::function<void(int)> signal_callback;
  bool sweep_armed = false;
  tcp::acceptor acceptor{shared.io};
  asio::steady_timer sweep_timer{shared.io};
  asio::signal_set signals{shared.io};
};

// ---------------------------------------------------------------------------------------------------------------------
// HttpServer::Impl

Status HttpServer::Impl::listen() {
  error_code error;
  tcp::resolver resolver(shared.io);
  const auto found = resolver.resolve(shared.options.host, std::to_string(shared.options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) return Error{"cannot listen on " + shared.options.host + ": " + error.message(), "host"};
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(4096, error);
  if (error) {
    return Error{
        "cannot listen on " + shared.options.host + ":" + std::to_string(shared.options.port) + ": " + error.message(),
        "port"};
  }
  ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  asio::co_spawn(shared.io, accept_loop(), asio::detached);
  return Ok{};
}

asio::awaitable<void> HttpServer::Impl::accept_loop() {
  asio::steady_timer pause(shared.io);
  while (acceptor.is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(into(error));
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) break;
    if (error && error != asio::error::connection_aborted) {
      pause.expires_after(std::chrono::milliseconds(kAcceptPauseMs));
      error_code ignored;
      co_await pause.async_wait(into(ignored));
    }
    if (!error) admit(std::move(socket));
  }
}

void HttpServer::Impl::admit(tcp::socket socket) {
  error_code ignored;
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  if (static_cast<int32_t>(shared.connections.size()) >= shared.options.connections_max) {
    const HttpAnswer answer = shared.handler.refuse(503, "Too many connections.");
    std::string bytes = response_head(answer.status, answer.fields, BodyFraming::kLength, answer.body.size(), false);
    bytes += answer.body;
    SendBuffer out;
    out.tail() = std::move(bytes);
    size_t sent_bytes = 0;
    out.flush(socket.native_handle(), sent_bytes);
    return;
  }
  auto connection = std::make_shared<Connection>(shared, std::move(socket));
  shared.connections.insert(connection.get());
  asio::co_spawn(shared.io, connection->serve(connection), asio::detached);
  arm_sweep();
}

void HttpServer::Impl::arm_sweep() {
  if (sweep_armed || shared.connections.empty()) return;
  sweep_armed = true;
  sweep_timer.expires_after(std::chrono::milliseconds(shared.options.sweep_interval_ms));
  sweep_timer.async_wait([this](error_code error) {
    sweep_armed = false;
    if (!error) sweep();
  });
}

void HttpServer::Impl::sweep() {
  const SteadyTime now = std::chrono::steady_clock::now();
  for (Connection* connection : shared.connections) connection->sweep(now);
  if (sweep_callback) sweep_callback();
  arm_sweep();
}

void HttpServer::Impl::begin_stop(int64_t grace_ms) {
  if (shared.stopping) return;
  shared.stopping = true;
  error_code ignored;
  acceptor.close(ignored);
  for (Connection* connection : shared.connections) connection->close_if_waiting();
  if (shared.connections.empty()) return shared.io.stop();
  auto timer = std::make_shared<asio::steady_timer>(shared.io, std::chrono::milliseconds(grace_ms));
  timer->async_wait([this, timer](error_code) { shared.io.stop(); });
}

void HttpServer::Impl::wait_for_signal() {
  signals.async_wait([this](error_code error, int signal) {
    if (error) return;
    if (signal_callback) signal_callback(signal);
    wait_for_signal();
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// HttpServer

HttpServer::HttpServer(const HttpOptions& options, HttpHandler& handler)
    : impl_(std::make_unique<Impl>(options, handler)) {
  std::signal(SIGPIPE, SIG_IGN);
}

HttpServer::~HttpServer() {
  impl_->shared.destroying = true;
  impl_->shared.to_flush.clear();  // connections must not outlive the io_context
}

Status HttpServer::listen() { return impl_->listen(); }

uint16_t HttpServer::port() const {
  error_code error;
  const tcp::endpoint endpoint = impl_->acceptor.local_endpoint(error);
  return error ? 0 : endpoint.port();
}

void HttpServer::run() {
  const auto work = asio::make_work_guard(impl_->shared.io);
  impl_->shared.io.run();
}

void HttpServer::post(std::function<void()> function) { asio::post(impl_->shared.io, std::move(function)); }

void HttpServer::stop(int64_t grace_ms) {
  asio::post(impl_->shared.io, [impl = impl_.get(), grace_ms] { impl->begin_stop(grace_ms); });
}

void HttpServer::call_after(int64_t delay_ms, std::function<void()> function) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->shared.io, std::chrono::milliseconds(delay_ms));
  timer->async_wait([timer, function = std::move(function)](error_code error) {
    if (!error) function();
  });
}

void HttpServer::on_sweep(std::function<void()> function) { impl_->sweep_callback = std::move(function); }

void HttpServer::on_signal(std::function<void(int signal)> function) {
  impl_->signal_callback = std::move(function);
  impl_->signals.add(SIGINT);
  impl_->signals.add(SIGTERM);
  impl_->wait_for_signal();
}

void HttpServer::close_after_answer() { impl_->shared.closing = true; }

}  // namespace boreas
