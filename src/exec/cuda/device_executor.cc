#include "exec/cuda/device_executor.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "exec/cuda/deadlines.h"
#include "exec/cuda/executor_memory.h"
#include "exec/cuda/fault.h"
#include "exec/cuda/memory_plan.h"
#include "exec/cuda/page_tables.h"
#include "exec/cuda/prefill/runner.h"
#include "exec/cuda/program_set.h"
#include "exec/cuda/sequence.h"
#include "exec/cuda/step_builder.h"
#include "exec/cuda/step_bytes.h"
#include "exec/cuda/weight_upload.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kStartEvents = kLaunchesMax;  // first of one event a plan in flight, after one a launch
static_assert(kStartEvents + kStepsInFlightMax <= kEventsMax);
static_assert(kLayoutPagePositions == kPagePositions);
// Epochs are compared as 32-bit numbers; they start over before they could pass half of that.
constexpr uint64_t kEpochMax = uint64_t{1} << 31;
struct PendingPlan {
  StepTicket ticket = 0;
  StepPlan plan;
  std::vector<std::shared_ptr<Sequence>> sequences;  // of the rows
  StepResult result;
  size_t launches_left = 0;
  bool prefills = false;  // then its bytes and experts are not counted
  Deadlines::Time prefill_limit{};
};

struct Launch {
  PendingPlan* of = nullptr;
  LaunchPlan plan;
  uint32_t step = 0;
  int32_t place = 0;          // of its outcomes; also its event
  int32_t logits_place = -1;  // of its logits on the host; -1: none wanted
  Deadlines::Time limit{};    // from the launch before to its event
};

class DeviceExecutor final : public Executor {
 public:
  DeviceExecutor(std::unique_ptr<Device> device, const CudaExecutorOptions& options)
      : device_(std::move(device)), options_(options) {}

  Status init(const DeviceSpec& spec, std::span<const CompiledShape> shapes, const Model& model) {
    if (options_.trace && options_.arm != CudaArm::kMegakernel)
      return Error{"only the megakernel writes down when its tasks ran; trace it without another arm", "arm"};
    config_ = model.config();
    ASSIGN_OR_RETURN(shape_, find_shape(config_, spec.workers, shapes));
    if (options_.arm != CudaArm::kMegakernel && !device_->runs_segments(shape_.name, shape_.workers))
      return Error{"this build has no kernels of the comparison arms for shape " + std::string(shape_.name) +
                       "; only the megakernel runs it",
                   "arm"};
    if (spec.workers > device_->processors())
      return Error{device_->name() + " has " + std::to_string(device_->processors()) +
                   " processors, the kernel needs " + std::to_string(spec.workers)};
    std::unique_ptr<prefill::PrefillKernels> kernels;
    if (!options_.decode_only) {
      ASSIGN_OR_RETURN(kernels, device_->make_prefill_kernels(config_, shape_.workers));
    }
    ASSIGN_OR_RETURN(ExecutorPlan plan, plan_executor(config_, spec, shape_, options_, kernels != nullptr,
                                                      device_->name(), device_->memory_free()));
    RETURN_IF_ERROR(allocate(plan, std::move(kernels)));
    if (options_.planned) options_.planned(info_);
    RETURN_IF_ERROR(upload_weights(*device_, model, shape_.workers, plan.layout, memory_.weights.device,
                                   memory_.norms.device, options_.progress));
    RETURN_IF_ERROR(device_->keep_cached(memory_.hops));
    RETURN_IF_ERROR(device_->wash_cache());
    sequences_.resize(static_cast<size_t>(options_.sequence_slots));
    rope_ = RopeTable(config_);
    bytes_ = StepBytes(config_);
    deadlines_ = Deadlines(config_, spec.read_bytes_per_s, std::min(options_.tokens_max, PrefillRunner::kTokensMax),
                           options_.deadline_scale * (options_.delay_seed != 0 ? kPausedScale : 1));
    step_ = options_.first_step;
    fill_params(plan.layout);
    return device_->synchronize();
  }

