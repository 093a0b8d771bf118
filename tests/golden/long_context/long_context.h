// The golden of one step at the last position of models/demo, and the same step on an executor. Used by
// long_context_golden_test.cc and tests/gpu/long_context_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "exec/executor.h"
#include "model/model.h"
#include "tests/golden/long_context/loud_cache.h"
#include "tests/golden/tolerance.h"

namespace boreas {

// What transformers makes of one token behind the cache of loud_cache.h, in FP32 unless the name says BF16.
struct LongContextToken {
  TokenId token = 0;
  std::vector<float> logits, logits_bf16;  // [vocab_size]
  std::vector<std::vector<float>> attention, mlp,
      residual;                    // per layer [hidden]; the first two before the residual add
  std::vector<LayerScale> scales;  // per layer
};

struct LongContextGolden {
  int32_t position = 0;                  // of the token
  std::vector<LongContextToken> tokens;  // each alone behind the cache
};

std::shared_ptr<const Model> load_demo_model();
// Error: a file is missing or is not of this model's shape.
Result<LongContextGolden> load_long_context_golden(const ModelConfig& config);

// What may be off in BF16: everything stored, and the oracle's FP32 angles, which are not exact so far out.
Arithmetic long_context_bf16(const ModelConfig& config, int32_t position);

// ---- on an executor

struct StepTables {
  std::vector<PageId> full, sliding;
  int32_t sliding_first = 0;
};

// Pages that an executor must have: the cache's, and of the full pool one to spare, the last.
int32_t long_context_full_pages(int32_t position);
int32_t long_context_sliding_pages(const ModelConfig& config, int32_t position);

// Page j of the full pool gets the cache's page j. `config` is the golden's, whatever window the executor has.
Result<StepTables> fill_long_context(Executor& executor, const ModelConfig& config, int32_t position,
                                     PageLayout layout);

// Log-probabilities of all ids after `token` at `position`. The token's own key and value go to the tables' last pages.
Result<std::vector<float>> long_context_step(Executor& executor, int32_t position, TokenId token,
                                             const StepTables& tables);

// The worst log-probability in tolerances of the logits. The softmax takes a constant from a row of logits; it is taken
// as the difference of the means.
double logprob_ratio(std::span<const float> logits, std::span<const float> logprobs, double error);

// The worst token of the golden on an executor; infinite after an Error, which is printed.
double long_context_ratio(Executor& executor, const ModelConfig& config, const LongContextGolden& golden,
                          const StepTables& tables);

}  // namespace boreas
