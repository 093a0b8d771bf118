// boreas bench: decode and prefill figures of an executor, one JSON line a run. Warm-up first, medians of several runs,
// and the bytes behind every percentage: what a step really read, and the machine's read bandwidth measured in the same
// process.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>

#include "base/prng.h"
#include "bench_host.h"
#include "bench_support.h"
#include "commands.h"
#include "exec/cpu/cpu_executor.h"
#include "program/compile.h"

namespace boreas {
namespace {

struct BenchFlags {
  std::string model;  // directory or hub id
  std::string model_shape = "bench";
  int32_t threads = 0;
  int32_t batch = 1;
  int32_t context = 128;
  int32_t steps = 16;
  int32_t runs = 5;
  int32_t tokens = 2000;  // of the prompt, prefill only
  bool same_token = false;
  std::string results_dir;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<std::shared_ptr<const Model>> bench_model(const BenchFlags& flags) {
  if (!flags.model.empty()) {
    ASSIGN_OR_RETURN(const std::string directory, resolve_model_directory(flags.model));
    return load_model(directory);
  }
  ASSIGN_OR_RETURN(const ModelConfig config, model_shape(flags.model_shape));
  return make_dummy_model(config);
}

// A sequence a row, each with its own pages filled with seeded values (uniform, mean 0, standard deviation 0.01) up to
// the context.
class Rows {
 public:
  Rows(Executor& executor, const BenchFlags& flags, int32_t positions) : executor_(executor), flags_(flags) {
    const int32_t pages = static_cast<int32_t>(ceil_div(positions, kPagePositions));
    tables_.resize(static_cast<size_t>(flags.batch));
    int32_t next = 0;
    for (auto& table : tables_)
      for (int32_t page = 0; page < pages; ++page) table.emplace_back(next++);
  }

  Status fill() {
    for (PagePoolKind pool : {PagePoolKind::kFull, PagePoolKind::kSliding}) {
      const int64_t bytes =
          pool == PagePoolKind::kFull ? executor_.info().page_bytes_full : executor_.info().page_bytes_sliding;
      std::vector<std::byte> content(static_cast<size_t>(bytes));
      Prng prng(7);
      for (size_t i = 0; i + 1 < content.size(); i += 2) {
        const bf16 value =
            float_to_bf16((prng.uniform() - 0.5f) * 0.0346f);  // a uniform of width w has deviation w / sqrt(12)
        __builtin_memcpy(content.data() + i, &value, sizeof value);
      }
      for (const auto& table : tables_)
        for (PageId page : table) RETURN_IF_ERROR(executor_.restore_page(pool, page, content));
    }
    return Ok{};
  }

  // Starts all rows at the context with a token of their own, sampling at temperature 1.
  void open(uint64_t seed) {
    first_tokens_.clear();
    for (int32_t row = 0; row < flags_.batch; ++row) {
      SequenceSpec spec;
      spec.sampling.seed = flags_.same_token ? seed : seed + static_cast<uint64_t>(row);
      executor_.open_sequence(row, spec);
      const uint32_t vocab = static_cast<uint32_t>(executor_.info().vocab_size);
      first_tokens_.push_back(
          static_cast<TokenId>(Prng(flags_.same_token ? seed : seed * 31 + static_cast<uint64_t>(row)).below(vocab)));
    }
    position_ = flags_.context - 1;
  }
  void close() {
    for (int32_t row = 0; row < flags_.batch; ++row) executor_.close_sequence(row);
  }

  Result<StepResult> step() {
    StepPlan plan;
    for (int32_t row = 0; row < flags_.batch; ++row) {
      StepRow step_row;
      step_row.slot = row;
      step_row.position = position_;
      const size_t r = static_cast<size_t>(row);
      if (position_ == flags_.context - 1) step_row.tokens = std::span(first_tokens_).subspan(r, 1);
      step_row.full_pages = step_row.sliding_pages = tables_[r];
      step_row.logits = LogitsWanted::kLast;
      plan.rows.push_back(step_row);
    }
    ++position_;
    ASSIGN_OR_RETURN(const StepTicket ticket, executor_.submit(plan));
    return executor_.wait(ticket);
  }

