// boreas plan: compiles and proves the programs of a model on a machine and says what they do: tasks and bytes by op,
// ring and slots, hops, the step's bandwidth limit, the verdict. Also the lists themselves, a drawing of one layer, and
// what fits a GPU's memory. Needs no weights and no GPU.
#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <thread>

#include "commands.h"
#include "exec/cuda/cuda_executor.h"
#include "memory_report.h"
#include "model/model.h"
#include "program/compile.h"

namespace boreas {
namespace {

constexpr int32_t kBatchMax = 1024;
constexpr int32_t kWorkersMax = 1024;
constexpr int32_t kBatchesOfAll = 8;  // what the decode kernel is tuned for
constexpr int32_t kDefaultContext = 8192;
constexpr uintmax_t kConfigBytesMax = 16 << 20;

struct PlanFlags {
  std::string model_shape = "north";
  std::string device = "h200";
  std::string batch = "1";
  int32_t workers = 0;  // 0: the device's
  int32_t context = 0;  // 0: 8192, or the model's largest
  int32_t threads = 0;  // 0: the machine's
  int32_t layer = -1;   // of the drawing; -1: the first routed one with full attention
  int32_t list = -1;    // worker
  bool json = false;
  bool memory = false;
  std::string svg;
  std::string dump;
};

struct Compiled {
  int32_t rows = 0;
  std::optional<Program> program;
  Verdict verdict;
  double compile_ms = 0;
  double verify_ms = 0;
};

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- flags
Result<ModelConfig> read_shape(const std::string& shape) {
  std::error_code error;
  if (std::filesystem::is_directory(shape, error)) return load_model_config(shape);
  if (!std::filesystem::is_regular_file(shape, error)) return model_shape(shape);
  if (std::filesystem::file_size(shape, error) > kConfigBytesMax)
    return Error{shape + " is larger than 16 MiB; expected a config.json", "model_shape"};
  std::ifstream file(shape, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return Error{shape + " cannot be read", "model_shape"};
  return parse_model_config(text);
}

Result<DeviceSpec> read_device(const PlanFlags& flags) {
  DeviceSpec device;
  if (flags.device == "h200") device = h200_spec();
  else if (flags.device == "h100") device = h100_spec();
  else if (flags.device == "cpu")
    device = cpu_spec(static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency())));
  else if (flags.device == "toy") device = toy_spec(3);
  else return Error{"device \"" + flags.device + "\" is unknown; expected h200, h100, cpu or toy", "device"};
  if (flags.workers > 0) device.workers = flags.workers;
  return device;
}

// "3", "1-8" or "all".
Result<Range> read_batch(const std::string& text) {
  if (text == "all") return Range{1, kBatchesOfAll};
  int32_t first = 0, last = 0, used = 0;
  const int fields = std::sscanf(text.c_str(), "%6d-%6d%n", &first, &last, &used);
  const bool single = fields == 1 && std::to_string(first) == text;
  const bool several = fields == 2 && static_cast<size_t>(used) == text.size();
  if (single) last = first;
  if ((!single && !several) || first < 1 || last < first || last > kBatchMax)
    return Error{"batch \"" + text + "\" is none: expected a number from 1 to " + std::to_string(kBatchMax) +
                     ", a range as in 1-8, or all",
                 "batch"};
  return Range{first, last - first + 1};
}

// ---- compile
Compiled compile_one(const ModelConfig& config, const DeviceSpec& device, int32_t rows) {
  Compiled compiled;
  compiled.rows = rows;
  const double start = now_ms();
  Result<Program> program = place(lower(config, rows), device, rows);
  const double placed = now_ms();
  compiled.compile_ms = placed - start;
  if (!program.ok()) {
    compiled.verdict.problem = program.error().message;
    return compiled;
  }
  compiled.verdict = verify(*program);
  compiled.verify_ms = now_ms() - placed;
  compiled.program = std::move(*program);
  return compiled;
}

std::vector<Compiled> compile_all(const ModelConfig& config, const DeviceSpec& device, Range batch, int32_t threads) {
  std::vector<Compiled> all(static_cast<size_t>(batch.count));
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < all.size(); i = next++)
      all[i] = compile_one(config, device, batch.first + static_cast<int32_t>(i));
  };
  const unsigned machine = std::max(1u, std::thread::hardware_concurrency());
  const size_t wanted = threads > 0 ? static_cast<size_t>(threads) : machine;
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(wanted, all.size()); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return all;
}

