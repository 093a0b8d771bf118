// See cpu_executor.h: owns weights (through the model), KV pools and the interpreter; runs a plan as blocks of rows.
#include "exec/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>

#include "base/bounds.h"
#include "exec/cpu/blocks.h"
#include "exec/cpu/interpreter.h"
#include "exec/cpu/processors.h"
#include "exec/cpu/state.h"

namespace boreas {
namespace cpu {
namespace {

constexpr TokenId kNoToken = -1;
// Far above any processor; a program's lists grow with the workers, hop buffers with the rows.
constexpr int64_t kThreadsMax = 1024, kBlockRowsMax = 4096, kSlotsMax = 65536;

Status check_options(const CpuExecutorOptions& options) {
  return check_bounds({{"threads", options.threads, 0, kThreadsMax},
                       {"workers", options.workers, 0, kThreadsMax},
                       {"sequence_slots", options.sequence_slots, 1, kSlotsMax},
                       {"block_rows", options.block_rows, 1, kBlockRowsMax},
                       {"tokens_max", options.tokens_max, 1, INT32_MAX},
                       {"context_max", options.context_max, 0, INT32_MAX},
                       {"kv_bytes", options.kv_bytes, 0, INT64_MAX},
                       {"pages_full", options.pages_full, 0, INT32_MAX},
                       {"pages_sliding", options.pages_sliding, 0, INT32_MAX}});
}

class CpuExecutor final : public Executor {
 public:
  explicit CpuExecutor(const CpuExecutorOptions& options) : options_(options) {}

  Status init(std::shared_ptr<const Model> model) {
    RETURN_IF_ERROR(check_options(options_));
    try {
      return build(std::move(model));
    } catch (const std::bad_alloc&) {
      return Error{"not enough memory for " + std::to_string(options_.block_rows) + " rows on " +
                   std::to_string(shared_.workers) + " workers"};
    } catch (const std::system_error& error) {
      return Error{"cannot start the threads of the CPU executor: " + std::string(error.what())};
    }
  }

  const ExecutorInfo& info() const override { return info_; }

  void open_sequence(int32_t slot, const SequenceSpec& spec) override {
    CHECK(slot >= 0 && slot < options_.sequence_slots);
    Sampler& sampler = shared_.samplers[static_cast<size_t>(slot)];
    CHECK(!sampler.open);
    sampler.open = true;
    sampler.params = spec.sampling;
    sampler.penalties = PenaltyState(spec.prompt, spec.output);
    feedback_[static_cast<size_t>(slot)] = spec.output.empty() ? kNoToken : spec.output.back();
  }

  void close_sequence(int32_t slot) override {
    CHECK(slot >= 0 && slot < options_.sequence_slots);
    shared_.samplers[static_cast<size_t>(slot)] = Sampler{};
  }

  Result<StepTicket> submit(const StepPlan& plan) override {
    CHECK(!pending_.has_value());
    check_plan(plan, info_, [this](int32_t row_slot) {
      const size_t slot = static_cast<size_t>(row_slot);
      return SlotState{shared_.samplers[slot].open, feedback_[slot] != kNoToken};
    });
    if (dead_) return *dead_;
    Result<StepResult> result = run(plan);
    if (!result.ok()) return dead_.emplace(result.error());  // KV and penalties are those of half a step
    pending_ = std::move(*result);
    return next_ticket_;
  }

  Result<StepResult> wait(StepTicket ticket) override {
    CHECK(ticket == next_ticket_ && pending_.has_value());
    ++next_ticket_;
    StepResult result = std::move(*pending_);
    pending_.reset();
    return result;
  }

  Status save_page(PagePoolKind pool, PageId page, std::span<std::byte> out) override {
    CHECK(static_cast<int64_t>(out.size()) == page_bytes(pool));
    std::memcpy(out.data(), page_data(pool, page), out.size());
    return Ok{};
  }
  Status restore_page(PagePoolKind pool, PageId page, std::span<const std::byte> in) override {
    CHECK(static_cast<int64_t>(in.size()) == page_bytes(pool));
    std::memcpy(page_data(pool, page), in.data(), in.size());
    return Ok{};
  }
  Status copy_page(PagePoolKind pool, PageId from, PageId to) override {
    std::memmove(page_data(pool, to), page_data(pool, from), static_cast<size_t>(page_bytes(pool)));
    return Ok{};
  }

