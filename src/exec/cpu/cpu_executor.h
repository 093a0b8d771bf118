// The CPU executor: virtual SMs on threads interpret the verified task lists (interpreter.h). A product for small
// machines and the oracle of the GPU. Decode and prefill are the same arithmetic: a prefill chunk is a block of rows
// through the same program, so its KV equals decode's to the bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "model/model.h"

namespace boreas {

struct Program;

struct CpuExecutorOptions {
  int32_t threads = 0;  // 0: as many as this process may use processors; at most that many in any case
  int32_t workers = 0;  // virtual SMs; 0: as many as threads
  int32_t sequence_slots = 64;
  int32_t block_rows = 64;              // tokens that run through the layers together
  int32_t tokens_max = 2048;            // of one plan
  int32_t context_max = 0;              // 0: the model's
  int64_t kv_bytes = int64_t{1} << 30;  // both page pools together
  int32_t pages_full = 0;               // > 0 (both): exactly so many instead of kv_bytes
  int32_t pages_sliding = 0;
  const char* simd = nullptr;               // "portable", "avx2", "avx512"; null: the best this processor has
  std::optional<uint64_t> interleave_seed;  // tests: adversarial order of tasks, see interpreter.h
  bool threads_exact = false;               // tests: threads beyond the processors
  // Tests: may alter a program after it was proved, to show that the interpreter notices.
  std::function<void(Program&)> mutate_program;
};

// Threads that an executor starts if `wanted` are asked for: one a processor that this process may use at most, because
// more would only wait for each other; 0 asks for as many. ExecutorInfo::device says so where that is fewer.
int32_t cpu_threads(int32_t wanted);

// Error: an option out of range, an unsupported SIMD level, a program that does not verify, not enough memory or
// threads. submit() computes the step before it returns. After an Error of submit() (the program could not go on) every
// later submit() is an Error as well.
Result<std::unique_ptr<Executor>> make_cpu_executor(std::shared_ptr<const Model> model,
                                                    const CpuExecutorOptions& options);

// For golden and conformance tests: a full forward of one sequence in chunks of `chunk` tokens (1: decode from the
// first token on).
struct CpuTrace {
  std::vector<float> logits;  // [positions, vocab_size]
  std::vector<std::vector<float>> attention, mlp,
      residual;  // per layer [positions, hidden], fp32 before the residual is rounded
};
// forced_residual, if given, replaces every layer's output before the next layer reads it ([layers][positions *
// hidden]): with the oracle's residuals each layer is judged on the oracle's own input.
Result<CpuTrace> trace_cpu_forward(std::shared_ptr<const Model> model, std::span<const TokenId> tokens, int32_t chunk,
                                   const CpuExecutorOptions& options,
                                   const std::vector<std::vector<float>>* forced_residual = nullptr);

}  // namespace boreas