  const ExecutorInfo& info() const override { return info_; }

  void open_sequence(int32_t slot, const SequenceSpec& spec) override {
    std::shared_ptr<Sequence>& sequence = sequence_at(slot);
    CHECK(sequence == nullptr);
    sequence = std::make_shared<Sequence>(spec);
  }
  void close_sequence(int32_t slot) override { sequence_at(slot).reset(); }

  Result<StepTicket> submit(const StepPlan& plan) override {
    CHECK(plans_.size() < kStepsInFlightMax);
    check_plan(plan, info_, [this](int32_t slot) {
      const Sequence* sequence = sequences_[static_cast<size_t>(slot)].get();
      return SlotState{sequence != nullptr, sequence != nullptr && sequence->has_token()};
    });
    if (dead_) return *dead_;
    const Status status = enqueue(plan);
    if (!status.ok()) return fail(status.error());
    return plans_.back().ticket;
  }

  Result<StepResult> wait(StepTicket ticket) override {
    CHECK(!plans_.empty() && plans_.front().ticket == ticket);
    while (!dead_ && plans_.front().launches_left > 0) {
      const Status status = complete_oldest();
      if (!status.ok()) fail(status.error());
    }
    PendingPlan done = std::move(plans_.front());
    plans_.pop_front();
    if (done.launches_left > 0) return *dead_;
    return std::move(done.result);
  }

  Status save_page(PagePoolKind pool, PageId page, std::span<std::byte> out) override {
    CHECK(static_cast<int64_t>(out.size()) == page_bytes(pool));
    return guarded([&]() -> Status {
      RETURN_IF_ERROR(finish_launches());
      return device_->copy_out(out, page_data(pool, page));
    });
  }
  Status restore_page(PagePoolKind pool, PageId page, std::span<const std::byte> in) override {
    CHECK(static_cast<int64_t>(in.size()) == page_bytes(pool));
    return guarded([&] { return device_->copy_in(page_data(pool, page), in); });
  }
  Status copy_page(PagePoolKind pool, PageId from, PageId to) override {
    if (from == to) return Ok{};
    return guarded([&] {
      return device_->copy_within(page_data(pool, to), page_data(pool, from), static_cast<size_t>(page_bytes(pool)));
    });
  }

 private:
  // ---- start
  Status allocate(ExecutorPlan& plan, std::unique_ptr<prefill::PrefillKernels> kernels) {
    options_ = plan.options;
    info_ = plan.info;
    programs_ = std::move(plan.programs);
    RETURN_IF_ERROR(programs_.upload(*device_));
    ASSIGN_OR_RETURN(memory_, allocate_memory(*device_, config_, shape_, plan.fixed, plan.pools));
    programs_.set_kept(memory_.kept.device);
    page_tables_ = std::move(plan.page_tables);
    page_tables_.set_memory(memory_.page_tables.device);
    params_.worker_times = reinterpret_cast<WorkerTimes*>(memory_.worker_times.device);
    if (kernels == nullptr) return Ok{};
    ASSIGN_OR_RETURN(prefill_, PrefillRunner::make(*device_, config_, shape_, options_.tokens_max,
                                                   positions_wanted(config_, options_), std::move(kernels)));
    return Ok{};
  }