// ---- output
double tokens_per_s(const Compiled& compiled, const ProgramSummary& summary) {
  return summary.predicted_us > 0 ? compiled.rows / summary.predicted_us * 1e6 : 0;
}

boost::json::object json_of(const Compiled& compiled, int32_t context) {
  boost::json::object json;
  json["batch"] = compiled.rows;
  json["verdict"] = compiled.verdict.ok ? "ok" : compiled.verdict.problem;
  json["compile_ms"] = compiled.compile_ms;
  json["verify_ms"] = compiled.verify_ms;
  if (!compiled.program) return json;
  const Program& program = *compiled.program;
  const ProgramSummary summary = summarize(program, compiled.rows, context);
  json["tasks"] = summary.tasks;
  json["tasks_checked"] = compiled.verdict.tasks_checked;
  json["accesses_checked"] = compiled.verdict.accesses_checked;
  json["ring_chunks"] = program.ring_chunks;
  json["chunk_bytes"] = program.device.chunk_bytes;
  json["producers"] = program.producers;
  json["slot_bytes"] = program.slot_bytes;
  json["chunks_per_step_max"] = summary.chunks_max;
  json["hops_per_layer"] = summary.hops_per_layer;
  json["hop_chain_per_layer"] = summary.hop_chain_per_layer;
  json["worker_bytes_min"] = summary.worker_bytes_min;
  json["worker_bytes_max"] = summary.worker_bytes_max;
  json["step_bytes"] = summary.step_bytes;
  json["limit_us"] = summary.predicted_us;
  json["limit_tok_s"] = tokens_per_s(compiled, summary);
  boost::json::array& ops = json["ops"].emplace_array();
  for (int32_t op = 0; op < kOps; ++op) {
    const OpTotals& totals = summary.ops[static_cast<size_t>(op)];
    if (totals.tasks == 0) continue;
    ops.push_back({{"op", op_name(static_cast<Op>(op))},
                   {"role", role_name(op_role(static_cast<Op>(op)))},
                   {"tasks", totals.tasks},
                   {"bytes", totals.bytes},
                   {"worker_bytes_min", totals.worker_bytes_min},
                   {"worker_bytes_max", totals.worker_bytes_max},
                   {"chunks_max", totals.chunks_max}});
  }
  return json;
}

void print_ops(const ProgramSummary& summary) {
  std::printf("  %-16s %-10s %9s %16s %14s %14s %7s\n", "op", "role", "tasks", "bytes a step", "a worker, min", "max",
              "chunks");
  for (int32_t op = 0; op < kOps; ++op) {
    const OpTotals& totals = summary.ops[static_cast<size_t>(op)];
    if (totals.tasks == 0) continue;
    std::printf("  %-16s %-10s %9lld", op_name(static_cast<Op>(op)), role_name(op_role(static_cast<Op>(op))),
                static_cast<long long>(totals.tasks));
    if (totals.bytes > 0)
      std::printf(" %16lld %14lld %14lld %7lld", static_cast<long long>(totals.bytes),
                  static_cast<long long>(totals.worker_bytes_min), static_cast<long long>(totals.worker_bytes_max),
                  static_cast<long long>(totals.chunks_max));
    std::printf("\n");
  }
}

void print_one(const Compiled& compiled, int32_t context, bool with_ops) {
  std::printf("batch %d: ", compiled.rows);
  if (!compiled.program) {
    std::printf("not compiled: %s\n", compiled.verdict.problem.c_str());
    return;
  }
  const Program& program = *compiled.program;
  const ProgramSummary summary = summarize(program, compiled.rows, context);
  std::printf(
      "%s; %lld tasks, compiled in %.1f ms, verified in %.1f ms (%lld tasks, %lld accesses over unrolled "
      "steps)\n",
      compiled.verdict.ok ? "verified" : ("REJECTED: " + compiled.verdict.problem).c_str(),
      static_cast<long long>(summary.tasks), compiled.compile_ms, compiled.verify_ms,
      static_cast<long long>(compiled.verdict.tasks_checked),
      static_cast<long long>(compiled.verdict.accesses_checked));
  if (with_ops) print_ops(summary);
  std::printf("  ring %d chunks of %d bytes, %d producer warps, turned over by %lld chunks a step; slots %lld bytes\n",
              program.ring_chunks, program.device.chunk_bytes, program.producers,
              static_cast<long long>(summary.chunks_max), static_cast<long long>(program.slot_bytes));
  std::printf("  a layer: %d hops, %d of them in a row; a worker streams %lld to %lld bytes\n", summary.hops_per_layer,
              summary.hop_chain_per_layer, static_cast<long long>(summary.worker_bytes_min),
              static_cast<long long>(summary.worker_bytes_max));
  std::printf("  a step must read %lld bytes at context %d", static_cast<long long>(summary.step_bytes), context);
  if (summary.predicted_us > 0)
    std::printf(": at least %.0f us, at most %.0f tok/s", summary.predicted_us, tokens_per_s(compiled, summary));
  std::printf("\n");
}

