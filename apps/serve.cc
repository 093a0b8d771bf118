// boreas serve: a checkpoint behind an OpenAI-compatible HTTP server. Listens first and answers "loading", then loads,
// runs a warm-up generation, and serves until a signal.
#include "serve.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <utility>

#include "commands.h"
#include "example_requests.h"
#include "memory_report.h"
#include "model_loading.h"

namespace boreas {

namespace {

constexpr int kFailed = 1;
constexpr int kUsageError = 2;

// Everything that is served, in the order in which it is made; torn down in reverse.
struct Stack {
  SteadyClock clock;
  LoadedModel loaded;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Engine> engine;
  ServedModel served;
};

int report(const Error& error, int exit_code) {
  std::cerr << "boreas: " << error.message << std::endl;
  return exit_code;
}

// As many connections as the system lets us have.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// To /health, a percent at a time. server: null: nobody listens.
LoadProgress tell_health(Server* server, const std::string& phase) {
  if (server == nullptr) return {};
  server->loading(phase);
  auto told = std::make_shared<int64_t>(-1);
  return [server, phase, told](int64_t done, int64_t total) {
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
    const auto percent = static_cast<int64_t>(100 * share);
    if (std::exchange(*told, percent) != percent) server->loading(phase, share);
  };
}

Status load(const ServeFlags& flags, const ExecutorWrap& wrap, Server* server, Stack& stack) {
  ModelSource source = model_source(flags);
  source.progress = tell_health(server, "reading weights");
  ASSIGN_OR_RETURN(stack.loaded, load_with_text(source));
  ASSIGN_OR_RETURN(const SamplingDefaults sampling, sampling_defaults(flags, stack.loaded.model->config()));
  DeviceChoice choice = device_choice(flags);
  choice.memory_plan = &std::cout;
  choice.progress = tell_health(server, "preparing the device");
  ASSIGN_OR_RETURN(stack.executor, make_executor(choice, stack.loaded.model));
  if (wrap) stack.executor = wrap(std::move(stack.executor));
  stack.engine = std::make_unique<Engine>(*stack.executor, flags.engine, stack.clock);
  stack.served = describe_served(stack.loaded, *stack.engine, stack.executor->info(), stack.clock, sampling);
  return Ok{};
}

// Two tokens through the whole engine.
Status warm_up(Stack& stack) {
  Request request;
  request.prompt = {std::max<TokenId>(stack.served.markers.bos, 0)};
  request.max_tokens = 2;
  auto done = std::make_shared<std::promise<std::string>>();
  const Engine::Submitted submitted = stack.engine->submit(std::move(request), [done](TokenEvent&& event) {
    if (!event.finish) return;
    const bool failed = *event.finish == FinishReason::kError || *event.finish == FinishReason::kAbort;
    done->set_value(failed ? "the warm-up generation failed: " + event.error : "");
  });
  if (submitted.error) return Error{"the warm-up generation was refused: the KV memory is too small", ""};
  const std::string problem = done->get_future().get();
  if (!problem.empty()) return Error{problem, ""};
  return Ok{};
}

void print_banner(const ServeFlags& flags, const Server& server, const Stack& stack) {
  const ExecutorInfo& info = stack.executor->info();
  const std::string& name = flags.server.model_names.front();
  const auto curl = [&](const boost::json::object& body) {
    return curl_line(server.url(), !flags.server.api_keys.empty(), body);
  };
  std::cout << "boreas " << BOREAS_VERSION << " serves " << name
            << (stack.served.dummy ? " (dummy weights: answers are noise)" : "") << "\n"
            << "  URL      " << server.url() << "/v1\n"
            << "  model    " << stack.served.root << ", " << stack.loaded.model->config().layer_count() << " layers, "
            << stack.loaded.model->weights().total_bytes() / 1'000'000 << " MB\n"
            << "  device   " << info.name << ": " << info.device << "\n"
            << "  context  " << stack.engine->context_max() << " tokens; KV pages of " << kPagePositions
            << " positions: " << info.pages_full << " full, " << info.pages_sliding << " sliding\n"
            << "  batch    "
            << describe_running(info, stack.engine->running_max(), flags.running_asked, flags.engine.step_tokens_max)
            << "\n"
            << "  try      " << curl(example_chat(name)) << "\n"
            << "  a tool   " << curl(example_tool_call(name)) << std::endl;
}

}  // namespace

int run_serve(ServeFlags& flags, const ExecutorWrap& wrap) {
  const Status completed = complete_serve_flags(flags);
  if (!completed.ok()) return report(completed.error(), kUsageError);
  if (!set_log_level(flags.log_level)) return report({"unknown --log-level '" + flags.log_level + "'"}, kUsageError);
  if (!flags.model.empty()) {  // a name that leads nowhere is found out before anything listens
    const Result<std::string> resolved = resolve_model_directory(flags.model);
    if (!resolved.ok()) return report(resolved.error(), kUsageError);
  }
  raise_file_limit();
  std::signal(SIGHUP, SIG_IGN);
  Stack stack;
  if (flags.check_only) {
    const Status status = load(flags, wrap, nullptr, stack);
    if (!status.ok()) return report(status.error(), kFailed);
    std::cout << "boreas: " << stack.served.root << " is complete and fits" << std::endl;
    return 0;
  }
  flags.server.version = BOREAS_VERSION;
  flags.server.handle_signals = true;
  Result<std::unique_ptr<Server>> server = Server::start(flags.server);
  if (!server.ok()) return report(server.error(), kFailed);
  Status status = load(flags, wrap, server->get(), stack);
  if (status.ok()) {
    (*server)->loading("warming up");
    status = warm_up(stack);
  }
  // A lost device may never answer whoever wants to give memory back: from here on a failure ends the process itself.
  if (!status.ok()) std::_Exit(report(status.error(), kFailed));
  (*server)->ready(stack.served);
  print_banner(flags, **server, stack);
  const int exit_code = (*server)->wait();
  if (exit_code != 0) std::_Exit(exit_code);  // the clients have heard of it
  return exit_code;
}

void add_serve_command(Command app, int& exit_code) {
  const Command command = app.add_subcommand("serve", "Serve a model over HTTP in the OpenAI API");
  auto flags = std::make_shared<ServeFlags>();
  declare_serve_flags(command, *flags);
  command.callback([flags, &exit_code] { exit_code = run_serve(*flags); });
}

}  // namespace boreas
