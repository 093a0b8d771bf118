// See bench_serve.h. A server in this process (its engine, HTTP and all) or any other by its URL; a workload's prompts,
// cut to length in that server's own tokens; warm-up; the run; a table and a JSON line.
#include "bench_serve.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "bench_serve_all.h"
#include "bench_serve_load.h"
#include "bench_serve_stats.h"
#include "bench_support.h"
#include "eval_ask.h"
#include "eval_local.h"
#include "serve_flags.h"

namespace boreas {

namespace {

struct ServeBenchFlags {
  ServeFlags serve;  // of the server in this process; serve.model also names --url's model
  std::string url, api_key, device_name;
  std::string workload = "competition-maths";
  WorkloadOptions prompts;
  int32_t warmup = 0;
  double timeout_s = 600;
  ServeLoadOptions load;
  std::string results_dir;
  double temperature = -1;  // -1: not given
  bool all = false;
  std::vector<std::string> parts;
  int32_t long_prompt = 65536;
  int64_t total_tokens = 200'000;
};

const std::map<std::string, ServePart> kParts = {{"first-tokens", ServePart::kFirstTokens},
                                                 {"decode", ServePart::kDecode},
                                                 {"long-prompt", ServePart::kLongPrompt},
                                                 {"mixed", ServePart::kMixed}};
constexpr int32_t kProbeWordsLeast = 64, kProbeWordsMost = 4096;
constexpr uint64_t kProbeSeed = 7;

// Set by the first Ctrl-C or SIGTERM (of a command with a time limit, say); the second one ends the process.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may only touch such

class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = false;
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      before_[i] = std::signal(kSignals[i], [](int) {
        interrupted = true;
        for (const int each : kSignals) std::signal(each, SIG_DFL);
      });
    }
  }
  ~InterruptGuard() {
    for (size_t i = 0; i < std::size(kSignals); ++i) std::signal(kSignals[i], before_[i]);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  void (*before_[std::size(kSignals)])(int) = {};
};

bool has_made_up_weights(const ServeBenchFlags& flags) {
  return flags.url.empty() && (flags.serve.model.empty() || flags.serve.load_format == "dummy");
}

// The server, whosever it is.
struct Measured {
  std::unique_ptr<LocalServer> local;
  std::string model, device;  // as the line names them
};

Status find_server(ServeBenchFlags& flags, Measured& measured) {
  flags.load.timeout_ms = static_cast<int64_t>(flags.timeout_s * 1000);
  if (!flags.url.empty()) {
    ASSIGN_OR_RETURN(flags.load.target, parse_target(flags.url));
    for (const char c : flags.api_key)
      if (c <= ' ' || c >= 0x7F) return Error{"--api-key must be printable ASCII", "api-key"};
    flags.load.target.api_key = flags.api_key;
    measured.device = flags.device_name.empty() ? "of the server" : flags.device_name;
  } else {
    RETURN_IF_ERROR(complete_serve_flags(flags.serve));
    ASSIGN_OR_RETURN(measured.local,
                     LocalServer::start(model_source(flags.serve), device_choice(flags.serve), flags.serve.engine));
    flags.load.target = measured.local->target();
    measured.device = measured.local->executor().device;
    measured.model = flags.serve.model.empty() ? flags.serve.model_shape + " (dummy weights)" : flags.serve.model;
    if (!flags.serve.model.empty() && flags.serve.load_format == "dummy") measured.model += " (dummy weights)";
  }
  flags.load.model = flags.url.empty() ? "" : flags.serve.model;
  if (flags.load.model.empty()) {
    HttpClient client(flags.load.target, flags.load.timeout_ms);
    ASSIGN_OR_RETURN(flags.load.model, first_model(client));
  }
  if (measured.model.empty()) measured.model = flags.load.model;
  return Ok{};
}

