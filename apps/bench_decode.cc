// See bench_decode.h.
#include "bench_decode.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <iterator>

#include "base/check.h"
#include "base/prng.h"
#include "exec/cpu/cpu_executor.h"
#include "model_loading.h"

namespace boreas {
namespace {

bool is_gpu(const DecodeSetup& setup) { return setup.device != "cpu"; }

Result<std::shared_ptr<const Model>> decode_model(const DecodeSetup& setup) {
  if (!setup.model.empty()) {
    ASSIGN_OR_RETURN(const std::string directory, resolve_model_directory(setup.model));
    return load_model(directory, {setup.load_format == "dummy", {}, dummy_values_for(setup.device)});
  }
  ASSIGN_OR_RETURN(const ModelConfig config, model_shape(setup.model_shape));
  return make_dummy_model(config, {}, dummy_values_for(setup.device));
}

int32_t pages_for(int32_t positions) { return static_cast<int32_t>(ceil_div(positions, kPagePositions)); }

// First page that a query at `position` can see under the window.
int32_t first_sliding_page(int32_t position, int32_t window) {
  return window > 0 ? std::max(0, position - window + 1) / kPagePositions : 0;
}

}  // namespace

const ArmName& arm_named(const std::string& name) {
  const auto found =
      std::find_if(std::begin(kArms), std::end(kArms), [&](const ArmName& arm) { return arm.name == name; });
  CHECK(found != std::end(kArms));
  return *found;
}

const ArmName& name_of(CudaArm arm) {
  return *std::find_if(std::begin(kArms), std::end(kArms), [arm](const ArmName& each) { return each.arm == arm; });
}

void add_decode_options(Command command, DecodeSetup& setup) {
  command.add_option("--model", setup.model,
                     "checkpoint directory or hub id; without it, dummy weights of --model-shape");
  command.add_option("--model-shape", setup.model_shape, "shape for dummy weights").show_default();
  command
      .add_option("--load-format", setup.load_format,
                  "auto, or dummy for made-up weights of --model's shape; without --model they are made up in any case")
      .one_of({"auto", "dummy"});
  command.add_option("--temperature", setup.temperature, "of the rows' sampling; 0: greedy")
      .between(0.0, 2.0)
      .show_default();
  command.add_option("--top-p", setup.top_p, "of the rows' sampling").between(0.001, 1.0).show_default();
  command.add_option("--device", setup.device, "cpu, cuda or cuda:INDEX").show_default();
}

Status check_has_gpu(const DecodeSetup& setup, const std::string& what) {
  if (!is_gpu(setup)) return Error{what + " need a GPU: give --device cuda", "device"};
  if (!cuda_built())
    return Error{what + " need a GPU, and this build does not support any (it wants nvcc 13: cmake --preset cuda)",
                 "device"};
  return Ok{};
}

Result<DecodeStack> make_decode_stack(const DecodeSetup& setup, int32_t positions) {
  DecodeStack stack;
  ASSIGN_OR_RETURN(stack.model, decode_model(setup));
  const ModelConfig& config = stack.model->config();
  if (positions > config.context_max)
    return Error{std::to_string(positions) + " positions exceed the model's " + std::to_string(config.context_max)};
  const int32_t pages = pages_for(positions);
  const int32_t window = config.sliding_layers() > 0 ? config.window : 0;
  const int32_t sliding = pages - first_sliding_page(setup.context - 1, window);
  if (!is_gpu(setup)) {
    CpuExecutorOptions options;
    options.threads = setup.threads;
    options.sequence_slots = setup.batch;
    options.pages_full = pages * setup.batch;
    options.pages_sliding = sliding * setup.batch;
    options.tokens_max = std::max({positions, setup.batch, setup.tokens_max});
    ASSIGN_OR_RETURN(stack.executor, make_cpu_executor(stack.model, options));
    return stack;
  }
  CudaExecutorOptions options;
  ASSIGN_OR_RETURN(options.device_index, gpu_index(setup.device));
  options.sequence_slots = setup.batch;
  options.pages_full = pages * setup.batch;
  options.pages_sliding = sliding * setup.batch;
  options.tokens_max = std::max({positions, setup.batch, setup.tokens_max});
  options.arm = setup.arm;
  options.cut = setup.cut;
  options.tuning = cuda::tuning_of(setup.arm);
  options.trace = setup.trace;
  options.live_tuning = setup.tuning;
  ASSIGN_OR_RETURN(stack.executor, make_cuda_executor(stack.model, options));
  return stack;
}

DecodeRows::DecodeRows(Executor& executor, const DecodeSetup& setup, int32_t positions)
    : executor_(executor), setup_(setup) {
  const int32_t pages = pages_for(positions);
  sliding_first_ = first_sliding_page(setup.context - 1, executor.info().window);
  for (int32_t row = 0; row < setup.batch; ++row) {
    std::vector<PageId>&full = full_.emplace_back(), &sliding = sliding_.emplace_back();
    for (int32_t page = 0; page < pages; ++page) full.emplace_back(row * pages + page);
    const int32_t seen = pages - sliding_first_;
    for (int32_t page = 0; page < seen; ++page) sliding.emplace_back(row * seen + page);
  }
}

Status DecodeRows::fill() {
  for (PagePoolKind pool : {PagePoolKind::kFull, PagePoolKind::kSliding}) {
    const bool full = pool == PagePoolKind::kFull;
    const int64_t bytes = full ? executor_.info().page_bytes_full : executor_.info().page_bytes_sliding;
    if (bytes == 0) continue;
    std::vector<std::byte> content(static_cast<size_t>(bytes));
    Prng prng(7);
    for (size_t i = 0; i + 1 < content.size(); i += 2) {
      // A uniform of width w has deviation w / sqrt(12).
      const bf16 value = float_to_bf16((prng.uniform() - 0.5f) * 0.0346f);
      std::memcpy(content.data() + i, &value, sizeof value);
    }
    for (const auto& table : full ? full_ : sliding_)
      for (PageId page : table) RETURN_IF_ERROR(executor_.restore_page(pool, page, content));
  }
  return Ok{};
}

void DecodeRows::open(uint64_t seed, DecodeMix mix) {
  tokens_.clear();
  const uint32_t vocab = static_cast<uint32_t>(executor_.info().vocab_size);
  for (int32_t row = 0; row < mix.rows; ++row) {
    const uint64_t own = setup_.same_token ? seed : seed * 31 + static_cast<uint64_t>(row % mix.kinds);
    SequenceSpec spec;
    spec.sampling.seed = own;
    spec.sampling.temperature = setup_.temperature;
    spec.sampling.top_p = setup_.top_p;
    executor_.open_sequence(row, spec);
    tokens_.push_back(static_cast<TokenId>(Prng(own).below(vocab)));
  }
}

Result<StepTicket> DecodeRows::submit(int32_t step, int32_t rows) {
  StepPlan plan;
  for (int32_t row = 0; row < rows; ++row) {
    const size_t r = static_cast<size_t>(row);
    StepRow step_row;
    step_row.slot = row;
    step_row.position = setup_.context - 1 + step;
    if (step == 0) step_row.tokens = std::span(tokens_).subspan(r, 1);
    step_row.full_pages = full_[r];
    step_row.sliding_pages = sliding_[r];
    step_row.sliding_first = sliding_first_;
    step_row.logits = LogitsWanted::kLast;
    plan.rows.push_back(step_row);
  }
  return executor_.submit(plan);
}

Result<DecodeRun> DecodeRows::run(uint64_t seed) { return run(seed, {setup_.batch, setup_.batch}); }

Result<DecodeRun> DecodeRows::run(uint64_t seed, DecodeMix mix) {
  CHECK(mix.rows >= 1 && mix.rows <= setup_.batch && mix.kinds >= 1);
  open(seed, mix);
  DecodeRun run;
  std::deque<StepTicket> tickets;
  const auto finish_one = [&]() -> Status {
    ASSIGN_OR_RETURN(const StepResult result, executor_.wait(tickets.front()));
    tickets.pop_front();
    run.bytes += result.bytes_read;
    run.distinct_experts += result.distinct_experts;
    run.device_us.push_back(static_cast<double>(result.elapsed_ns) / 1e3);
    return Ok{};
  };
  const size_t in_flight = static_cast<size_t>(executor_.info().steps_in_flight_max);
  const auto start = std::chrono::steady_clock::now();
  for (int32_t step = 0; step < setup_.steps; ++step) {
    if (tickets.size() == in_flight) RETURN_IF_ERROR(finish_one());
    ASSIGN_OR_RETURN(const StepTicket ticket, submit(step, mix.rows));
    tickets.push_back(ticket);
  }
  while (!tickets.empty()) RETURN_IF_ERROR(finish_one());
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (int32_t row = 0; row < mix.rows; ++row) executor_.close_sequence(row);
  return run;
}

Result<Decode> start_decode(const DecodeSetup& setup) {
  const int32_t positions = setup.context + setup.steps + 1;
  ASSIGN_OR_RETURN(DecodeStack stack, make_decode_stack(setup, positions));
  DecodeRows rows(*stack.executor, setup, positions);
  RETURN_IF_ERROR(rows.fill());
  return Decode{std::move(stack), std::move(rows)};
}

}  // namespace boreas
