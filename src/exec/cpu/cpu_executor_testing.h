// What the tests of the CPU executor share: a tiny model, seeded tokens, small options. Only *_test.cc files include
// this.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/prng.h"
#include "exec/cpu/cpu_executor.h"

namespace boreas {

inline std::shared_ptr<const Model> tiny_model() {
  static const std::shared_ptr<const Model> model = [] {
    Result<ModelConfig> config = model_shape("tiny");
    CHECK(config.ok());
    Result<std::shared_ptr<const Model>> made = make_dummy_model(*config);
    CHECK(made.ok());
    return *made;
  }();
  return model;
}

inline std::vector<TokenId> random_tokens(uint64_t seed, size_t count) {
  Prng prng(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens)
    token = static_cast<TokenId>(prng.below(static_cast<uint32_t>(tiny_model()->config().vocab_size)));
  return tokens;
}

inline CpuExecutorOptions small_options() {
  CpuExecutorOptions options;
  options.threads = 1;
  options.sequence_slots = 8;
  options.block_rows = 32;
  options.kv_bytes = int64_t{64} << 20;
  return options;
}

inline std::vector<float> logits_of(std::span<const TokenId> tokens, int32_t chunk, const CpuExecutorOptions& options) {
  Result<CpuTrace> trace = trace_cpu_forward(tiny_model(), tokens, chunk, options);
  EXPECT_TRUE(trace.ok()) << (trace.ok() ? "" : trace.error().message);
  return trace.ok() ? std::move(trace->logits) : std::vector<float>{};
}

// Runs one plan.
inline Result<StepResult> run_plan(Executor& executor, const StepPlan& plan) {
  ASSIGN_OR_RETURN(const StepTicket ticket, executor.submit(plan));
  return executor.wait(ticket);
}

inline std::unique_ptr<Executor> make_executor(std::shared_ptr<const Model> model, const CpuExecutorOptions& options) {
  Result<std::unique_ptr<Executor>> made = make_cpu_executor(std::move(model), options);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  CHECK(made.ok());
  return std::move(*made);
}

}  // namespace boreas
