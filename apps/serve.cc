// boreas serve: a checkpoint behind an OpenAI-compatible HTTP server. Listens first and answers "loading", then loads,
// runs a warm-up generation, and serves until a signal.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>
#include <utility>

#include "base/prng.h"
#include "commands.h"
#include "exec/cpu/cpu_executor.h"
#include "serve_flags.h"

namespace boreas {

namespace {

constexpr int kFailed = 1;
constexpr int kUsageError = 2;
constexpr size_t kTemplateBytesMax = 1 << 20;

// Everything that is served, in the order in which it is made; torn down in reverse.
struct Loaded {
  SteadyClock clock;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
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

LoadProgress show_progress() {
  if (!::isatty(STDERR_FILENO)) return {};
  return [](int64_t done, int64_t total) {
    const double share = total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0;
    std::fprintf(stderr, "\rloading weights %5.1f %%%s", share, done >= total ? "\n" : "");
  };
}

Result<std::shared_ptr<const Model>> load_weights(const ServeFlags& flags, const std::string& directory) {
  const LoadProgress progress = show_progress();
  if (!directory.empty()) return load_model(directory, {flags.load_format == "dummy", progress});
  ASSIGN_OR_RETURN(const ModelConfig config, model_shape(flags.model_shape));
  return make_dummy_model(config, progress);
}

// A bare shape has no text side of its own: it borrows that of the checkpoint bundled with the program.
Result<std::string> text_directory(const ServeFlags& flags, const std::string& directory) {
  if (!flags.tokenizer.empty()) return resolve_model_directory(flags.tokenizer);
  if (!directory.empty()) return directory;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* name : {"demo", "tiny"}) {
    for (const std::filesystem::path& base : {program / "..", std::filesystem::path(".")}) {
      const std::filesystem::path candidate = base / "models" / name;
      if (std::filesystem::exists(candidate / "tokenizer.json", error)) return candidate.lexically_normal().string();
    }
  }
  return Error{"made-up weights have no tokenizer; name a directory that has one: --tokenizer DIR", "tokenizer"};
}

Result<ChatTemplate> load_template(const ServeFlags& flags, const std::string& directory) {
  if (flags.chat_template.empty()) return ChatTemplate::load(directory);
  std::ifstream file(flags.chat_template, std::ios::binary);
  std::string source(kTemplateBytesMax + 1, '\0');
  file.read(source.data(), static_cast<std::streamsize>(source.size()));
  source.resize(static_cast<size_t>(file.gcount()));
  if (source.size() > kTemplateBytesMax) return Error{flags.chat_template + " is too large for a chat template", ""};
  return ChatTemplate::parse(source);
}

Result<std::unique_ptr<Executor>> make_executor(const ServeFlags& flags, const std::shared_ptr<const Model>& model) {
  const bool gpu_wanted = flags.device.rfind("cuda", 0) == 0;
  if (!gpu_wanted && flags.device != "auto" && flags.device != "cpu") {
    return Error{"--device must be auto, cpu, cuda or cuda:INDEX, not '" + flags.device + "'", "device"};
  }
  if (gpu_wanted || flags.require_gpu) return Error{"this build has no GPU support; use --device cpu", "device"};
  CpuExecutorOptions options;
  options.threads = flags.threads;
  options.sequence_slots = flags.engine.running_max;
  options.tokens_max = flags.engine.step_tokens_max;
  options.context_max = flags.engine.context_max;
  options.kv_bytes = flags.kv_bytes;
  return make_cpu_executor(model, options);
}

// Ids that end generation: the model's own and the template's end of turn.
std::vector<TokenId> end_ids(const ModelConfig& config, const OutputMarkers& markers) {
  std::vector<TokenId> ids = config.eos_token_ids;
  if (std::find(ids.begin(), ids.end(), markers.end_of_turn) == ids.end()) ids.push_back(markers.end_of_turn);
  return ids;
}

std::string fingerprint(const std::string& directory, const ExecutorInfo& info) {
  std::ostringstream text;
  text << BOREAS_VERSION << '\n' << info.name << '\n' << info.device << '\n';
  if (!directory.empty()) text << std::ifstream(directory + "/config.json").rdbuf();
  const std::string bytes = text.str();
  char out[32];
  std::snprintf(out, sizeof(out), "fp_%016llx", static_cast<unsigned long long>(fnv1a_64(bytes.data(), bytes.size())));
  return out;
}

Status load(const ServeFlags& flags, const std::string& directory, Loaded& loaded) {
  ASSIGN_OR_RETURN(const std::string text, text_directory(flags, directory));
  ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(text));
  loaded.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  ASSIGN_OR_RETURN(ChatTemplate chat_template, load_template(flags, text));
  loaded.chat_template = std::make_unique<ChatTemplate>(std::move(chat_template));
  ASSIGN_OR_RETURN(const OutputMarkers markers, find_output_markers(*loaded.tokenizer));
  ASSIGN_OR_RETURN(loaded.model, load_weights(flags, directory));
  const ModelConfig& config = loaded.model->config();
  if (loaded.tokenizer->vocab_size() > config.vocab_size) {
    return Error{"the tokenizer in " + text + " has " + std::to_string(loaded.tokenizer->vocab_size()) +
                     " tokens, the model only " + std::to_string(config.vocab_size),
                 "tokenizer"};
  }
  ASSIGN_OR_RETURN(const SamplingDefaults sampling, sampling_defaults(flags, config));
  ASSIGN_OR_RETURN(loaded.executor, make_executor(flags, loaded.model));
  loaded.engine = std::make_unique<Engine>(*loaded.executor, flags.engine, loaded.clock);