  Shared& shared() { return shared_; }

 private:
  Status build(std::shared_ptr<const Model> model) {
    shared_.model = std::move(model);
    RETURN_IF_ERROR(choose_simd());
    const int32_t threads =
        options_.threads_exact && options_.threads > 0 ? options_.threads : cpu_threads(options_.threads);
    shared_.workers = options_.workers > 0 ? options_.workers : threads;
    shared_.rows_max = options_.block_rows;
    ASSIGN_OR_RETURN(program_, compile(shared_.config(), cpu_spec(shared_.workers), options_.block_rows));
    if (options_.mutate_program) options_.mutate_program(program_);
    shared_.program = &program_;
    RETURN_IF_ERROR(allocate_kv());
    allocate_hops(shared_);
    interpreter_ = std::make_unique<Interpreter>(shared_, InterpreterOptions{threads, options_.interleave_seed});
    for (Worker& worker : interpreter_->workers()) allocate_slots(shared_, worker);
    shared_.samplers.resize(static_cast<size_t>(options_.sequence_slots));
    feedback_.assign(static_cast<size_t>(options_.sequence_slots), kNoToken);
    fill_info();
    return Ok{};
  }

  Status choose_simd() {
    SimdLevel level = best_simd_level();
    if (options_.simd != nullptr) {
      const std::string wanted = options_.simd;
      if (wanted == "portable") level = SimdLevel::kPortable;
      else if (wanted == "avx2") level = SimdLevel::kAvx2;
      else if (wanted == "avx512") level = SimdLevel::kAvx512;
      else return Error{"unknown SIMD level \"" + wanted + "\", expected portable, avx2 or avx512"};
      if (!simd_supported(level)) return Error{"this processor does not have " + wanted};
    }
    shared_.kernels = &kernels(level);
    return Ok{};
  }

  int64_t page_bytes(PagePoolKind pool) const {
    return pool == PagePoolKind::kFull ? page_bytes_full(shared_.config()) : page_bytes_sliding(shared_.config());
  }
  std::byte* page_data(PagePoolKind pool, PageId page) {
    const bool full = pool == PagePoolKind::kFull;
    CHECK(page.value >= 0 && page.value < (full ? pages_full_ : pages_sliding_));
    bf16* base = full ? shared_.kv_full.get() : shared_.kv_sliding.get();
    return reinterpret_cast<std::byte*>(base) + page.value * page_bytes(pool);
  }

  // Sliding pages for every slot with a chunk in flight, but at most half of the memory; the full pool gets the rest,
  // at most what all slots can use.
  Status allocate_kv() {
    const ModelConfig& config = shared_.config();
    const int32_t context =
        options_.context_max > 0 ? std::min(options_.context_max, config.context_max) : config.context_max;
    const int64_t pages_context = ceil_div(context, kPagePositions);
    const int64_t bytes_full = page_bytes_full(config), bytes_sliding = page_bytes_sliding(config);
    const int64_t sliding_per_slot =
        std::min(pages_context, (int64_t{config.window} + options_.tokens_max) / kPagePositions + 2);
    int64_t sliding = bytes_sliding == 0
                          ? 0
                          : std::min(sliding_per_slot * options_.sequence_slots, options_.kv_bytes / 2 / bytes_sliding);
    int64_t full = bytes_full == 0 ? 0
                                   : std::min(pages_context * options_.sequence_slots,
                                              (options_.kv_bytes - sliding * bytes_sliding) / bytes_full);
    if (options_.pages_full > 0) {
      full = bytes_full == 0 ? 0 : options_.pages_full;
      sliding = bytes_sliding == 0 ? 0 : options_.pages_sliding;
    }
    if ((bytes_sliding > 0 && sliding < 2) || (bytes_full > 0 && full < 1))
      return Error{"KV memory of " + std::to_string(options_.kv_bytes) +
                   " bytes is too small: a full-attention page has " + std::to_string(bytes_full) +
                   " bytes, a sliding-window page " + std::to_string(bytes_sliding)};
    full = std::min<int64_t>(full, INT32_MAX);
    sliding = std::min<int64_t>(sliding, INT32_MAX);
    pages_full_ = static_cast<int32_t>(full);
    pages_sliding_ = static_cast<int32_t>(sliding);
    context_max_ = static_cast<int32_t>(bytes_full == 0 ? context : std::min<int64_t>(context, full * kPagePositions));
    return allocate_pages(shared_, full, sliding);
  }