boost::json::object result_of(const ServeBenchFlags& flags, const Measured& measured, const ServeSummary& summary) {
  boost::json::object line = result_line("serve", "http", measured.device);
  line["model"] = measured.model;
  line["server"] = flags.url.empty() ? "in process" : flags.url;
  line["workload"] = flags.workload;
  line["loop"] = flags.load.rate > 0 ? "open" : "closed";
  if (flags.load.rate > 0) line["rate"] = flags.load.rate;
  else line["clients"] = flags.load.clients;
  line["seed"] = flags.prompts.seed;
  if (flags.prompts.prompt_tokens > 0) line["prompt_tokens_wanted"] = flags.prompts.prompt_tokens;
  if (flags.prompts.output_tokens > 0) line["output_tokens_wanted"] = flags.prompts.output_tokens;
  if (flags.prompts.answer_tokens_max > 0) line["max_tokens"] = flags.prompts.answer_tokens_max;
  line["ignore_eos"] = flags.load.ignore_eos;
  line["temperature"] = flags.load.temperature;
  line["warmup"] = flags.warmup;
  line["tokens_per_word"] = flags.prompts.scale.tokens_per_word;
  add_summary(summary, line);
  return line;
}

void print_first_error(const LoadResult& result) {
  const std::string error = first_error_of(result);
  if (!error.empty()) std::cerr << "first failure: " << error << "\n";
}

Status measure(ServeBenchFlags& flags, const Workload& workload, const Measured& measured) {
  const InterruptGuard guard;
  flags.load.stop = &interrupted;
  flags.load.seed = flags.prompts.seed;
  flags.load.show_progress = true;
  ASSIGN_OR_RETURN(flags.prompts.scale,
                   measure_scale(flags.load.target, flags.load.model, workload, flags.load.timeout_ms));
  if (flags.warmup > 0) {
    WorkloadOptions warmup = flags.prompts;
    warmup.seed = ~flags.prompts.seed;  // other prompts: those of the run must not be cached
    warmup.requests = flags.warmup;
    const LoadResult warm = run_load(make_conversations(workload, warmup), flags.load);
    if (warm.lost_server) return Error{"the server is gone: no connection in the warm-up", "url"};
  }
  const std::vector<Conversation> conversations = make_conversations(workload, flags.prompts);
  const LoadResult result = run_load(conversations, flags.load);
  const ServeSummary summary = summarize(result);
  print_first_error(result);
  print_summary(std::cout, summary);
  std::cout << "\n";
  boost::json::object line = result_of(flags, measured, summary);
  const bool whole = !result.interrupted && !result.lost_server && summary.completed > 0;
  if (!whole) line["ended_early"] = result.interrupted ? "interrupted" : "no answers";
  // A part of a run, or one without answers, is printed but not kept.
  if (!record_result(line, whole ? flags.results_dir : "")) return Error{"the result was not recorded"};
  if (result.lost_server) return Error{"the server is gone: one request after the other found no connection", "url"};
  if (summary.completed == 0 && !result.interrupted) return Error{"no request was answered", "url"};
  return Ok{};
}

// The whole list of figures, of a server in this process.
Status run_all(ServeBenchFlags& flags) {
  const InterruptGuard guard;
  RETURN_IF_ERROR(complete_serve_flags(flags.serve));
  ServeAllOptions options;
  options.source = model_source(flags.serve);
  options.choice = device_choice(flags.serve);
  options.engine = flags.serve.engine;
  options.decode.model = flags.serve.model;
  options.decode.model_shape = flags.serve.model_shape;
  options.decode.load_format = flags.serve.load_format;
  options.decode.threads = flags.serve.threads;
  options.decode.temperature = static_cast<float>(flags.load.temperature);
  options.decode.top_p = SamplingDefaults{}.top_p;  // requests do not say it
  ModelConfig config;
  if (flags.serve.model.empty()) {
    ASSIGN_OR_RETURN(config, model_shape(flags.serve.model_shape));
  } else {
    ASSIGN_OR_RETURN(const std::string directory, resolve_model_directory(flags.serve.model));
    ASSIGN_OR_RETURN(config, load_model_config(directory));
  }
  options.decode.device = resolve_device(options.choice.device, config);
  options.goals_bind = goals_are_for(options.decode.device, has_made_up_weights(flags), config);
  if (flags.prompts.prompt_tokens > 0) {
    options.context = options.mixed_prompt = flags.prompts.prompt_tokens;
    options.prompts = {flags.prompts.prompt_tokens};
  }
  if (flags.prompts.output_tokens > 0) options.output_tokens = flags.prompts.output_tokens;
  if (flags.prompts.answer_tokens_max > 0) options.mixed_answer_max = flags.prompts.answer_tokens_max;
  options.long_prompt = flags.long_prompt;
  options.total_tokens = flags.total_tokens;
  options.seconds = flags.load.seconds_max;
  if (!flags.parts.empty()) options.parts.clear();
  for (const std::string& part : flags.parts) options.parts.push_back(kParts.at(part));
  options.load = flags.load;
  options.load.stop = &interrupted;
  options.load.seconds_max = 0;
  options.load.seed = flags.prompts.seed;
  options.load.timeout_ms = static_cast<int64_t>(flags.timeout_s * 1000);
  options.results_dir = flags.results_dir;
  return run_serve_all(options);
}

