// compare_layers: the CUDA executor at full shape against what tools/compare_layers/oracle.py wrote, layer by layer,
// each layer on the oracle's own input. Prints a JSON line a run and, for people, a summary on stderr; exits with 1
// where a limit is passed, with 2 where the comparison could not be made. See tools/compare_layers/README.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/dummy_weights.h"
#include "tests/gpu/layer_comparison.h"
#include "tests/gpu/oracle_files.h"
#include "tests/gpu/probed_executor.h"

namespace boreas {
namespace {

struct Flags {
  std::string folder;
  std::vector<std::string> only;
  LayerLimits limits;
  int32_t plan_tokens = kLayerPlanTokens;
  ProbedOptions options;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Both sides must have made the same weights: what the oracle looked up in its embedding is what the recipe says.
Status check_embedding(const ModelConfig& config, const OracleRun& run) {
  const uint64_t hash = dummy_name_hash(published_tensor_name(WeightRole::kEmbedding, 0, 0));
  const size_t hidden = static_cast<size_t>(config.hidden_size);
  std::vector<bf16> wanted(hidden);
  for (size_t token = 0; token < run.tokens.size(); ++token) {
    fill_dummy(hash, WeightRole::kEmbedding, static_cast<uint64_t>(run.tokens[token]) * hidden, wanted);
    if (!std::equal(wanted.begin(), wanted.end(), run.inputs.begin() + static_cast<ptrdiff_t>(token * hidden)))
      return Error{run.name + ": the oracle's embedding of token " + std::to_string(run.tokens[token]) +
                   " is not that of dummy weights"};
  }
  return Ok{};
}

void print_kind(const char* name, const VectorDistances& distances) {
  std::fprintf(stderr,
               "  %-9s cosine %.6f (layer %d, position %d), relative RMS %.3f %% (layer %d, position %d); whole layers "
               "%.6f, %.3f %%; %lld of %lld vectors outside\n",
               name, distances.cosine_min, distances.cosine_layer, distances.cosine_position, 100 * distances.rms_max,
               distances.rms_layer, distances.rms_position, distances.layer_cosine_min, 100 * distances.layer_rms_max,
               static_cast<long long>(distances.outside), static_cast<long long>(distances.compared));
}

void print_report(const LayerReport& report, double seconds) {
  std::printf("%s\n", report.json_line().c_str());
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s, %.1f s\n", report.run.c_str(), report.ok ? "ok" : "NOT OK", seconds);
  print_kind("attention", report.attention);
  print_kind("mlp", report.mlp);
  const RouteDifferences& routes = report.routes;
  std::fprintf(
      stderr,
      "  routes    %lld of %lld sets differ; exchanged logits 0 / 1 / 2 / more ulps apart: %lld %lld %lld %lld\n",
      static_cast<long long>(routes.different), static_cast<long long>(routes.compared),
      static_cast<long long>(routes.by_ulps[0]), static_cast<long long>(routes.by_ulps[1]),
      static_cast<long long>(routes.by_ulps[2]), static_cast<long long>(routes.by_ulps[3]));
}

// Whether all runs are inside the limits.
Result<bool> compare(const Flags& flags) {
  ASSIGN_OR_RETURN(OracleFiles files, open_oracle_files(flags.folder));
  if (!flags.only.empty())
    std::erase_if(files.runs, [&](const OracleRun& run) {
      return std::find(flags.only.begin(), flags.only.end(), run.name) == flags.only.end();
    });
  if (files.runs.empty()) return Error{"there is no such run in " + flags.folder};
  ASSIGN_OR_RETURN(const ModelConfig config, model_shape(files.shape));
  for (const OracleRun& run : files.runs) RETURN_IF_ERROR(check_embedding(config, run));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model,
                   make_dummy_model(config, {}, DummyValues::kMadeByExecutor));
  LayerComparison comparison(config, flags.limits);
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                   make_probed_executor(model, files.runs, flags.options, comparison));
  std::fprintf(stderr, "oracle %s\n%s, ready in %.1f s\n", files.made_by.c_str(), executor->info().device.c_str(),
               seconds_since(start));
  bool ok = true;
  for (const OracleRun& run : files.runs) {
    const auto run_start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const LayerReport report, compare_run(*executor, config, run, comparison, flags.plan_tokens));
    print_report(report, seconds_since(run_start));
    ok = ok && report.ok;
  }
  return ok;
}

int main_of(int argc, char** argv) {
  Flags flags;
  CLI::App app("Compares the CUDA executor with an oracle, layer by layer.");
  app.add_option("folder", flags.folder, "that oracle.py wrote")->required();
  app.add_option("--only", flags.only, "names of runs; default: all");
  app.add_option("--device", flags.options.device_index, "number of the GPU");
  app.add_option("--norm-roundings", flags.options.norm_roundings,
                 "2: of x * scale, too, as transformers does; 1: the product's norm")
      ->check(CLI::Range(1, 2));
  app.add_option("--plan-tokens", flags.plan_tokens, "tokens of a plan; 1: by the kernel of one row")
      ->check(CLI::Range(1, kLayerPlanTokens));
  app.add_option("--cosine-min", flags.limits.cosine_min, "of every vector");
  app.add_option("--rms-max", flags.limits.rms_max, "of every vector, relative");
  app.add_option("--route-ulps", flags.limits.route_ulps_max,
                 "how far apart, in units in the last place of BF16, logits of exchanged experts may be");
  CLI11_PARSE(app, argc, argv);
  const Result<bool> ok = compare(flags);
  if (!ok.ok()) {
    std::fprintf(stderr, "compare_layers: %s\n", ok.error().message.c_str());
    return 2;
  }
  return *ok ? 0 : 1;
}

}  // namespace
}  // namespace boreas

int main(int argc, char** argv) { return boreas::main_of(argc, argv); }
