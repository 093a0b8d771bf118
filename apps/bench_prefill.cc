// See bench_prefill.h. One executor for all prompt lengths and batch sizes; a run is one plan with the whole prompts,
// so what is measured is from handing it over to knowing the first tokens.
#include "bench_prefill.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "bench_decode.h"
#include "bench_support.h"
#include "program/compile.h"

namespace boreas {
namespace {

struct PrefillFlags {
  DecodeSetup setup;
  std::vector<int32_t> batches{1}, tokens{2000};  // every pair is a run
  int32_t runs = 5;
  std::string results_dir;
};

// Multiplications and additions of the model's forward over a prompt, all layers, without the LM head.
double flops_of(const ModelConfig& config, int32_t tokens) {
  double sum = 0;
  for (int32_t i = 0; i < config.layer_count(); ++i) {
    const double hidden = config.hidden_size, query = config.query_width();
    double weights = hidden * (2 * query + 2.0 * config.kv_width());
    if (config.is_moe(i)) weights += hidden * (config.experts + 3.0 * config.experts_per_token * config.expert_width);
    else weights += 3 * hidden * config.dense_width;
    sum += 2 * weights * tokens;
    const LayerConfig& layer = config.layers[static_cast<size_t>(i)];
    for (int32_t position = 0; position < tokens; ++position)
      sum += 4 * query * (position + 1 - first_visible(position, layer.sliding, config.window));
  }
  return sum;
}

class Prompts {
 public:
  // Room for `batch` prompts of `tokens` tokens in an executor made for batches and prompts at least as large.
  Prompts(Executor& executor, int32_t batch, int32_t tokens) : executor_(executor) {
    const int32_t pages = static_cast<int32_t>(ceil_div(tokens + 1, kPagePositions));
    Prng prng(5);
    const uint32_t vocab = static_cast<uint32_t>(executor.info().vocab_size);
    for (int32_t row = 0; row < batch; ++row) {
      std::vector<TokenId>& prompt = prompts_.emplace_back();
      for (int32_t i = 0; i < tokens; ++i) prompt.push_back(static_cast<TokenId>(prng.below(vocab)));
      std::vector<PageId>& own = pages_.emplace_back();
      for (int32_t page = 0; page < pages; ++page) own.emplace_back(row * pages + page);
    }
  }

  // Milliseconds from submitting to the first tokens.
  Result<double> run() {
    StepPlan plan;
    for (size_t row = 0; row < prompts_.size(); ++row) {
      SequenceSpec spec;
      spec.sampling.temperature = 0;
      executor_.open_sequence(static_cast<int32_t>(row), spec);
      StepRow& step_row = plan.rows.emplace_back();
      step_row.slot = static_cast<int32_t>(row);
      step_row.tokens = prompts_[row];
      step_row.full_pages = step_row.sliding_pages = pages_[row];
      step_row.logits = LogitsWanted::kLast;
    }
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const StepTicket ticket, executor_.submit(plan));
    RETURN_IF_ERROR(executor_.wait(ticket));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (size_t row = 0; row < prompts_.size(); ++row) executor_.close_sequence(static_cast<int32_t>(row));
    return seconds * 1e3;
  }

 private:
  Executor& executor_;
  std::vector<std::vector<TokenId>> prompts_;
  std::vector<std::vector<PageId>> pages_;
};

Status run_one(const PrefillFlags& flags, const DecodeStack& stack, int32_t batch, int32_t tokens) {
  Prompts prompts(*stack.executor, batch, tokens);
  std::vector<double> milliseconds;
  for (int32_t run = -1; run < flags.runs; ++run) {  // run -1 warms up
    ASSIGN_OR_RETURN(const double time, prompts.run());
    if (run >= 0) milliseconds.push_back(time);
  }
  const Spread time = spread_of(milliseconds);
  const bool gpu = flags.setup.device != "cpu";
  boost::json::object line =
      result_line("prefill", gpu ? "prefill kernels" : "interpreter", stack.executor->info().device);
  line["model_shape"] = flags.setup.model.empty() ? flags.setup.model_shape + " (dummy weights)" : flags.setup.model;
  line["dtype"] = "bf16";
  line["batch"] = batch;
  line["tokens"] = tokens;
  line["first_token_ms"] = time.median;
  line["first_token_ms_min"] = time.min;
  line["first_token_ms_max"] = time.max;
  line["tok_s"] = batch * tokens / time.median * 1e3;
  line["tflops"] = batch * flops_of(stack.model->config(), tokens) / time.median * 1e-9;
  line["runs"] = flags.runs;
  if (!record_result(line, flags.results_dir)) return Error{"the result was not recorded"};
  return Ok{};
}

Status run_prefills(const PrefillFlags& flags) {
  DecodeSetup setup = flags.setup;
  setup.batch = *std::max_element(flags.batches.begin(), flags.batches.end());
  setup.context = 1;  // sliding pages for the whole prompt
  const int32_t longest = *std::max_element(flags.tokens.begin(), flags.tokens.end());
  const int64_t plan_tokens = int64_t{setup.batch} * (longest + 1);
  if (plan_tokens > INT32_MAX) return Error{"batch times tokens is " + std::to_string(plan_tokens) + ", too much"};
  setup.tokens_max = static_cast<int32_t>(plan_tokens);
  ASSIGN_OR_RETURN(const DecodeStack stack, make_decode_stack(setup, longest + 1));
  for (int32_t tokens : flags.tokens)
    for (int32_t batch : flags.batches) RETURN_IF_ERROR(run_one(flags, stack, batch, tokens));
  return Ok{};
}

}  // namespace

void add_prefill_bench(Command bench, const std::function<void(const Status&)>& finish) {
  auto flags = std::make_shared<PrefillFlags>();
  const Command prefill = bench.add_subcommand("prefill", "time to the first token of prompts; a JSON line a case");
  add_decode_options(prefill, flags->setup);
  prefill.add_option("--threads", flags->setup.threads, "CPU threads, at most one a processor; 0: all processors")
      .between(0, 1024);
  prefill.add_option("--runs", flags->runs, "repetitions after warm-up").between(1, 1000).show_default();
  prefill
      .add_option("--results", flags->results_dir,
                  "append the lines to <machine>.ndjson in this folder, e.g. bench/results")
      .writable_folder();
  prefill.add_option("--tokens", flags->tokens, "prompt length; several, as in 2048,8192")
      .between(1, 1 << 20)
      .separated_by(',')
      .show_default();
  prefill.add_option("--batch", flags->batches, "prompts side by side; several, as in 1,4")
      .between(1, 64)
      .separated_by(',')
      .show_default();
  prefill.callback([=] { finish(run_prefills(*flags)); });
}

}  // namespace boreas
