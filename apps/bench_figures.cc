// See bench_figures.h.
#include "bench_figures.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "exec/cpu/cpu_executor.h"
#include "exec/cuda/cuda_executor.h"
#include "model_loading.h"

namespace boreas {
namespace {

constexpr int64_t kCpuReadBytes = int64_t{1} << 30;
constexpr int64_t kGpuReadBytes = int64_t{8} << 30;

// Of one row. The longest context that was asked for leaves room for the steps themselves.
struct ContextGoal {
  double from, to, tok_s;
};
constexpr ContextGoal kOneRowGoals[] = {
    {1024, 1024, 585}, {8192, 8192, 560}, {32768, 32768, 510}, {131072, 131072, 375}, {261000, 262144, 280}};

bool on_gpu(const DecodeSetup& setup) { return setup.device != "cpu"; }

// Datasheet memory bandwidth of the chips that the published figures are for; 0: not known.
double datasheet_gb_s(const DecodeSetup& setup, const std::string& device) {
  if (!on_gpu(setup)) return 0;
  return device.find("H200") != std::string::npos ? 4800 : device.find("H100") != std::string::npos ? 3350 : 0;
}

}  // namespace

void DecodeFigures::add(const DecodeSetup& setup, const DecodeRun& run) {
  tok_s_.push_back(setup.batch * setup.steps / run.seconds);
  gb_s_.push_back(static_cast<double>(run.bytes) / run.seconds / 1e9);
  device_us_.insert(device_us_.end(), run.device_us.begin(), run.device_us.end());
  bytes_per_step_ = run.bytes / setup.steps;
  distinct_experts_ = static_cast<double>(run.distinct_experts) / setup.steps;
}

Result<ReadBandwidth> read_bandwidth(const DecodeSetup& setup, int64_t cpu_bytes) {
  if (!on_gpu(setup))
    return measure_read_bandwidth(cpu_threads(setup.threads), cpu_bytes > 0 ? cpu_bytes : kCpuReadBytes);
  ASSIGN_OR_RETURN(const int32_t index, gpu_index(setup.device));
  Result<GpuReadBandwidth> read = measure_gpu_read_bandwidth(index, kGpuReadBytes);
  for (int64_t bytes = kGpuReadBytes / 2; !read.ok() && bytes >= kGpuReadBytes / 8; bytes /= 2)
    read = measure_gpu_read_bandwidth(index, bytes);  // little is free
  if (!read.ok()) return read.error();
  return ReadBandwidth{read->gb_s, read->pattern};
}

double bandwidth_limit(const DecodeSetup& setup, const std::string& device, const ReadBandwidth& read) {
  const double datasheet = datasheet_gb_s(setup, device);
  return datasheet > 0 ? datasheet : read.gb_s;
}

boost::json::object decode_line(const DecodeSetup& setup, const DecodeFigures& figures, const std::string& device,
                                const ReadBandwidth& read) {
  const double datasheet = datasheet_gb_s(setup, device);
  const Spread speed = figures.tok_s();
  boost::json::object line = result_line("decode", on_gpu(setup) ? name_of(setup.arm).name : "interpreter", device);
  if (setup.arm != CudaArm::kMegakernel) line["cut"] = setup.cut == KernelCut::kOps ? "ops" : "levels";
  line["model_shape"] = setup.model.empty() ? setup.model_shape + " (dummy weights)" : setup.model;
  line["dtype"] = "bf16";
  line["batch"] = setup.batch;
  line["same_token"] = setup.same_token;
  line["context"] = setup.context;
  line["temperature"] = setup.temperature;
  line["top_p"] = setup.top_p;
  line["steps"] = setup.steps;
  line["tok_s"] = speed.median;
  line["tok_s_min"] = speed.min;
  line["tok_s_max"] = speed.max;
  line["runs"] = figures.runs();
  line["step_us"] = figures.step_us();
  line["bytes_per_step"] = figures.bytes_per_step();
  line["distinct_experts"] = figures.distinct_experts();
  line["read_gb_s"] = read.gb_s;
  line["read_pattern"] = read.pattern;
  if (datasheet > 0) line["datasheet_gb_s"] = datasheet;
  line["percent_of_limit"] = 100 * figures.gb_s() / bandwidth_limit(setup, device, read);
  return line;
}

Result<boost::json::object> measure_decode(const DecodeSetup& setup, int32_t runs, uint64_t first_seed,
                                           const std::string& results_dir) {
  ASSIGN_OR_RETURN(Decode decode, start_decode(setup));
  DecodeFigures figures;
  for (int32_t run = -1; run < runs; ++run) {  // run -1 warms up
    ASSIGN_OR_RETURN(const DecodeRun done, decode.rows.run(first_seed + static_cast<uint64_t>(run + 1)));
    if (run >= 0) figures.add(setup, done);
  }
  const std::string device = decode.stack.executor->info().device;
  if (!on_gpu(setup)) decode.stack.executor.reset();
  ASSIGN_OR_RETURN(const ReadBandwidth read, read_bandwidth(setup));
  boost::json::object line = decode_line(setup, figures, device, read);
  if (const std::optional<DecodeGoal> goal = decode_goal(line)) {
    line["goal"] = goal_text(*goal);
    line["missed"] = misses_goal(line);
  }
  if (!record_result(line, results_dir)) return Error{"the result was not recorded"};
  return line;
}

double number_of(const boost::json::object& line, const char* key) { return line.at(key).to_number<double>(); }

std::optional<DecodeGoal> decode_goal(const boost::json::object& line) {
  const auto is = [&line](const char* field, std::string_view text) {
    return std::string_view(line.at(field).as_string()) == text;
  };
  const bool as_asked = is("arm", "megakernel") && is("model_shape", "north (dummy weights)") &&
                        std::string_view(line.at("device").as_string()).find("H200") != std::string_view::npos &&
                        !line.at("same_token").as_bool() && number_of(line, "temperature") == 1 &&
                        number_of(line, "top_p") == 1 && number_of(line, "runs") >= 5;
  if (!as_asked) return std::nullopt;
  const double batch = number_of(line, "batch"), context = number_of(line, "context");
  if (batch >= 2 && batch <= 8 && context == 8192) return DecodeGoal{"percent_of_limit", 80};
  if (batch != 1) return std::nullopt;
  for (const ContextGoal& goal : kOneRowGoals)
    if (context >= goal.from && context <= goal.to) return DecodeGoal{"tok_s", goal.tok_s};
  return std::nullopt;
}

bool misses_goal(const boost::json::object& line) {
  const std::optional<DecodeGoal> goal = decode_goal(line);
  return goal && number_of(line, goal->field) < goal->at_least;
}

std::string goal_text(const DecodeGoal& goal) {
  const bool of_limit = std::string_view(goal.field) == "percent_of_limit";
  return "at least " + std::to_string(std::lround(goal.at_least)) + (of_limit ? " % of the limit" : " tok/s");
}

bool is_untuned(const std::string& arm, int32_t batch, double percent_of_limit) {
  const auto found =
      std::find_if(std::begin(kArms), std::end(kArms), [&](const ArmName& each) { return each.name == arm; });
  return found != std::end(kArms) && batch == 1 && percent_of_limit < found->tuned_percent;
}

std::string arm_title(const std::string& arm, const std::string& cut) {
  if (arm != "graph" && arm != "dependent") return arm;
  const std::string title = arm == "graph" ? "CUDA graph" : "dependent launch";
  return title + (cut == "ops" ? ", a kernel an op" : cut == "levels" ? ", cut where workers wait" : "");
}

}  // namespace boreas
