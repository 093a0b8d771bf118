// boreas bench plan: compile and prove the programs of every batch size; boreas bench tokenizer: encode text.
#include "bench_host.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

#include "bench_support.h"
#include "model/model.h"
#include "program/compile.h"
#include "text/text.h"

namespace boreas {
namespace {

struct PlanFlags {
  std::string model_shape = "north";
  int32_t batch_max = 8;
  int32_t threads = 2;
  int32_t runs = 5;
  std::string results_dir;
};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int64_t peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// All batch sizes, dealt to threads as they become free.
Status compile_all(const ModelConfig& config, const PlanFlags& flags) {
  std::atomic<int32_t> next{1};
  std::mutex mutex;
  std::string problem;
  auto work = [&] {
    for (int32_t batch = next++; batch <= flags.batch_max; batch = next++) {
      const Result<Program> program = compile(config, h200_spec(), batch);
      if (program.ok()) continue;
      std::lock_guard<std::mutex> lock(mutex);
      problem = program.error().message;
    }
  };
  std::vector<std::thread> threads;
  for (int32_t i = 1; i < flags.threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (!problem.empty()) return Error{problem};
  return Ok{};
}

Status run_plan(const PlanFlags& flags) {
  ASSIGN_OR_RETURN(const ModelConfig config, model_shape(flags.model_shape));
  std::vector<double> seconds;
  for (int32_t run = 0; run < flags.runs; ++run) {
    const double start = now_s();
    RETURN_IF_ERROR(compile_all(config, flags));
    seconds.push_back(now_s() - start);
  }
  const Spread time = spread_of(seconds);
  boost::json::object line =
      result_line("plan", "compile and verify", "host, " + std::to_string(flags.threads) + " threads");
  line["model_shape"] = flags.model_shape;
  line["programs"] = flags.batch_max;
  line["workers"] = h200_spec().workers;
  line["seconds"] = time.median;
  line["seconds_min"] = time.min;
  line["seconds_max"] = time.max;
  line["runs"] = flags.runs;
  line["peak_rss_mb"] = peak_rss_mb();
  if (!record_result(line, flags.results_dir)) return Error{"the result was not recorded"};
  return Ok{};
}

struct TokenizerFlags {
  std::string directory;
  std::vector<std::string> files;
  int32_t runs = 5;
  std::string results_dir;
};

Status run_tokenizer(const TokenizerFlags& flags) {
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.directory));
  std::string text;
  for (const std::string& path : flags.files) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    if (!file.good()) return Error{"cannot read " + path};
    text += content.str();
  }
  std::vector<double> mb_s;
  size_t tokens = 0;
  for (int32_t run = -1; run < flags.runs; ++run) {
    const double start = now_s();
    ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer.encode(text, {}));
    if (run >= 0) mb_s.push_back(static_cast<double>(text.size()) / (now_s() - start) / 1e6);
    tokens = ids.size();
  }
  const Spread speed = spread_of(mb_s);
  boost::json::object line = result_line("tokenizer", "encode", "host, 1 thread");
  line["vocabulary"] = tokenizer.vocab_size();
  line["bytes"] = text.size();
  line["tokens"] = tokens;
  line["mb_s"] = speed.median;
  line["mb_s_min"] = speed.min;
  line["mb_s_max"] = speed.max;
  line["runs"] = flags.runs;
  if (!record_result(line, flags.results_dir)) return Error{"the result was not recorded"};
  return Ok{};
}

}  // namespace

void add_host_benches(Command bench, const std::function<void(const Status&)>& finish) {
  auto plan_flags = std::make_shared<PlanFlags>();
  const Command plan =
      bench.add_subcommand("plan", "compile and prove the programs of batch 1 to --batch-max for an H200");
  plan.add_option("--model-shape", plan_flags->model_shape).show_default();
  plan.add_option("--batch-max", plan_flags->batch_max).between(1, 8).show_default();
  plan.add_option("--threads", plan_flags->threads).between(1, 64).show_default();
  plan.add_option("--runs", plan_flags->runs).between(1, 100).show_default();
  plan.add_option("--results", plan_flags->results_dir, "append the line to <machine>.ndjson in this folder")
      .writable_folder();
  plan.callback([=] { finish(run_plan(*plan_flags)); });

  auto text_flags = std::make_shared<TokenizerFlags>();
  const Command tokenizer = bench.add_subcommand("tokenizer", "megabytes of text a second on one core");
  tokenizer.add_option("directory", text_flags->directory, "with tokenizer.json").required();
  tokenizer.add_option("files", text_flags->files, "text to encode").required();
  tokenizer.add_option("--runs", text_flags->runs).between(1, 100).show_default();
  tokenizer.add_option("--results", text_flags->results_dir, "append the line to <machine>.ndjson in this folder")
      .writable_folder();
  tokenizer.callback([=] { finish(run_tokenizer(*text_flags)); });
}

}  // namespace boreas