 private:
  Executor& executor_;
  const BenchFlags& flags_;
  std::vector<std::vector<PageId>> tables_;
  std::vector<TokenId> first_tokens_;
  int32_t position_ = 0;
};

Result<std::unique_ptr<Executor>> bench_executor(std::shared_ptr<const Model> model, const BenchFlags& flags,
                                                 int32_t positions) {
  CpuExecutorOptions options;
  options.threads = flags.threads;
  options.sequence_slots = flags.batch;
  const int32_t pages = static_cast<int32_t>(ceil_div(positions, kPagePositions)) * flags.batch;
  options.pages_full = options.pages_sliding = pages;
  options.tokens_max = std::max(positions, flags.batch);
  return make_cpu_executor(std::move(model), options);
}

Status run_decode(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, bench_model(flags));
  const int32_t positions = flags.context + flags.steps + 1;
  if (positions > model->config().context_max)
    return Error{"context " + std::to_string(flags.context) + " and " + std::to_string(flags.steps) +
                 " steps exceed the model's " + std::to_string(model->config().context_max) + " positions"};
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, bench_executor(model, flags, positions));
  Rows rows(*executor, flags, positions);
  RETURN_IF_ERROR(rows.fill());
  std::vector<double> tok_s, gb_s;
  int64_t bytes = 0;
  double experts = 0;
  for (int32_t run = -1; run < flags.runs; ++run) {  // run -1 warms up
    rows.open(static_cast<uint64_t>(run) + 1000);
    int64_t run_bytes = 0, run_experts = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < flags.steps; ++i) {
      ASSIGN_OR_RETURN(const StepResult result, rows.step());
      run_bytes += result.bytes_read;
      run_experts += result.distinct_experts;
    }
    const double seconds = seconds_since(start);
    rows.close();
    if (run < 0) continue;
    tok_s.push_back(flags.batch * flags.steps / seconds);
    gb_s.push_back(static_cast<double>(run_bytes) / seconds / 1e9);
    bytes = run_bytes / flags.steps;
    experts = static_cast<double>(run_experts) / flags.steps;
  }
  const ReadBandwidth read = measure_read_bandwidth(cpu_threads(flags.threads), int64_t{1} << 30);
  const Spread speed = spread_of(tok_s);
  boost::json::object line = result_line("decode", "interpreter", executor->info().device);
  line["model_shape"] = flags.model.empty() ? flags.model_shape + " (dummy weights)" : flags.model;
  line["dtype"] = "bf16";
  line["batch"] = flags.batch;
  line["same_token"] = flags.same_token;
  line["context"] = flags.context;
  line["steps"] = flags.steps;
  line["tok_s"] = speed.median;
  line["tok_s_min"] = speed.min;
  line["tok_s_max"] = speed.max;
  line["runs"] = flags.runs;
  line["bytes_per_step"] = bytes;
  line["distinct_experts"] = experts;
  line["read_gb_s"] = read.gb_s;
  line["read_pattern"] = read.pattern;
  line["percent_of_limit"] = 100 * spread_of(gb_s).median / read.gb_s;
  if (!record_result(line, flags.results_dir)) return Error{"the result was not recorded"};
  return Ok{};
}

// Time to the first token of a prompt on an idle executor.
Status run_prefill(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, bench_model(flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, bench_executor(model, flags, flags.tokens));
  std::vector<TokenId> prompt;
  Prng prng(5);
  for (int32_t i = 0; i < flags.tokens; ++i)
    prompt.push_back(static_cast<TokenId>(prng.below(static_cast<uint32_t>(model->config().vocab_size))));
  std::vector<PageId> pages;
  for (int32_t page = 0; page * kPagePositions < flags.tokens; ++page) pages.emplace_back(page);
  std::vector<double> milliseconds;
  for (int32_t run = -1; run < flags.runs; ++run) {
    executor->open_sequence(0, {});
    StepRow row;
    row.tokens = prompt;
    row.full_pages = row.sliding_pages = pages;
    row.logits = LogitsWanted::kLast;
    StepPlan plan;
    plan.rows.push_back(row);
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const StepTicket ticket, executor->submit(plan));
    RETURN_IF_ERROR(executor->wait(ticket));
    if (run >= 0) milliseconds.push_back(seconds_since(start) * 1e3);
    executor->close_sequence(0);
  }
  const Spread time = spread_of(milliseconds);
  boost::json::object line = result_line("prefill", "interpreter", executor->info().device);
  line["model_shape"] = flags.model.empty() ? flags.model_shape + " (dummy weights)" : flags.model;
  line["dtype"] = "bf16";
  line["tokens"] = flags.tokens;
  line["first_token_ms"] = time.median;
  line["first_token_ms_min"] = time.min;
  line["first_token_ms_max"] = time.max;
  line["tok_s"] = flags.tokens / time.median * 1e3;
  line["runs"] = flags.runs;
  if (!record_result(line, flags.results_dir)) return Error{"the result was not recorded"};
  return Ok{};
}

void add_common(CLI::App& app, BenchFlags& flags) {
  app.add_option("--model", flags.model, "checkpoint directory or hub id; without it, dummy weights of --model-shape");
  app.add_option("--model-shape", flags.model_shape, "shape for dummy weights")->capture_default_str();
  app.add_option("--threads", flags.threads, "CPU threads, at most one a processor; 0: all processors")
      ->check(CLI::Range(0, 1024));
  app.add_option("--runs", flags.runs, "repetitions after warm-up")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--results", flags.results_dir,
                 "append the line to <machine>.ndjson in this folder, e.g. bench/results");
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* bench =
      app.add_subcommand("bench", "measure decode, prefill, compiling and tokenising; one JSON line each");
  bench->require_subcommand(1);
  auto flags = std::make_shared<BenchFlags>();
  auto finish = [&exit_code](const Status& status) {
    if (status.ok()) return;
    std::cerr << "boreas bench: " << status.error().message << "\n";
    exit_code = 1;
  };
  add_host_benches(*bench, finish);
  CLI::App* decode = bench->add_subcommand("decode", "tokens a second at a batch size and context");
  add_common(*decode, *flags);
  decode->add_option("--batch", flags->batch, "rows")->check(CLI::Range(1, 64))->capture_default_str();
  decode->add_option("--context", flags->context, "positions before the first step, filled with seeded values")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  decode->add_option("--steps", flags->steps, "tokens a row and run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  decode->add_flag("--same-token", flags->same_token,
                   "all rows start from one token and seed, so that they hit the same experts");
  decode->callback([=] { finish(run_decode(*flags)); });
  CLI::App* prefill = bench->add_subcommand("prefill", "time to the first token of a prompt");
  add_common(*prefill, *flags);
  prefill->add_option("--tokens", flags->tokens, "prompt length")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  prefill->callback([=] { finish(run_prefill(*flags)); });
}

}  // namespace boreas