  void fill_params(const WeightLayout& layout) {
    params_.weights = reinterpret_cast<const uint8_t*>(memory_.weights.device);
    params_.norms = reinterpret_cast<const uint16_t*>(memory_.norms.device);
    params_.lm_head = layout.lm_head;
    std::copy(layout.layers.begin(), layout.layers.end(), params_.layers);
    params_.pages_full = reinterpret_cast<uint8_t*>(memory_.pages_full.device);
    params_.pages_sliding = reinterpret_cast<uint8_t*>(memory_.pages_sliding.device);
    params_.page_bytes_full = static_cast<uint64_t>(page_bytes_full(config_));
    params_.page_bytes_sliding = static_cast<uint64_t>(page_bytes_sliding(config_));
    params_.page_tables = reinterpret_cast<const int32_t*>(memory_.page_tables.device);
    for (size_t i = 0; i < kHops; ++i) {
      params_.hops[i] = reinterpret_cast<Word*>(memory_.hops.device) + memory_.hop_first[i];
      params_.hop_half_words[i] = shape_.hop_half_words[i];
    }
    params_.logits = reinterpret_cast<float*>(memory_.logits.device);
    params_.slot_tokens = reinterpret_cast<int32_t*>(memory_.slot_tokens.device);
    params_.fault = reinterpret_cast<FaultRecord*>(memory_.fault.device);
    params_.layer_count = config_.layer_count();
    params_.window = config_.window;
    params_.rms_norm_eps = config_.rms_norm_eps;
    params_.logit_scale = config_.logit_scale;
    params_.delay_seed = options_.delay_seed;
    params_.silent_task = options_.silent_task;
  }

  // ---- a plan
  std::shared_ptr<Sequence>& sequence_at(int32_t slot) {
    CHECK(slot >= 0 && slot < options_.sequence_slots);
    return sequences_[static_cast<size_t>(slot)];
  }

  Status enqueue(const StepPlan& plan) {
    std::vector<RowChoice> choices(plan.rows.size());
    for (size_t i = 0; i < choices.size(); ++i) {
      const StepRow& row = plan.rows[i];
      Sequence& sequence = *sequence_at(row.slot);
      if (row.tokens.empty()) {
        while (sequence.waits_for_host()) RETURN_IF_ERROR(complete_oldest());
        choices[i].token = sequence.token_to_plan();
      }
      choices[i].sample = sequence.sample_mode(row);
      if (choices[i].sample == kSampleDraw) choices[i].draw = sequence.draw_plan();
      if (prefill_ != nullptr) choices[i].prefilled = prefill_tokens_of(row);
      ASSIGN_OR_RETURN(choices[i].pages, page_tables_.update(*device_, row));
    }
    std::vector<LaunchPlan> launches = cut_into_launches(plan, choices);
    PendingPlan& pending = plans_.emplace_back();
    pending.ticket = ++ticket_;
    pending.plan = plan;
    pending.result.rows.resize(plan.rows.size());
    pending.launches_left = launches.size();
    for (size_t i = 0; i < choices.size(); ++i) {
      pending.sequences.push_back(sequence_at(plan.rows[i].slot));
      if (choices[i].sample != kSampleNone) pending.sequences.back()->submitted(choices[i].sample);
    }
    RETURN_IF_ERROR(device_->record(start_event(pending)));
    RETURN_IF_ERROR(prefill(pending, choices));
    for (const LaunchPlan& launch : launches) RETURN_IF_ERROR(enqueue(pending, launch));
    return Ok{};
  }

  // Before the launches of the plan: the last tokens of its prompts look at what this leaves in the pages.
  Status prefill(PendingPlan& plan, std::span<const RowChoice> choices) {
    std::vector<PrefillRange> ranges;
    bool ends_prompt = false;
    for (size_t i = 0; i < choices.size(); ++i) {
      const StepRow& row = plan.plan.rows[i];
      if (choices[i].prefilled == 0) continue;
      ranges.push_back({row.tokens.first(static_cast<size_t>(choices[i].prefilled)), row.position, choices[i].pages});
      ends_prompt |= row.logits != LogitsWanted::kNone;
    }
    if (ranges.empty()) return Ok{};
    plan.prefills = true;
    plan.prefill_limit = deadlines_.of_prefill(ranges);
    RETURN_IF_ERROR(prefill_->run(ranges, params_));
    return ends_prompt ? prefill_->wash_cache() : Ok{};
  }