// Made-up weights repeat themselves when greedy, soon with tokens that have no text.
double default_temperature(const ServeBenchFlags& flags) { return has_made_up_weights(flags) ? 1 : 0; }

Status run_serve_bench(ServeBenchFlags& flags) {
  flags.load.temperature = flags.temperature >= 0 ? flags.temperature : default_temperature(flags);
  if (flags.all) return run_all(flags);
  const Workload* workload = find_workload(flags.workload);
  if (workload == nullptr) return Error{"--workload is unknown: " + flags.workload, "workload"};
  Measured measured;
  RETURN_IF_ERROR(find_server(flags, measured));
  return measure(flags, *workload, measured);
}

void declare_server(Command command, ServeBenchFlags& flags) {
  command.add_option("--url", flags.url,
                     "server to measure, as http://host:port; without it one of --model is started");
  command.add_option("--api-key", flags.api_key, "with --url: its key");
  command.add_option("--device-name", flags.device_name, "with --url: what the line says it runs on");
  command.add_option("--model", flags.serve.model,
                     "checkpoint directory or hub id; with --url the name to ask for (default: the server's first)");
  command.add_option("--model-shape", flags.serve.model_shape, "made-up weights of this shape instead of a checkpoint");
  command.add_option("--load-format", flags.serve.load_format, "auto, or dummy for made-up weights of --model's shape")
      .one_of({"auto", "dummy"});
  declare_engine_flags(command, flags.serve);
}

void declare_all(Command command, ServeBenchFlags& flags) {
  const Flag all = command.add_flag(
      "--all", flags.all,
      "every figure in a row, of a server in this process: first tokens, decode over HTTP beside decode in process, "
      "streams beside a long prompt, sustained mixed load. --prompt-tokens and --output-tokens make it smaller. "
      "Made-up weights of the full shape on a GPU: a goal that is missed fails the command");
  // Its parts have requests and clients of their own.
  for (const char* other : {"--url", "--workload", "--clients", "--rate", "--requests", "--warmup"})
    all.excludes(command.flag(other));
  std::vector<std::string> names;
  for (const auto& part : kParts) names.push_back(part.first);
  command.add_option("--parts", flags.parts, "with --all: these alone, of first-tokens, decode, long-prompt, mixed")
      .separated_by(',')
      .one_of(names)
      .needs(all);
  command.add_option("--long-prompt", flags.long_prompt, "with --all: tokens of the prompt beside streams")
      .between(64, 1 << 20)
      .needs(all)
      .show_default();
  command.add_option("--total-tokens", flags.total_tokens, "with --all: generated under mixed load")
      .between(int64_t{100}, int64_t{1} << 40)
      .needs(all)
      .show_default();
}