  void fill_info() {
    const ModelConfig& config = shared_.config();
    info_.name = "cpu";
    info_.device = std::to_string(interpreter_->threads()) + " threads";
    if (const int32_t usable = usable_processors(); options_.threads > usable && !options_.threads_exact)
      info_.device += " (not " + std::to_string(options_.threads) + ": this process may use " + std::to_string(usable) +
                      (usable == 1 ? " processor)" : " processors)");
    info_.device += std::string(", ") + shared_.kernels->name;
    info_.vocab_size = config.vocab_size;
    info_.context_max = context_max_;
    info_.window = config.sliding_layers() > 0 ? config.window : 0;
    info_.sequence_slots = options_.sequence_slots;
    info_.rows_max = options_.sequence_slots;
    info_.tokens_max = options_.tokens_max;
    info_.pages_full = pages_full_;
    info_.pages_sliding = pages_sliding_;
    info_.page_bytes_full = page_bytes_full(config);
    info_.page_bytes_sliding = page_bytes_sliding(config);
    info_.steps_in_flight_max = 1;
    info_.one_arithmetic = true;
    info_.memory = {{"weights", shared_.model->weights().total_bytes()},
                    {"KV pages, full attention", pages_full_ * info_.page_bytes_full},
                    {"KV pages, sliding window", pages_sliding_ * info_.page_bytes_sliding}};
  }