  // ---- a launch
  static int32_t start_event(const PendingPlan& plan) {
    return kStartEvents + static_cast<int32_t>(plan.ticket % kStepsInFlightMax);
  }

  Status enqueue(PendingPlan& plan, const LaunchPlan& launch_plan) {
    while (launches_.size() == kLaunchesMax) RETURN_IF_ERROR(complete_oldest());
    while (launch_plan.wants_logits && logits_in_flight_ == kHostLogitsMax) RETURN_IF_ERROR(complete_oldest());
    RETURN_IF_ERROR(restart_epochs_if_due());
    Launch launch;
    launch.of = &plan;
    launch.plan = launch_plan;
    launch.limit = deadlines_.of_launch(launch_plan) + std::exchange(plan.prefill_limit, {});
    launch.step = static_cast<uint32_t>(step_++);
    launch.place = static_cast<int32_t>(launch_count_++ % kLaunchesMax);
    if (launch.plan.rows > 0) {
      const size_t shared_bytes = fill_step(launch);
      RETURN_IF_ERROR(launch_step(launch.plan.rows, shared_bytes));
    }
    if (launch.plan.wants_logits) {
      launch.logits_place = static_cast<int32_t>(logits_count_++ % kHostLogitsMax);
      ++logits_in_flight_;
      RETURN_IF_ERROR(copy_logits(launch));
    }
    RETURN_IF_ERROR(device_->record(launch.place));
    if (params_.task_times != nullptr && launch.plan.rows > 0) RETURN_IF_ERROR(trace_launch(launch));
    launches_.push_back(launch);
    return Ok{};
  }

  Status launch_step(int32_t rows, size_t shared_bytes) {
    if (options_.arm == CudaArm::kMegakernel)
      return device_->launch_step(shape_.name, shape_.workers, shared_bytes, params_);
    return device_->launch_segments(shape_.name, shape_.workers, shared_bytes, params_, programs_.segments_of(rows),
                                    options_.arm == CudaArm::kDependentLaunch);
  }

  // ---- traces
  Status trace_launch(const Launch& launch) {
    RETURN_IF_ERROR(device_->wait(launch.place, launch.limit));
    std::vector<TaskTimes> tasks(programs_.tasks_of(launch.plan.rows));
    std::vector<WorkerTimes> workers(static_cast<size_t>(shape_.workers));
    RETURN_IF_ERROR(device_->copy_out(std::as_writable_bytes(std::span(tasks)), memory_.task_times.device));
    RETURN_IF_ERROR(device_->copy_out(std::as_writable_bytes(std::span(workers)), memory_.worker_times.device));
    RETURN_IF_ERROR(device_->fill_zero(memory_.task_times.device, memory_.task_times.bytes));
    options_.trace({launch.plan.rows, programs_.rows_max_of(launch.plan.rows), tasks, workers});
    return Ok{};
  }

  // Words that carry an epoch beyond the counter's new start would look like answers: all hops are cleared.
  Status restart_epochs_if_due() {
    const std::span<const uint32_t, kHops> hop_uses = programs_.hop_uses();
    const uint64_t uses = *std::max_element(hop_uses.begin(), hop_uses.end());
    if ((step_ + 1) * uses < kEpochMax) return Ok{};
    step_ = 0;
    return device_->fill_zero(memory_.hops.device, memory_.hops.bytes);
  }