// ---- memory
constexpr int64_t kFitContexts[] = {8192, 32768, 131072, 262144};

// Of a server with default flags. Where it does not fit, the error says why.
std::vector<std::pair<DeviceSpec, Result<ExecutorInfo>>> memory_plans(const ModelConfig& config) {
  std::vector<std::pair<DeviceSpec, Result<ExecutorInfo>>> all;
  for (const DeviceSpec& device : {h100_spec(), h200_spec()})
    all.emplace_back(device, plan_cuda_memory(config, device, CudaExecutorOptions{}));
  return all;
}

boost::json::array memory_json(const ModelConfig& config) {
  boost::json::array all;
  for (const auto& [device, plan] : memory_plans(config)) {
    boost::json::object& json = all.emplace_back(boost::json::object()).as_object();
    json["device"] = device.name;
    json["memory_bytes"] = device.memory_bytes;
    if (!plan.ok()) {
      json["refused"] = plan.error().message;
      continue;
    }
    boost::json::object uses, fits;
    for (const MemoryUse& use : plan->memory) uses[use.what] = use.bytes;
    for (const int64_t positions : kFitContexts)
      if (positions <= plan->context_max) fits[std::to_string(positions)] = sequences_that_fit(*plan, positions);
    json["uses"] = std::move(uses);
    json["reserve_bytes"] = CudaExecutorOptions{}.reserve_bytes;
    json["page_bytes_full"] = plan->page_bytes_full;
    json["page_bytes_sliding"] = plan->page_bytes_sliding;
    json["pages_full"] = plan->pages_full;
    json["pages_sliding"] = plan->pages_sliding;
    json["tokens_that_fit"] = tokens_that_fit(*plan);
    json["windows_that_fit"] = windows_that_fit(*plan);
    json["positions_of_one_sequence"] = plan->context_max;
    json["sequences_by_context"] = std::move(fits);
  }
  return all;
}

void print_memory_plans(const ModelConfig& config) {
  constexpr double kGb = 1e9, kMib = 1 << 20;
  std::printf("a page holds %d positions: full-attention layers %.3f MiB, sliding layers %.3f MiB (window %d)\n",
              kLayoutPagePositions, static_cast<double>(page_bytes_full(config)) / kMib,
              static_cast<double>(page_bytes_sliding(config)) / kMib, config.window);
  for (const auto& [device, plan] : memory_plans(config)) {
    std::printf("\n%s, %.0f GB, of which %.3f GB stay in reserve\n", device.name.c_str(),
                static_cast<double>(device.memory_bytes) / kGb,
                static_cast<double>(CudaExecutorOptions{}.reserve_bytes) / kGb);
    std::fflush(stdout);
    if (!plan.ok()) {
      std::printf("  %s\n", plan.error().message.c_str());
      continue;
    }
    print_memory(std::cout, *plan);
    for (const int64_t positions : kFitContexts)
      if (positions <= plan->context_max)
        std::printf("  %6lld sequences of %lld tokens side by side\n",
                    static_cast<long long>(sequences_that_fit(*plan, positions)), static_cast<long long>(positions));
  }
}

// ---- the command
Status write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    return Ok{};
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return Error{path + " cannot be written"};
  return Ok{};
}

int32_t drawn_layer(const ModelConfig& config, int32_t wanted) {
  if (wanted >= 0) return wanted;
  for (int32_t layer = 0; layer < config.layer_count(); ++layer)
    if (config.is_moe(layer) && !config.layers[static_cast<size_t>(layer)].sliding) return layer;
  return config.layer_count() - 1;
}

Status check_ranges(const PlanFlags& flags, int32_t context, const ModelConfig& config, const DeviceSpec& device) {
  if (context > config.context_max)
    return Error{"context " + std::to_string(context) + " is out of range; the model has 1 to " +
                 std::to_string(config.context_max)};
  if (flags.layer >= config.layer_count())
    return Error{"layer " + std::to_string(flags.layer) + " does not exist; the model has " +
                 std::to_string(config.layer_count())};
  if (flags.list >= device.workers)
    return Error{"worker " + std::to_string(flags.list) + " does not exist; there are " +
                 std::to_string(device.workers)};
  return Ok{};
}