void declare_load(Command command, ServeBenchFlags& flags) {
  constexpr int32_t kTokensMax = 1 << 20;
  std::vector<std::string> names;
  std::string help = "prompts:";
  for (const Workload& workload : workloads()) {
    names.emplace_back(workload.name);
    help += (names.size() > 1 ? "; " : " ") + names.back() + ": " + std::string(workload.about);
  }
  command.add_option("--workload", flags.workload, help).one_of(names).show_default();
  const Flag clients = command.add_option("--clients", flags.load.clients,
                                          "closed loop: so many, each asks again when it has its answer");
  clients.between(1, kOpenMax).show_default();
  command.add_option("--rate", flags.load.rate, "open loop: requests a second, arriving at random (Poisson)")
      .between(0.001, 100000.0)
      .excludes(clients);
  command.add_option("--requests", flags.prompts.requests, "how many, each turn of a conversation one")
      .between(1, 1000000);
  command.add_option("--warmup", flags.warmup, "requests before that, not measured").between(0, 100000).show_default();
  command.add_option("--seed", flags.prompts.seed, "of prompts, lengths and arrivals").show_default();
  command.add_option("--prompt-tokens", flags.prompts.prompt_tokens, "of (first) prompts instead of the workload's")
      .between(1, kTokensMax);
  command.add_option("--output-tokens", flags.prompts.output_tokens, "of answers instead of the workload's")
      .between(1, kTokensMax);
  command.add_option("--max-tokens", flags.prompts.answer_tokens_max, "caps the workload's answers")
      .between(1, kTokensMax);
  command.add_flag("--ignore-eos", flags.load.ignore_eos, "answers of exactly their length, if the server can do that");
  command
      .add_option("--temperature", flags.temperature,
                  "of all answers; default: 0, for made-up weights 1: greedy ones repeat tokens without text")
      .between(0.0, 2.0);
  command
      .add_option("--seconds", flags.load.seconds_max,
                  "begins no request after so many; with --all: of the mixed load; 0: any")
      .between(0.0, 1e6);
  command.add_option("--timeout", flags.timeout_s, "seconds that a request may take")
      .between(0.001, 1e6)
      .show_default();
  command
      .add_option("--results", flags.results_dir,
                  "append the line to <machine>.ndjson in this folder, e.g. bench/results")
      .writable_folder();
}

}  // namespace

Result<TextScale> measure_scale(const HttpTarget& target, const std::string& model, const Workload& workload,
                                int64_t timeout_ms, int32_t prompt_tokens) {
  ServeLoadOptions options;
  options.target = target;
  options.model = model;
  options.timeout_ms = timeout_ms;
  const int32_t probe_words[] = {kProbeWordsLeast,
                                 std::clamp(prompt_tokens / 4, 5 * kProbeWordsLeast, kProbeWordsMost)};
  double words[2], tokens[2];
  for (size_t i = 0; i < 2; ++i) {
    const Conversation probe = make_probe(workload, probe_words[i], kProbeSeed + i);
    const LoadResult result = run_load({probe}, options);
    const ChatRecord& record = result.records.front();
    if (!record.error.empty()) return Error{"a first prompt failed: " + record.error + ": " + record.message, "url"};
    if (record.prompt_tokens == 0) return TextScale{};
    words[i] = static_cast<double>(words_of(probe));
    tokens[i] = static_cast<double>(record.prompt_tokens);
  }
  TextScale scale;
  if (words[1] <= words[0] || tokens[1] <= tokens[0]) return scale;
  scale.tokens_per_word = (tokens[1] - tokens[0]) / (words[1] - words[0]);
  scale.tokens_around = tokens[0] - words[0] * scale.tokens_per_word;
  return scale;
}

void add_serve_bench(Command bench, const std::function<void(const Status&)>& finish) {
  auto flags = std::make_shared<ServeBenchFlags>();
  flags->prompts.requests = 32;
  const Command command = bench.add_subcommand("serve", "time to first token, between tokens and tok/s of a server");
  declare_server(command, *flags);
  declare_load(command, *flags);
  declare_all(command, *flags);
  command.callback([=] { finish(run_serve_bench(*flags)); });
}

}  // namespace boreas