  size_t fill_step(const Launch& launch) {
    const CudaTuning& tuning = options_.live_tuning ? *options_.live_tuning : options_.tuning;
    const size_t shared_bytes = programs_.select(launch.plan.rows, tuning, params_);
    const CudaTuning::Delays& delays = tuning.poll_delay;
    if (options_.arm == CudaArm::kMegakernel)  // nobody waits for words of a kernel that is done
      std::copy(delays.begin(), delays.end(), params_.poll_delay);
    params_.poll_pause = tuning.poll_pause;
    params_.whole_inner = tuning.early_inner ? 0 : 1;
    params_.any_rows_kernel = tuning.one_row_kernel ? 0 : 1;
    params_.task_times =
        options_.trace && tuning.traced ? reinterpret_cast<TaskTimes*>(memory_.task_times.device) : nullptr;
    params_.deadline = coarse_clocks_of(deadlines_.of_hop_wait(launch.plan));
    params_.step = launch.step;
    params_.rows = launch.plan.rows;
    params_.row_reciprocal = reciprocal_of(launch.plan.rows);
    std::copy(launch.plan.row.begin(), launch.plan.row.end(), params_.row);
    for (int32_t row = 0; row < launch.plan.rows; ++row) rope_.fill(params_.row[row].position, params_.rope[row]);
    const size_t first = static_cast<size_t>(launch.place) * kRowsMax * sizeof(RowOutcome);
    params_.outcomes = reinterpret_cast<RowOutcome*>(memory_.outcomes.device + first);
    for (int32_t row = 0; row < kRowsMax; ++row) {
      RowOutcome nothing{};
      nothing.token = -1;
      nothing.step = ~launch.step;
      outcomes(launch)[row] = nothing;
    }
    return shared_bytes;
  }

  // Right behind the launch, so the next one may overwrite them.
  Status copy_logits(const Launch& launch) {
    const size_t row_bytes = static_cast<size_t>(info_.vocab_size) * sizeof(float);
    for (int32_t row = 0; row < launch.plan.rows; ++row) {
      if (launch.plan.row[static_cast<size_t>(row)].sample != kSampleHost) continue;
      const size_t from = static_cast<size_t>(row) * row_bytes;
      const size_t to = static_cast<size_t>(launch.logits_place * kRowsMax + row) * row_bytes;
      RETURN_IF_ERROR(device_->copy_within(memory_.host_logits.device + to, memory_.logits.device + from, row_bytes));
    }
    return Ok{};
  }

  RowOutcome* outcomes(const Launch& launch) const {
    return reinterpret_cast<RowOutcome*>(memory_.outcomes.host) + launch.place * kRowsMax;
  }
  std::span<const float> logits_of(const Launch& launch, int32_t row) const {
    const size_t vocab = static_cast<size_t>(info_.vocab_size);
    const size_t first = static_cast<size_t>(launch.logits_place * kRowsMax + row) * vocab;
    return {reinterpret_cast<const float*>(memory_.host_logits.host) + first, vocab};
  }

  Status complete_oldest() {
    CHECK(!launches_.empty());
    const Launch launch = launches_.front();
    launches_.pop_front();
    RETURN_IF_ERROR(device_->wait(launch.place, launch.limit));
    if (fault_record().claimed != 0) return Error{"the step was given up"};
    for (int32_t row = 0; row < launch.plan.rows; ++row) RETURN_IF_ERROR(collect(launch, row));
    if (launch.logits_place >= 0) --logits_in_flight_;
    StepResult& result = launch.of->result;
    if (!launch.of->prefills) {
      const RowOutcome& first = outcomes(launch)[0];
      const int32_t experts = first.step == launch.step ? first.distinct_experts : 0;
      result.distinct_experts += experts;
      result.bytes_read += bytes_.of(launch.plan, experts);
    }
    if (--launch.of->launches_left > 0) return Ok{};
    ASSIGN_OR_RETURN(result.elapsed_ns, device_->elapsed_ns(start_event(*launch.of), launch.place));
    return Ok{};
  }