  ServedModel& served = loaded.served;
  served.engine = loaded.engine.get();
  served.tokenizer = loaded.tokenizer.get();
  served.chat_template = loaded.chat_template.get();
  served.clock = &loaded.clock;
  served.markers = markers;
  served.eos_ids = end_ids(config, markers);
  served.vocab_size = loaded.executor->info().vocab_size;
  served.sampling = sampling;
  served.root = flags.model.empty() ? flags.model_shape : flags.model;
  served.fingerprint = fingerprint(directory, loaded.executor->info());
  served.dummy = loaded.model->is_dummy();
  return Ok{};
}

// Two tokens through the whole engine.
Status warm_up(Loaded& loaded) {
  Request request;
  request.prompt = {std::max<TokenId>(loaded.served.markers.bos, 0)};
  request.max_tokens = 2;
  auto done = std::make_shared<std::promise<std::string>>();
  const Engine::Submitted submitted = loaded.engine->submit(std::move(request), [done](TokenEvent&& event) {
    if (!event.finish) return;
    const bool failed = *event.finish == FinishReason::kError || *event.finish == FinishReason::kAbort;
    done->set_value(failed ? "the warm-up generation failed: " + event.error : "");
  });
  if (submitted.error) return Error{"the warm-up generation was refused: the KV memory is too small", ""};
  const std::string problem = done->get_future().get();
  if (!problem.empty()) return Error{problem, ""};
  return Ok{};
}

void print_banner(const ServeFlags& flags, const Server& server, const Loaded& loaded) {
  const ExecutorInfo& info = loaded.executor->info();
  const std::string& name = flags.server.model_names.front();
  const std::string key = flags.server.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  std::cout << "boreas " << BOREAS_VERSION << " serves " << name
            << (loaded.served.dummy ? " (dummy weights: answers are noise)" : "") << "\n"
            << "  URL      " << server.url() << "/v1\n"
            << "  model    " << loaded.served.root << ", " << loaded.model->config().layer_count() << " layers, "
            << loaded.model->weights().total_bytes() / 1'000'000 << " MB\n"
            << "  device   " << info.name << ": " << info.device << "\n"
            << "  context  " << loaded.engine->context_max() << " tokens; KV pages of " << kPagePositions
            << " positions: " << info.pages_full << " full, " << info.pages_sliding << " sliding\n"
            << "  try      curl " << server.url() << "/v1/chat/completions" << key
            << " -H 'Content-Type: application/json' -d '{\"model\": \"" << name
            << "\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_tokens\": 64}'" << std::endl;
}

int run_serve(ServeFlags& flags) {
  const Status completed = complete_serve_flags(flags);
  if (!completed.ok()) return report(completed.error(), kUsageError);
  if (!set_log_level(flags.log_level)) return report({"unknown --log-level '" + flags.log_level + "'"}, kUsageError);
  std::string directory;
  if (!flags.model.empty()) {
    Result<std::string> resolved = resolve_model_directory(flags.model);
    if (!resolved.ok()) return report(resolved.error(), kUsageError);
    directory = *resolved;
  }
  raise_file_limit();
  std::signal(SIGHUP, SIG_IGN);
  Loaded loaded;
  if (flags.check_only) {
    const Status status = load(flags, directory, loaded);
    if (!status.ok()) return report(status.error(), kFailed);
    std::cout << "boreas: " << loaded.served.root << " is complete and fits" << std::endl;
    return 0;
  }
  flags.server.version = BOREAS_VERSION;
  flags.server.handle_signals = true;
  Result<std::unique_ptr<Server>> server = Server::start(flags.server);
  if (!server.ok()) return report(server.error(), kFailed);
  Status status = load(flags, directory, loaded);
  if (status.ok()) status = warm_up(loaded);
  if (!status.ok()) return report(status.error(), kFailed);
  (*server)->ready(loaded.served);
  print_banner(flags, **server, loaded);
  return (*server)->wait();
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP in the OpenAI API");
  auto flags = std::make_shared<ServeFlags>();
  declare_serve_flags(*command, *flags);
  command->callback([flags, &exit_code] { exit_code = run_serve(*flags); });
}

}  // namespace boreas