// Lists, drawing and dump are of the first program compiled.
Status write_views(const PlanFlags& flags, const Compiled& first) {
  if (!first.program) return Ok{};
  if (flags.list >= 0) std::cout << dump_text(*first.program, flags.list);
  if (!flags.dump.empty()) RETURN_IF_ERROR(write_text(flags.dump, dump_json(*first.program)));
  if (!flags.svg.empty()) {
    const int32_t layer = drawn_layer(first.program->config, flags.layer);
    RETURN_IF_ERROR(write_text(flags.svg, draw_layer_svg(*first.program, layer)));
  }
  return Ok{};
}

// True if every program verified.
Result<bool> run_plan(const PlanFlags& flags) {
  ASSIGN_OR_RETURN(const ModelConfig config, read_shape(flags.model_shape));
  ASSIGN_OR_RETURN(const DeviceSpec device, read_device(flags));
  ASSIGN_OR_RETURN(const Range batch, read_batch(flags.batch));
  const int32_t context = flags.context > 0 ? flags.context : std::min(kDefaultContext, config.context_max);
  RETURN_IF_ERROR(check_ranges(flags, context, config, device));
  const double start = now_ms();
  const std::vector<Compiled> all = compile_all(config, device, batch, flags.threads);
  const double wall_ms = now_ms() - start;
  const bool ok = std::all_of(all.begin(), all.end(), [](const Compiled& one) { return one.verdict.ok; });
  RETURN_IF_ERROR(write_views(flags, all.front()));
  if (flags.json) {
    boost::json::object json{{"model_shape", flags.model_shape},  {"device", device.name},
                             {"workers", device.workers},         {"context", context},
                             {"verdict", ok ? "ok" : "rejected"}, {"wall_ms", wall_ms}};
    boost::json::array& programs = json["programs"].emplace_array();
    for (const Compiled& one : all) programs.push_back(json_of(one, context));
    if (flags.memory) json["memory"] = memory_json(config);
    std::cout << boost::json::serialize(json) << "\n";
    return ok;
  }
  const bool other_output = flags.list >= 0 || flags.svg == "-" || flags.dump == "-";
  if (flags.memory) print_memory_plans(config);
  if (other_output || flags.memory) return ok;
  std::printf("%s on %s, %d workers\n", flags.model_shape.c_str(), device.name.c_str(), device.workers);
  for (const Compiled& one : all) print_one(one, context, all.size() == 1);
  if (all.size() > 1) std::printf("%zu programs in %.0f ms\n", all.size(), wall_ms);
  return ok;
}

}  // namespace

void add_plan_command(Command app, int& exit_code) {
  auto flags = std::make_shared<PlanFlags>();
  const Command command = app.add_subcommand("plan", "compile, verify, dump and draw the programs of a model");
  std::string names;
  for (const std::string& name : model_shape_names()) names += name + ", ";
  command.add_option("--model-shape", flags->model_shape, names + "a config.json or a model's folder").show_default();
  command.add_option("--device", flags->device, "h200, h100, cpu or toy").show_default();
  command.add_option("--workers", flags->workers, "SMs that own slices; default: the device's").between(1, kWorkersMax);
  command.add_option("--batch", flags->batch, "rows: a number, a range as in 1-8, or all (1-8)").show_default();
  command.add_option("--context", flags->context, "positions of each row, for bytes and limits; default: 8192")
      .between(1, INT32_MAX);
  command.add_option("--threads", flags->threads, "for several batch sizes; default: the machine's")
      .between(1, kWorkersMax);
  command.add_flag("--json", flags->json, "one JSON object");
  command.add_flag("--memory", flags->memory,
                   "what a server with default flags takes of a GPU's memory, and what fits then");
  command.add_option("--list", flags->list, "print the lists of this worker").between(0, kWorkersMax - 1);
  command.add_option("--dump", flags->dump, "write all lists to this file as JSON (-: standard output)");
  command.add_option("--svg", flags->svg, "draw one layer to this file (-: standard output)");
  command.add_option("--layer", flags->layer, "of the drawing; default: the first routed one with full attention")
      .between(0, 1 << 20);
  command.callback([flags, &exit_code] {
    const Result<bool> result = run_plan(*flags);
    if (!result.ok()) std::cerr << "boreas plan: " << result.error().message << "\n";
    exit_code = !result.ok() ? 2 : *result ? 0 : 1;
  });
}

}  // namespace boreas
