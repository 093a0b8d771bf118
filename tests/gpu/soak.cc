// soak: the CUDA executor at batch 8 under random joins and leaves, on a full shape with dummy weights; every token is
// compared with the same request's alone. Prints a JSON line, which --results records; exits with 1 at a
// mismatch, with 2 where it could not run. Another --seed is another soak.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/bench_support.h"
#include "exec/cuda/cuda_executor.h"
#include "model/model.h"
#include "tests/gpu/soak_run.h"

namespace boreas {
namespace {

struct Flags {
  std::string shape = "north";
  std::string results;
  int32_t device = 0;
  uint32_t delay_seed = 0;
  SoakOptions soak;
};

Result<SoakReport> soak(const Flags& flags) {
  ASSIGN_OR_RETURN(const ModelConfig config, model_shape(flags.shape));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model,
                   make_dummy_model(config, {}, DummyValues::kMadeByExecutor));
  CudaExecutorOptions options;
  options.device_index = flags.device;
  options.sequence_slots = options.rows_max = flags.soak.slots;
  options.pages_full = options.pages_sliding = soak_pages(flags.soak) * flags.soak.slots;
  options.delay_seed = flags.delay_seed;
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, make_cuda_executor(model, options));
  ASSIGN_OR_RETURN(SoakReport report, run_soak(*executor, flags.soak));
  boost::json::object line = result_line("soak", "megakernel", executor->info().device);
  line["model_shape"] = flags.shape + " (dummy weights)";
  line["delay_seed"] = flags.delay_seed;
  report.write(flags.soak, line);
  if (!record_result(line, flags.results)) return Error{"the result was not recorded"};
  return report;
}

int main_of(int argc, char** argv) {
  Flags flags;
  CLI::App app("Compares the tokens of random batches with those of the same requests alone.");
  app.add_option("--model-shape", flags.shape)->capture_default_str();
  app.add_option("--seconds", flags.soak.seconds)->check(CLI::Range(1.0, 86400.0))->capture_default_str();
  app.add_option("--seed", flags.soak.seed)->capture_default_str();
  app.add_option("--requests", flags.soak.requests)->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--slots", flags.soak.slots)->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--prompt-max", flags.soak.prompt_max)->check(CLI::Range(1, 8192))->capture_default_str();
  app.add_option("--delay-seed", flags.delay_seed, "random pauses in the kernel; 0: none")->capture_default_str();
  app.add_option("--device", flags.device, "number of the GPU");
  app.add_option("--results", flags.results, "append the line to <machine>.ndjson in this folder")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  flags.soak.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  const Result<SoakReport> report = soak(flags);
  if (!report.ok()) {
    std::fprintf(stderr, "soak: %s\n", report.error().message.c_str());
    return 2;
  }
  return report->mismatches == 0 ? 0 : 1;
}

}  // namespace
}  // namespace boreas

int main(int argc, char** argv) { return boreas::main_of(argc, argv); }
