// A made-up megakernel for tests of everything above the Device: it keeps each token in the KV pages and computes the
// next one from all that a row can see through its page tables, so a wrong page, position, order or token changes the
// text. `expected_logits` says the same from the text alone. Only tests include this.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/prng.h"
#include "exec/cuda/device_executor.h"
#include "exec/cuda/drawn_testing.h"
#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/shape_testing.h"
#include "model/model.h"

namespace boreas::cuda {

inline uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3ull + (hash >> 29); }

inline uint64_t text_hash(std::span<const TokenId> text, int32_t window) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (TokenId token : text) hash = mix(hash, static_cast<uint64_t>(token));
  const int32_t last = static_cast<int32_t>(text.size()) - 1;
  for (int32_t i = first_visible(last, true, window); i <= last; ++i)
    hash = mix(hash, static_cast<uint64_t>(text[static_cast<size_t>(i)]) + 1);
  return hash;
}

inline void fill_logits(uint64_t hash, std::span<float> logits) {
  Prng prng(hash);
  for (float& logit : logits) logit = 8 * prng.uniform() - 4;
}

// After this text.
inline std::vector<float> expected_logits(std::span<const TokenId> text, const ModelConfig& config) {
  std::vector<float> logits(static_cast<size_t>(config.vocab_size));
  fill_logits(text_hash(text, config.window), logits);
  return logits;
}

class MadeUpKernel {
 public:
  explicit MadeUpKernel(const ModelConfig& config) : config_(config) {}

  int64_t launches = 0;
  std::vector<uint32_t> steps;            // of every launch
  std::vector<int32_t> rows;              // of every launch
  int64_t samples[kSampleDraw + 1] = {};  // by SampleMode
  int64_t corrupt_launch = -1;            // its rows draw -1
  int64_t mute_launch = -1;               // leaves no outcomes
  int64_t fault_launch = -1;              // leaves a fault record and fails
  FaultRecord fault{};

  Status run(const StepParams& params) {
    const int64_t launch = launches++;
    steps.push_back(params.step);
    rows.push_back(params.rows);
    if (launch == fault_launch) {
      *params.fault = fault;
      return Error{"unspecified launch failure"};
    }
    check_hops(params);
    for (int32_t row = 0; row < params.rows; ++row) run_row(params, row, launch);
    publish(params);
    return Ok{};
  }

 private:
  // What a reader of real words relies on: no word of the future, and zeroes or the past's epochs elsewhere.
  void check_hops(const StepParams& params) const {
    for (size_t hop = 0; hop < kHops; ++hop)
      for (uint32_t half = 0; half < 2; ++half)
        CHECK(params.hops[hop][half * params.hop_half_words[hop]].epoch <= params.step * params.hop_uses[hop]);
  }
  void publish(const StepParams& params) const {
    for (size_t hop = 0; hop < kHops; ++hop) {
      const uint32_t epoch = params.step * params.hop_uses[hop] + params.hop_uses[hop];
      params.hops[hop][(epoch & 1) * params.hop_half_words[hop]].epoch = epoch;
    }
  }

  static TokenId* token_in(uint8_t* pages, uint64_t page_bytes, int32_t page, int32_t position) {
    return reinterpret_cast<TokenId*>(pages + static_cast<uint64_t>(page) * page_bytes) + position % kPagePositions;
  }

  void run_row(const StepParams& params, int32_t row, int64_t launch) {
    const RowPlan& plan = params.row[row];
    CHECK(plan.group_first <= row && params.row[plan.group_first].slot == plan.slot);
    CHECK(plan.position - params.row[plan.group_first].position == row - plan.group_first);
    const int32_t* full = params.page_tables + plan.page_table_full;
    const int32_t* sliding = params.page_tables + plan.page_table_sliding - plan.sliding_first;
    const auto in_full = [&](int32_t position) {
      return token_in(params.pages_full, params.page_bytes_full, full[position / kPagePositions], position);
    };
    const auto in_sliding = [&](int32_t position) {
      return token_in(params.pages_sliding, params.page_bytes_sliding, sliding[position / kPagePositions], position);
    };
    const TokenId token = plan.token >= 0 ? plan.token : params.slot_tokens[plan.slot];
    *in_full(plan.position) = *in_sliding(plan.position) = token;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (int32_t i = 0; i <= plan.position; ++i) hash = mix(hash, static_cast<uint64_t>(*in_full(i)));
    for (int32_t i = first_visible(plan.position, true, params.window); i <= plan.position; ++i)
      hash = mix(hash, static_cast<uint64_t>(*in_sliding(i)) + 1);
    draw(params, row, hash, launch);
  }

  void draw(const StepParams& params, int32_t row, uint64_t hash, int64_t launch) {
    const RowPlan& plan = params.row[row];
    ++samples[plan.sample];
    if (launch == mute_launch) return;
    params.outcomes[row] = {-1, params.step, 0, 10 + row};
    if (plan.sample == kSampleNone) return;
    const size_t vocab = static_cast<size_t>(config_.vocab_size);
    const std::span<float> logits(params.logits + static_cast<size_t>(row) * vocab, vocab);
    fill_logits(hash, logits);
    RowOutcome& outcome = params.outcomes[row];
    if (plan.sample == kSampleForced) outcome.token = plan.forced_token;
    else if (plan.sample == kSampleDraw) outcome.token = drawn_by_sorting(logits, plan.draw, plan.position + 1);
    else outcome.token = static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (plan.sample != kSampleHost) params.slot_tokens[plan.slot] = outcome.token;
    if (launch != corrupt_launch) return;
    outcome.token = -1;
    if (plan.sample == kSampleHost) logits[vocab / 2] = std::numeric_limits<float>::quiet_NaN();
  }

  ModelConfig config_;
};

// An executor over HostDevice with the golden shape on four workers.
struct MadeUp {
  std::shared_ptr<const Model> model;
  std::shared_ptr<MadeUpKernel> kernel;
  std::shared_ptr<HostDeviceLog> log = std::make_shared<HostDeviceLog>();
  HostDeviceOptions device;
  CudaExecutorOptions options;

  MadeUp() {
    static const std::shared_ptr<const Model> golden = make_dummy_model(config_of_shape<GoldenShape>()).value();
    model = golden;
    kernel = std::make_shared<MadeUpKernel>(model->config());
    device.memory_bytes = int64_t{256} << 20;
    options.sequence_slots = 8;
    options.context_max = 2048;
    options.reserve_bytes = 0;
    options.pages_full = 96;
    options.pages_sliding = 96;
  }
  Result<std::unique_ptr<Executor>> make() const {
    const CompiledShape shapes[] = {compiled_shape<GoldenShape, 4>(), compiled_shape<GoldenShape, 128>()};
    DeviceSpec spec = h200_spec();
    spec.workers = 4;
    auto run = [kernel = kernel](const std::string& name, int32_t workers, size_t, const StepParams& params) {
      CHECK(name == "golden" && workers == 4);
      return kernel->run(params);
    };
    return make_device_executor(std::make_unique<HostDevice>(device, run, log), spec, shapes, model, options);
  }
};

}  // namespace boreas::cuda
