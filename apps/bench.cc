// boreas bench: decode figures of an executor (the other benches have files of their own), one JSON line a run. Warm-up
// first, medians of several runs, and the bytes behind every percentage: what a step really read, and the machine's
// read bandwidth measured in the same process.
#include <cstdio>
#include <iostream>

#include "bench_decode.h"
#include "bench_figures.h"
#include "bench_host.h"
#include "bench_load.h"
#include "bench_parts.h"
#include "bench_prefill.h"
#include "bench_report.h"
#include "bench_serve.h"
#include "bench_support.h"
#include "bench_tune.h"
#include "commands.h"
#include "exec/cuda/cuda_executor.h"

namespace boreas {
namespace {

struct BenchFlags {
  DecodeSetup setup;
  std::string arm = "megakernel", cut = "levels";
  std::vector<int32_t> batches{1}, contexts{128};  // decode: every pair is a run
  int32_t runs = 5;
  std::string results_dir;
};

bool on_gpu(const BenchFlags& flags) { return flags.setup.device != "cpu"; }

constexpr uint64_t kFirstSeed = 999;

// What stands behind a line: its goal, or that no gain counts against it.
std::string verdict_of(const boost::json::object& line) {
  if (const std::optional<DecodeGoal> goal = decode_goal(line))
    return "  " + goal_text(*goal) + (misses_goal(line) ? ": missed" : "");
  const bool untuned = is_untuned(line.at("arm").as_string().c_str(), static_cast<int32_t>(number_of(line, "batch")),
                                  number_of(line, "percent_of_limit"));
  return untuned ? "  untuned: no gain counts against it" : "";
}

void print_table(const std::vector<boost::json::object>& lines) {
  std::printf("\n%12s %7s %9s %10s %10s %8s %10s %12s %10s\n", "arm", "batch", "context", "tok/s", "step, us", "GB",
              "experts", "read, GB/s", "of limit");
  for (const boost::json::object& line : lines)
    std::printf("%12s %7.0f %9.0f %10.1f %10.1f %8.2f %10.0f %12.0f %8.1f %%%s\n", line.at("arm").as_string().c_str(),
                number_of(line, "batch"), number_of(line, "context"), number_of(line, "tok_s"),
                number_of(line, "step_us"), number_of(line, "bytes_per_step") / 1e9,
                number_of(line, "distinct_experts"), number_of(line, "read_gb_s"), number_of(line, "percent_of_limit"),
                verdict_of(line).c_str());
  std::fflush(stdout);
}

// An error if a goal was missed; all lines have been printed and recorded then.
Status goals_met(const std::vector<boost::json::object>& lines) {
  int32_t missed = 0;
  for (const boost::json::object& line : lines) missed += misses_goal(line) ? 1 : 0;
  if (missed == 0) return Ok{};
  return Error{std::to_string(missed) + (missed == 1 ? " goal was" : " goals were") + " missed"};
}

Status run_decodes(const BenchFlags& flags) {
  std::vector<CudaArm> arms;
  for (const ArmName& arm : kArms)
    if (flags.arm == arm.name || flags.arm == "all") arms.push_back(arm.arm);
  if (!on_gpu(flags)) {
    if (flags.arm != "megakernel") return Error{"--arm " + flags.arm + " needs a GPU: give --device cuda"};
    arms.resize(1);
  }
  std::vector<boost::json::object> lines;
  for (int32_t context : flags.contexts) {
    for (int32_t batch : flags.batches) {
      for (CudaArm arm : arms) {
        DecodeSetup setup = flags.setup;
        setup.batch = batch;
        setup.context = context;
        setup.arm = arm;
        setup.cut = flags.cut == "ops" ? KernelCut::kOps : KernelCut::kLevels;
        ASSIGN_OR_RETURN(lines.emplace_back(), measure_decode(setup, flags.runs, kFirstSeed, flags.results_dir));
      }
    }
  }
  if (lines.size() > 1 || arms.front() != CudaArm::kMegakernel || decode_goal(lines.front())) print_table(lines);
  return goals_met(lines);
}

void add_common(Command app, BenchFlags& flags) {
  add_decode_options(app, flags.setup);
  app.add_option("--threads", flags.setup.threads, "CPU threads, at most one a processor; 0: all processors")
      .between(0, 1024);
  app.add_option("--runs", flags.runs, "repetitions after warm-up").between(1, 1000).show_default();
  app.add_option("--results", flags.results_dir,
                 "append the line to <machine>.ndjson in this folder, e.g. bench/results")
      .writable_folder();
}

}  // namespace

void add_bench_command(Command app, int& exit_code) {
  const Command bench = app.add_subcommand(
      "bench", "measure decode, prefill, serving, loading, compiling and tokenising; one JSON line each");
  bench.require_subcommand();
  auto flags = std::make_shared<BenchFlags>();
  auto finish = [&exit_code](const Status& status) {
    if (status.ok()) return;
    std::cerr << "boreas bench: " << status.error().message << "\n";
    exit_code = 1;
  };
  add_host_benches(bench, finish);
  add_prefill_bench(bench, finish);
  add_serve_bench(bench, finish);
  add_load_bench(bench, finish);
  add_tune_bench(bench, finish);
  add_parts_bench(bench, finish);
  add_report_bench(bench, finish);
  const Command decode = bench.add_subcommand("decode", "tokens a second at a batch size and context");
  add_common(decode, *flags);
  decode.add_option("--batch", flags->batches, "rows; several, as in 1,2,4,8, make a table")
      .between(1, 64)
      .separated_by(',')
      .show_default();
  decode.add_option("--context", flags->contexts, "positions before the first step, filled with seeded values")
      .between(1, 1 << 20)
      .separated_by(',')
      .show_default();
  decode.add_option("--steps", flags->setup.steps, "tokens a row and run").between(1, 100000).show_default();
  decode
      .add_option(
          "--arm", flags->arm,
          "on a GPU: the megakernel, or for comparison the same tasks as several kernels in a CUDA graph, plain "
          "or each begun before the last is done (dependent launch): megakernel, graph, dependent or all")
      .one_of({"megakernel", "graph", "dependent", "all"})
      .show_default();
  decode
      .add_option("--cut", flags->cut,
                  "where those kernels are cut: levels, only where workers wait for each other, or ops, one an op")
      .one_of({"levels", "ops"})
      .show_default();
  decode.add_flag("--same-token", flags->setup.same_token,
                  "all rows start from one token and seed, so that they hit the same experts");
  decode.callback([=] { finish(run_decodes(*flags)); });
}

}  // namespace boreas