  Result<StepResult> run(const StepPlan& plan) {
    const auto start = std::chrono::steady_clock::now();
    StepResult result;
    result.rows.resize(plan.rows.size());
    for (Block& block : cut_into_blocks(plan, feedback_, options_.block_rows)) {
      shared_.block = std::move(block);
      fill_rope(shared_.block, shared_.config());
      shared_.logits.resize(shared_.block.logits_rows.size() * static_cast<size_t>(info_.vocab_size));
      shared_.sampled.assign(shared_.block.samples.size(), SampledToken{});
      if (const std::optional<Fault> fault = interpreter_->run_step())
        return Error{"CPU executor: " + fault->describe(program_)};
      RETURN_IF_ERROR(collect(plan, result));
    }
    result.elapsed_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  Status collect(const StepPlan& plan, StepResult& result) {
    const Block& block = shared_.block;
    for (size_t i = 0; i < block.samples.size(); ++i) {
      const BlockSample& sample = block.samples[i];
      const SampledToken& token = shared_.sampled[i];
      result.rows[static_cast<size_t>(sample.plan_row)].sampled = token;
      if (token.id < 0 && !token.corrupted)
        return Error{"CPU executor: no worker drew the token of plan row " + std::to_string(sample.plan_row)};
      if (token.id < 0) continue;
      feedback_[static_cast<size_t>(sample.slot)] = token.id;
      shared_.samplers[static_cast<size_t>(sample.slot)].penalties.add_output(token.id);
    }
    score_prompts(plan, result);
    for (const Worker& worker : interpreter_->workers()) result.bytes_read += worker.bytes_read;
    result.distinct_experts += static_cast<int32_t>(interpreter_->workers()[0].experts_hit);
    return Ok{};
  }

  // kAll rows: the logits of token i score token i + 1 of the same range.
  void score_prompts(const StepPlan& plan, StepResult& result) {
    const Block& block = shared_.block;
    const size_t vocab = static_cast<size_t>(info_.vocab_size);
    for (size_t i = 0; i < block.logits_rows.size(); ++i) {
      const size_t row = static_cast<size_t>(block.logits_rows[i]);
      const BlockSequence& sequence = block.sequences[static_cast<size_t>(block.sequence_of[row])];
      const size_t plan_row = static_cast<size_t>(sequence.plan_row);
      const StepRow& source = plan.rows[plan_row];
      if (source.logits != LogitsWanted::kAll) continue;
      const size_t next = static_cast<size_t>(block.positions[row] - source.position) + 1;
      if (next >= source.tokens.size()) continue;
      result.rows[plan_row].prompt_logprobs.push_back(
          score_token({shared_.logits.data() + i * vocab, vocab}, source.tokens[next], source.prompt_top_logprobs));
    }
  }

  CpuExecutorOptions options_;
  Shared shared_;
  Program program_;
  std::unique_ptr<Interpreter> interpreter_;
  ExecutorInfo info_;
  int32_t pages_full_ = 0, pages_sliding_ = 0, context_max_ = 0;
  std::vector<TokenId> feedback_;  // [sequence slots]
  std::optional<StepResult> pending_;
  std::optional<Error> dead_;
  StepTicket next_ticket_ = 1;
};

}  // namespace
}  // namespace cpu

int32_t cpu_threads(int32_t wanted) {
  const int32_t usable = cpu::usable_processors();
  return wanted > 0 ? std::min(wanted, usable) : usable;
}

Result<std::unique_ptr<Executor>> make_cpu_executor(std::shared_ptr<const Model> model,
                                                    const CpuExecutorOptions& options) {
  if (model->weights().at(WeightRole::kEmbedding).empty())
    return Error{"the model has no weights on the host, which the CPU executor reads"};
  auto executor = std::make_unique<cpu::CpuExecutor>(options);
  RETURN_IF_ERROR(executor->init(std::move(model)));
  return std::unique_ptr<Executor>(std::move(executor));
}

Result<CpuTrace> trace_cpu_forward(std::shared_ptr<const Model> model, std::span<const TokenId> tokens, int32_t chunk,
                                   const CpuExecutorOptions& options,
                                   const std::vector<std::vector<float>>* forced_residual) {
  cpu::CpuExecutor executor(options);
  const ModelConfig config = model->config();
  RETURN_IF_ERROR(executor.init(std::move(model)));
  const size_t values = tokens.size() * static_cast<size_t>(config.hidden_size);
  cpu::LayerTrace trace;
  for (auto* part : {&trace.attention, &trace.mlp, &trace.residual})
    part->assign(config.layers.size(), std::vector<float>(values));
  trace.forced_residual = forced_residual;
  executor.shared().trace = &trace;
  executor.open_sequence(0, {});
  std::vector<PageId> pages;
  for (size_t page = 0; page * kPagePositions < tokens.size(); ++page) pages.emplace_back(static_cast<int32_t>(page));
  CpuTrace out;
  for (size_t first = 0; first < tokens.size(); first += static_cast<size_t>(chunk)) {
    StepRow row;
    row.position = static_cast<int32_t>(first);
    row.tokens = tokens.subspan(first, std::min(static_cast<size_t>(chunk), tokens.size() - first));
    row.full_pages = row.sliding_pages = pages;
    row.logits = LogitsWanted::kAll;
    // One block at a time, so that the logits buffer holds all of them afterwards.
    CHECK(row.tokens.size() <= static_cast<size_t>(options.block_rows));
    StepPlan plan;
    plan.rows.push_back(row);
    ASSIGN_OR_RETURN(const StepTicket ticket, executor.submit(plan));
    RETURN_IF_ERROR(executor.wait(ticket));
    out.logits.insert(out.logits.end(), executor.shared().logits.begin(), executor.shared().logits.end());
  }
  out.attention = std::move(trace.attention);
  out.mlp = std::move(trace.mlp);
  out.residual = std::move(trace.residual);
  return out;
}

}  // namespace boreas