  Status collect(const Launch& launch, int32_t row) {
    const LaunchRow& use = launch.plan.use[static_cast<size_t>(row)];
    const SampleMode mode = static_cast<SampleMode>(launch.plan.row[static_cast<size_t>(row)].sample);
    const size_t plan_row = static_cast<size_t>(use.plan_row);
    const StepRow& source = launch.of->plan.rows[plan_row];
    RowResult& result = launch.of->result.rows[plan_row];
    if (use.scores) {
      const TokenId next = source.tokens[static_cast<size_t>(use.token_index) + 1];
      result.prompt_logprobs.push_back(score_token(logits_of(launch, row), next, source.prompt_top_logprobs));
    }
    if (!use.samples) return Ok{};
    Sequence& sequence = *launch.of->sequences[plan_row];
    if (mode == kSampleHost) {
      const int64_t position = int64_t{source.position} + use.token_index + 1;
      result.sampled = sequence.draw(logits_of(launch, row), source.forced_token, source.mask.get(), position);
    } else {
      const RowOutcome& outcome = outcomes(launch)[row];
      if (outcome.step != launch.step || outcome.token < -1 || outcome.token >= info_.vocab_size)
        return Error{"step " + std::to_string(launch.step) + " ended without a token for row " + std::to_string(row) +
                     " (token " + std::to_string(outcome.token) + " of step " + std::to_string(outcome.step) + ")"};
      result.sampled.id = outcome.token;
      result.sampled.corrupted = outcome.token < 0;
    }
    sequence.sampled(result.sampled);
    return Ok{};
  }

  // ---- pages, faults
  // Before whatever waits for the device without a limit.
  Status finish_launches() {
    Deadlines::Time limit = Device::kSynchronizeMax;
    if (!launches_.empty()) limit = {};
    for (const Launch& launch : launches_) limit += launch.limit;
    return device_->synchronize(limit);
  }
  int64_t page_bytes(PagePoolKind pool) const {
    return pool == PagePoolKind::kFull ? info_.page_bytes_full : info_.page_bytes_sliding;
  }
  std::byte* page_data(PagePoolKind pool, PageId page) const {
    const bool full = pool == PagePoolKind::kFull;
    CHECK(page.value >= 0 && page.value < (full ? info_.pages_full : info_.pages_sliding));
    return (full ? memory_.pages_full : memory_.pages_sliding).device + page.value * page_bytes(pool);
  }

  const FaultRecord& fault_record() const { return *reinterpret_cast<const FaultRecord*>(memory_.fault.host); }
  // The first error stays: whatever comes after it is its consequence.
  Error fail(const Error& error) {
    if (dead_) return *dead_;
    std::string message = "CUDA executor: ";
    if (fault_record().claimed != 0) message += describe(fault_record()) + "; ";
    return dead_.emplace(Error{message + error.message});
  }
  template <class Call>
  Status guarded(const Call& call) {
    if (dead_) return *dead_;
    const Status status = call();
    return status.ok() ? status : Status(fail(status.error()));
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<PrefillRunner> prefill_;  // null: the device cannot
  CudaExecutorOptions options_;
  ModelConfig config_;
  CompiledShape shape_;
  ProgramSet programs_;
  PageTables page_tables_;
  ExecutorMemory memory_;
  RopeTable rope_;
  StepBytes bytes_;
  Deadlines deadlines_;
  ExecutorInfo info_;
  StepParams params_{};
  uint64_t step_ = 0;  // of the next launch
  uint64_t launch_count_ = 0, logits_count_ = 0;
  int32_t logits_in_flight_ = 0;
  std::vector<std::shared_ptr<Sequence>> sequences_;  // [sequence slots], null: closed
  std::deque<PendingPlan> plans_;
  std::deque<Launch> launches_;  // in flight, oldest first
  StepTicket ticket_ = 0;
  std::optional<Error> dead_;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_device_executor(std::unique_ptr<Device> device, const DeviceSpec& spec,
                                                       std::span<const CompiledShape> shapes,
                                                       const std::shared_ptr<const Model>& model,
                                                       const CudaExecutorOptions& options) {
  auto executor = std::make_unique<DeviceExecutor>(std::move(device), options);
  RETURN_IF_ERROR(executor->init(spec, shapes, *model));
  return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace boreas::cuda
