#include "exec/cuda/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "exec/cuda/prefill/runner.h"
#include "exec/cuda/trace.h"

namespace boreas::cuda {
namespace {

// Page ids are 16 bits in the kernel's lists.
constexpr int64_t kPagesMax = 65536;
constexpr int64_t kSlotsMax = 65536;

Status check_options(const CudaExecutorOptions& options) {
  return check_bounds({{"sequence_slots", options.sequence_slots, 1, kSlotsMax},
                       {"rows_max", options.rows_max, 1, kSlotsMax},
                       {"tokens_max", options.tokens_max, options.rows_max, INT32_MAX},
                       {"context_max", options.context_max, 0, INT32_MAX},
                       {"kv_bytes", options.kv_bytes, 0, INT64_MAX},
                       {"reserve_bytes", options.reserve_bytes, 0, INT64_MAX},
                       {"pages_full", options.pages_full, 0, UINT16_MAX},
                       {"pages_sliding", options.pages_sliding, 0, UINT16_MAX}});
}

constexpr const char* kPrefillUse = "prefill workspace";

std::string gigabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

std::string list_of(const std::vector<MemoryUse>& uses, const CudaExecutorOptions& options) {
  std::string list;
  for (const MemoryUse& use : uses) list += use.what + " " + gigabytes(use.bytes) + ", ";
  return list + "a reserve of " + gigabytes(options.reserve_bytes);
}

// context_asked: 0: the context is as short as can be already.
Error does_not_fit(const std::vector<MemoryUse>& uses, const CudaExecutorOptions& options, const ModelConfig& config,
                   int32_t context_asked, const std::string& device, int64_t memory_free, int64_t pages_min) {
  int64_t needed = options.reserve_bytes + pages_min, prefill = 0;
  for (const MemoryUse& use : uses) {
    needed += use.bytes;
    if (use.what == kPrefillUse) prefill = use.bytes;
  }
  const int64_t missing = needed - memory_free;
  std::string message = "the model does not fit: " + device + " has " + gigabytes(memory_free) + " free, " +
                        gigabytes(needed) + " are needed (" + list_of(uses, options) + ", the fewest KV pages " +
                        gigabytes(pages_min) + "), " + gigabytes(missing) + " are missing";
  if (missing < prefill) {
    message +=
        "; the prefill workspace is smaller with --max-num-batched-tokens below " + std::to_string(options.tokens_max);
    if (context_asked > 0) message += " or --max-model-len below " + std::to_string(positions_wanted(config, options));
  } else {
    message += "; no flag saves so much: it takes a GPU with more free memory";
  }
  return Error{message, "memory"};
}

}  // namespace

int32_t context_wanted(const ModelConfig& config, const CudaExecutorOptions& options) {
  return options.context_max > 0 ? std::min(options.context_max, config.context_max) : config.context_max;
}

int32_t positions_wanted(const ModelConfig& config, const CudaExecutorOptions& options) {
  const int64_t context = context_wanted(config, options), pages = options.pages_full;
  const bool exact = pages > 0 && config.full_layers() > 0;
  return static_cast<int32_t>(exact ? std::min(context, pages * kPagePositions) : context);
}

int32_t sliding_pages_per_slot(const ModelConfig& config, const CudaExecutorOptions& options) {
  if (config.sliding_layers() == 0) return 0;
  const int64_t context = ceil_div(context_wanted(config, options), kPagePositions);
  return static_cast<int32_t>(std::min(context, (int64_t{config.window} + options.tokens_max) / kPagePositions + 2));
}

Result<PagePools> split_pages(const ModelConfig& config, const CudaExecutorOptions& options, int64_t kv_bytes,
                              int32_t context_asked) {
  const int64_t bytes_full = page_bytes_full(config), bytes_sliding = page_bytes_sliding(config);
  const int64_t slots = options.sequence_slots;
  const int64_t context = context_wanted(config, options);
  int64_t sliding = 0, full = 0;
  if (options.pages_full > 0) {
    full = bytes_full > 0 ? options.pages_full : 0;
    sliding = bytes_sliding > 0 ? options.pages_sliding : 0;
  } else {
    if (bytes_sliding > 0) {
      const int64_t pages = ceil_div(context, kPagePositions);
      const int64_t window = std::min(pages, config.window / kPagePositions + int64_t{2});
      const int64_t wanted = std::min(window * slots + ceil_div(options.tokens_max, kPagePositions), pages * slots);
      sliding = std::min({wanted, kv_bytes / 2 / bytes_sliding, kPagesMax});
    }
    if (bytes_full > 0)
      full = std::min(
          {ceil_div(context, kPagePositions) * slots, (kv_bytes - sliding * bytes_sliding) / bytes_full, kPagesMax});
  }
  if ((bytes_sliding > 0 && sliding < 2) || (bytes_full > 0 && full < 1)) {
    return Error{"KV memory of " + std::to_string(std::max<int64_t>(kv_bytes, 0)) +
                 " bytes is too small: a full-attention page has " + std::to_string(bytes_full) +
                 " bytes, a sliding-window page " + std::to_string(bytes_sliding)};
  }
  // A context that was asked for is a promise; without that flag it is what fits.
  if (bytes_full > 0 && options.pages_full == 0 && full * kPagePositions < context_asked)
    return Error{"a context of " + std::to_string(context) + " tokens does not fit: the full-attention pages that " +
                     gigabytes(kv_bytes) + " of KV memory have room for hold " + std::to_string(full * kPagePositions) +
                     " tokens, " + gigabytes((ceil_div(context, kPagePositions) - full) * bytes_full) +
                     " are missing; give --max-model-len " + std::to_string(full * kPagePositions) + " or less",
                 "context_max"};
  PagePools pools;
  pools.full = static_cast<int32_t>(full);
  pools.sliding = static_cast<int32_t>(sliding);
  pools.context_max = static_cast<int32_t>(bytes_full == 0 ? context : std::min(context, full * kPagePositions));
  return pools;
}

namespace {

FixedBytes fixed_bytes(const ModelConfig& config, const CompiledShape& shape, const WeightLayout& layout,
                       const ProgramSet& programs, const CudaExecutorOptions& options, size_t page_table_bytes) {
  FixedBytes bytes;
  bytes.weights = static_cast<int64_t>(layout.bytes);
  bytes.norms = int64_t{2} * (config.layer_count() + 1) * config.hidden_size;
  bytes.hops = int64_t{place_hops(shape).back()} * int64_t{sizeof(Word)};
  bytes.logits = int64_t{kRowsMax} * config.vocab_size * int64_t{sizeof(float)};
  bytes.slot_tokens = options.sequence_slots * int64_t{sizeof(int32_t)};
  bytes.page_tables = static_cast<int64_t>(page_table_bytes);
  bytes.kept = programs.kept_bytes();
  if (options.trace) {
    bytes.task_times = static_cast<int64_t>(programs.tasks_max() * sizeof(TaskTimes));
    bytes.worker_times = shape.workers * static_cast<int64_t>(sizeof(WorkerTimes));
  }
  return bytes;
}

// What pages get of the device beside everything else, for a context of so many positions.
struct Shares {
  std::vector<MemoryUse> uses;  // without pages
  int64_t left = 0;
};
Shares shares_of(const ExecutorPlan& plan, const ModelConfig& config, bool with_prefill, int64_t memory_free) {
  const CudaExecutorOptions& options = plan.options;
  const FixedBytes& fixed = plan.fixed;
  Shares shares;
  const auto use = [&shares](const char* what, int64_t bytes) {
    if (bytes > 0) shares.uses.push_back({what, bytes});
  };
  use("weights", fixed.weights + fixed.norms);
  if (with_prefill)
    use(kPrefillUse, PrefillRunner::bytes(config, options.tokens_max, positions_wanted(config, options)));
  use("programs", plan.programs.bytes());
  use("hops", fixed.hops);
  use("logits, tokens, page tables", fixed.logits + fixed.slot_tokens + fixed.page_tables);
  use("traces", fixed.task_times + fixed.worker_times);
  use("kept between kernels", fixed.kept);
  shares.left = memory_free - options.reserve_bytes;
  for (const MemoryUse& one : shares.uses) shares.left -= one.bytes;
  return shares;
}

// Decides plan.pools and fills plan.info.memory, for plan.options.context_max.
Status share_memory(ExecutorPlan& plan, const ModelConfig& config, bool with_prefill, int32_t context_asked,
                    const std::string& device, int64_t memory_free) {
  const CudaExecutorOptions& options = plan.options;
  Shares shares = shares_of(plan, config, with_prefill, memory_free);
  const int64_t left = shares.left;
  const int64_t full = page_bytes_full(config), sliding = page_bytes_sliding(config);
  const bool exact = options.pages_full > 0;
  const int64_t pages_min = exact ? options.pages_full * full + options.pages_sliding * sliding : full + 2 * sliding;
  if (left < pages_min)
    return does_not_fit(shares.uses, options, config, context_asked, device, memory_free, pages_min);
  if (!exact && options.kv_bytes > left)
    return Error{"KV memory of " + gigabytes(options.kv_bytes) + " does not fit: " + device + " has " +
                     gigabytes(left) + " left beside " + list_of(shares.uses, options) +
                     "; give --kv-cache-memory-bytes " + std::to_string(left) + " or less, or leave it out",
                 "kv_bytes"};
  const int64_t kv_bytes = options.kv_bytes > 0 ? options.kv_bytes : left;
  ASSIGN_OR_RETURN(plan.pools, split_pages(config, options, kv_bytes, context_asked));
  plan.info.memory = std::move(shares.uses);
  const auto use = [&plan](const char* what, int64_t bytes) {
    if (bytes > 0) plan.info.memory.push_back({what, bytes});
  };
  use("KV pages, full attention", plan.pools.full * full);
  use("KV pages, sliding window", plan.pools.sliding * sliding);
  return Ok{};
}

// The same for the longest context that fits beside the prefill workspace that it needs: the shorter, the more room
// there is for pages, so a search in pages finds it. Error: as for a context of one page.
Status share_memory_as_fits(ExecutorPlan& plan, const ModelConfig& config, bool with_prefill, const std::string& device,
                            int64_t memory_free) {
  const int32_t context_max = plan.options.context_max;
  const auto share = [&](int32_t pages) {
    plan.options.context_max = std::min(pages * kPagePositions, context_max);
    return share_memory(plan, config, with_prefill, 0, device, memory_free);
  };
  const auto fits = [&](int32_t pages) {
    return share(pages).ok() && plan.pools.context_max == plan.options.context_max;
  };
  int32_t good = 1, bad = static_cast<int32_t>(ceil_div(context_max, kPagePositions)) + 1;
  if (fits(bad - 1)) return Ok{};
  RETURN_IF_ERROR(share(good));
  while (bad - good > 1) {
    const int32_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return share(good);
}

void fill_info(ExecutorPlan& plan, const ModelConfig& config, bool with_prefill, const std::string& device) {
  const CudaExecutorOptions& options = plan.options;
  ExecutorInfo& info = plan.info;
  info.name = "cuda";
  info.device = device;
  info.vocab_size = config.vocab_size;
  info.context_max = plan.pools.context_max;
  info.window = config.sliding_layers() > 0 ? config.window : 0;
  info.sequence_slots = options.sequence_slots;
  info.rows_max = options.rows_max;
  info.tokens_max = options.tokens_max;
  info.pages_full = plan.pools.full;
  info.pages_sliding = plan.pools.sliding;
  info.page_bytes_full = page_bytes_full(config);
  info.page_bytes_sliding = page_bytes_sliding(config);
  info.steps_in_flight_max = kStepsInFlightMax;
  info.one_arithmetic = !with_prefill;  // then prompts run through the same kernel
}

}  // namespace

Result<ExecutorPlan> plan_executor(const ModelConfig& config, const DeviceSpec& spec, const CompiledShape& shape,
                                   const CudaExecutorOptions& options, bool with_prefill, const std::string& device,
                                   int64_t memory_free) {
  RETURN_IF_ERROR(check_options(options));
  ExecutorPlan plan;
  plan.options = options;
  plan.options.rows_max = std::min(options.rows_max, options.sequence_slots);
  const int32_t asked = options.context_max > 0 ? context_wanted(config, options) : 0;
  plan.layout = lay_out_weights(config);
  std::optional<KernelCut> cut;
  if (options.arm != CudaArm::kMegakernel) cut = options.cut;
  ASSIGN_OR_RETURN(plan.programs, ProgramSet::compile(config, spec, shape, context_wanted(config, options), cut));
  const int32_t context = plan.programs.context_max();
  if (options.context_max > context)
    return Error{"context_max is " + std::to_string(options.context_max) + ", the kernel's page lists hold at most " +
                     std::to_string(context) + " positions of this model",
                 "context_max"};
  plan.options.context_max = context;
  const int64_t pages_full = config.full_layers() > 0 ? ceil_div(context, kPagePositions) : 0;
  plan.page_tables =
      PageTables(options.sequence_slots, static_cast<int32_t>(pages_full), sliding_pages_per_slot(config, plan.options),
                 config.sliding_layers() > 0 ? config.window : 0);
  plan.fixed = fixed_bytes(config, shape, plan.layout, plan.programs, options, plan.page_tables.bytes());
  if (asked > 0 || options.pages_full > 0)
    RETURN_IF_ERROR(share_memory(plan, config, with_prefill, asked, device, memory_free));
  else RETURN_IF_ERROR(share_memory_as_fits(plan, config, with_prefill, device, memory_free));
  fill_info(plan, config, with_prefill, device);
  return plan;
}

}  // namespace boreas::cuda

namespace boreas {

Result<ExecutorInfo> plan_cuda_memory(const ModelConfig& config, const DeviceSpec& spec,
                                      const CudaExecutorOptions& options) {
  ASSIGN_OR_RETURN(const cuda::CompiledShape shape, cuda::find_shape(config, spec.workers, cuda::compiled_shapes()));
  ASSIGN_OR_RETURN(cuda::ExecutorPlan plan, cuda::plan_executor(config, spec, shape, options, !options.decode_only,
                                                                spec.name, spec.memory_bytes));
  return std::move(plan.info);
}

}  // namespace boreas
