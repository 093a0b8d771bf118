// boreas eval: how good a model's answers are. Puts prompts with exact checks to a checkpoint (through a server in this
// process) or to any OpenAI-compatible server, prints a table, and compares with an earlier run or a reference.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "commands.h"
#include "eval_likelihood_command.h"
#include "eval_local.h"
#include "eval_reference.h"
#include "eval_report.h"

namespace boreas {

namespace {

constexpr int kFailed = 1;
constexpr int kUsageError = 2;
constexpr int32_t kRemoteParallel = 8;

struct EvalFlags {
  std::string folder;  // MODEL
  std::string model;   // --model: with --url the name to ask for, else MODEL
  std::string url;
  std::string api_key_env;
  std::vector<std::string> sets;
  Subset subset;
  int32_t parallel = 0;  // 0: the engine's batch; 8 over --url
  int32_t max_tokens = 320;
  double timeout_seconds = 600;
  std::string device = "auto";
  int32_t threads = 0;
  std::string python;
  bool with_parts = false;
  std::string json_file, verdicts_file, baseline_file, reference_file;
  int32_t newly_wrong_max = 0;
  bool likelihood = false;
  LikelihoodFlags scoring;  // its own flags
};

// Files of a checkpoint's folder that hold prompts, unless others are named.
Result<std::vector<EvalSet>> read_sets(const EvalFlags& flags, const std::string& directory) {
  std::vector<std::string> files = flags.sets;
  if (files.empty() && directory.empty()) return Error{"--url without MODEL needs --set FILE", "set"};
  for (const char* name : {"held_out.jsonl", "handwritten.jsonl"}) {
    const std::string file = directory + "/" + name;
    if (flags.sets.empty() && std::filesystem::exists(file)) files.push_back(file);
  }
  if (files.empty()) return Error{directory + " holds no held_out.jsonl; name a file of prompts: --set FILE", "set"};
  std::vector<EvalSet> sets;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(EvalSet set, read_eval_set(file));
    sets.push_back(std::move(set));
  }
  RETURN_IF_ERROR(check_ids(sets));
  keep_subset(sets, flags.subset);
  return sets;
}

Result<HttpTarget> remote_target(const EvalFlags& flags) {
  ASSIGN_OR_RETURN(HttpTarget target, parse_target(flags.url));
  if (flags.api_key_env.empty()) return target;
  const char* key = std::getenv(flags.api_key_env.c_str());
  if (!key || !*key) return Error{"the environment has no " + flags.api_key_env, "api-key-env"};
  target.api_key = key;
  for (const char c : target.api_key) {
    if (c <= ' ' || c >= 0x7F) return Error{flags.api_key_env + " must be printable ASCII", "api-key-env"};
  }
  return target;
}

bool needs_python(const std::vector<EvalSet>& sets) {
  for (const EvalSet& set : sets) {
    for (const EvalItem& item : set.items) {
      if (item.check.type == Check::Type::kPython) return true;
    }
  }
  return false;
}

// Everything an evaluation needs, made before the first prompt is asked.
struct Setup {
  std::vector<EvalSet> sets;
  std::map<std::string, AnswerVerdict> baseline;
  std::map<std::string, std::string> reference;
  std::unique_ptr<PythonSandbox> sandbox;
  std::unique_ptr<LocalServer> local;
  RunOptions run;
  boost::json::object about;  // of the JSON file
};

Status prepare_server(const EvalFlags& flags, const std::string& directory, Setup& setup) {
  RunOptions& run = setup.run;
  run.ask.max_tokens = flags.max_tokens;
  run.timeout_ms = static_cast<int64_t>(flags.timeout_seconds * 1000);
  setup.about["max_tokens"] = flags.max_tokens;
  if (!flags.url.empty()) {
    run.parallel = flags.parallel > 0 ? flags.parallel : kRemoteParallel;
    ASSIGN_OR_RETURN(run.target, remote_target(flags));
    run.ask.model = flags.model;
    if (run.ask.model.empty()) {
      HttpClient client(run.target, run.timeout_ms);
      ASSIGN_OR_RETURN(run.ask.model, first_model(client));
    }
    setup.about["url"] = flags.url;
    setup.about["model"] = run.ask.model;
    return Ok{};
  }
  ModelSource source;
  source.model = directory;
  source.device = flags.device;
  DeviceChoice choice;
  choice.device = flags.device;
  choice.threads = flags.threads;
  if (flags.parallel > 0) choice.sequence_slots = flags.parallel;
  ASSIGN_OR_RETURN(setup.local, LocalServer::start(source, choice));
  run.parallel = choice.sequence_slots;
  run.target = setup.local->target();
  setup.about["model"] = flags.folder;
  setup.about["device"] = setup.local->executor().device;
  return Ok{};
}

// A comparison of nothing would always pass.
Status check_baseline(const EvalFlags& flags, const Setup& setup) {
  for (const EvalSet& set : setup.sets) {
    for (const EvalItem& item : set.items) {
      if (setup.baseline.find(item.id) != setup.baseline.end()) return Ok{};
    }
  }
  return Error{"the baseline " + flags.baseline_file + " holds none of these prompts", "baseline"};
}

Status prepare(const EvalFlags& flags, Setup& setup) {
  std::string directory;
  if (!flags.folder.empty()) {
    ASSIGN_OR_RETURN(directory, resolve_model_directory(flags.folder));
  }
  if (directory.empty() && flags.url.empty()) return Error{"name a checkpoint or a server: MODEL, or --url", "model"};
  ASSIGN_OR_RETURN(setup.sets, read_sets(flags, directory));
  if (!flags.baseline_file.empty()) {
    ASSIGN_OR_RETURN(setup.baseline, read_baseline(flags.baseline_file));
    RETURN_IF_ERROR(check_baseline(flags, setup));
  }
  if (!flags.reference_file.empty()) {
    ASSIGN_OR_RETURN(setup.reference, read_reference(flags.reference_file));
  }
  for (const std::string& file : {flags.json_file, flags.verdicts_file}) {
    if (file.empty() || std::ofstream(file, std::ios::app)) continue;
    return Error{"cannot write " + file};
  }
  if (needs_python(setup.sets)) {
    Result<std::unique_ptr<PythonSandbox>> sandbox = PythonSandbox::create(flags.python);
    if (sandbox.ok()) setup.sandbox = std::move(*sandbox);
    else std::cerr << "boreas eval: prompts with Python stay unscored: " << sandbox.error().message << std::endl;
  }
  return prepare_server(flags, directory, setup);
}

// False: too many prompts are newly wrong, or none was answered.
Result<bool> report(const EvalFlags& flags, const Setup& setup, const std::vector<EvalOutcome>& outcomes) {
  print_table(std::cout, make_table(outcomes), flags.with_parts);
  print_errors(std::cout, outcomes);
  if (!flags.json_file.empty()) {
    const boost::json::object json = report_json(outcomes, setup.about);
    RETURN_IF_ERROR(write_file(flags.json_file, boost::json::serialize(json) + "\n"));
  }
  if (!flags.verdicts_file.empty()) RETURN_IF_ERROR(write_file(flags.verdicts_file, verdict_lines(outcomes)));
  if (!flags.reference_file.empty()) {
    RETURN_IF_ERROR(compare_reference(std::cout, outcomes, setup.reference, setup.run, setup.sandbox.get()));
  }
  const bool answered = std::any_of(outcomes.begin(), outcomes.end(),
                                    [](const EvalOutcome& outcome) { return outcome.reply.error.empty(); });
  if (!answered) std::cout << "no prompt was answered: this says nothing of the model" << std::endl;
  if (flags.baseline_file.empty()) return answered;
  const BaselineChange change = compare_baseline(outcomes, setup.baseline);
  print_change(std::cout, change);
  const bool good = change.newly_wrong.size() <= static_cast<size_t>(flags.newly_wrong_max);
  if (!good) std::cout << "more than " << flags.newly_wrong_max << " are newly wrong" << std::endl;
  return good && answered;
}

int fail(const Error& error, int exit_code) {
  std::cerr << "boreas eval: " << error.message << std::endl;
  return exit_code;
}

int run_eval(EvalFlags& flags) {
  if (flags.folder.empty() && flags.url.empty()) flags.folder = flags.model;
  if (flags.likelihood) {
    LikelihoodFlags& scoring = flags.scoring;
    scoring.folder = flags.folder;
    scoring.device = flags.device;
    scoring.threads = flags.threads;
    scoring.json_file = flags.json_file;
    const Status status = run_likelihood(scoring);
    return status.ok() ? 0 : fail(status.error(), kFailed);
  }
  Setup setup;
  const Status prepared = prepare(flags, setup);
  if (!prepared.ok()) return fail(prepared.error(), kUsageError);
  const auto start = std::chrono::steady_clock::now();
  const Result<std::vector<EvalOutcome>> outcomes = run_prompts(setup.sets, setup.run, setup.sandbox.get());
  if (!outcomes.ok()) return fail(outcomes.error(), kFailed);
  setup.about["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Result<bool> good = report(flags, setup, *outcomes);
  if (!good.ok()) return fail(good.error(), kFailed);
  return *good ? 0 : kFailed;
}

void declare_flags(Command command, EvalFlags& flags) {
  constexpr int kCountMax = 1'000'000'000;
  command.add_option("checkpoint", flags.folder,
                     "checkpoint directory or hub id; with --url only its prompts are used");
  command.add_option("--model", flags.model, "with --url: the model to ask for; default: the server's first");
  command.add_option("--url", flags.url, "ask this server, as http://host:port; https is not supported");
  command.add_option("--api-key-env", flags.api_key_env, "environment variable that holds the server's API key");
  command.add_option("--set", flags.sets, "files of prompts; default: held_out.jsonl and handwritten.jsonl of MODEL");
  command.add_option("--limit-per-kind", flags.subset.per_kind, "only the first so many of each kind of a file")
      .between(1, kCountMax);
  command.add_option("--first", flags.subset.first, "only the first so many").between(1, kCountMax);
  command.add_option("--spread", flags.subset.spread, "only so many, at even distances").between(1, kCountMax);
  command.add_option("--parallel", flags.parallel, "requests at once; default: the engine's batch of 64, 8 over --url")
      .between(1, 1024);
  command.add_option("--max-tokens", flags.max_tokens, "generated tokens of an answer at most")
      .between(1, 1 << 20)
      .show_default();
  command.add_option("--timeout", flags.timeout_seconds, "seconds that an answer may take")
      .between(0.001, 1e6)
      .show_default();
  command.add_option("--device", flags.device, "auto, cpu, cuda or cuda:INDEX").show_default();
  command.add_option("--threads,-t", flags.threads, "processor threads that compute; 0: all").between(0, 1024);
  command.add_option("--python", flags.python, "python3 for prompts whose answer is run; default: the system's");
  command.add_flag("--parts", flags.with_parts, "also a line for each part of a kind");
  command.add_option("--json", flags.json_file, "write every answer and verdict to this file");
  command.add_option("--verdicts", flags.verdicts_file, "write ids and verdicts alone, a line each");
  command.add_option("--baseline", flags.baseline_file, "compare with a file that --json or --verdicts wrote");
  command.add_option("--newly-wrong-max", flags.newly_wrong_max, "with --baseline: fail if more are newly wrong")
      .between(0, kCountMax)
      .show_default();
  command.add_option("--reference", flags.reference_file,
                     "list every difference to these answers ({\"id\", \"output\"} a line), with the top-2 gap");
  command.add_flag("--likelihood", flags.likelihood,
                   "instead of prompts: divergence from an FP32 oracle, and likelihood of a text");
  command.add_option("--text", flags.scoring.text_file, "with --likelihood: texts; default: likelihood.jsonl of MODEL");
  command.add_option("--oracle", flags.scoring.oracle,
                     "with --likelihood: folder of another oracle's logits; default: boreas' own FP32 forward pass");
  command.add_option("--text-tokens", flags.scoring.tokens_max, "with --likelihood: tokens in all; 0: all texts")
      .between(0, kCountMax);
}

}  // namespace

void add_eval_command(Command app, int& exit_code) {
  const Command command = app.add_subcommand("eval", "score a model's answers to prompts with exact checks");
  auto flags = std::make_shared<EvalFlags>();
  declare_flags(command, *flags);
  command.callback([flags, &exit_code] { exit_code = run_eval(*flags); });
}

}  // namespace boreas
