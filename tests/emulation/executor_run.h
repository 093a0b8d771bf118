// What tests of the CUDA executor share, on the emulated device and on a GPU: the golden checkpoint of their shape, and
// sequences decoded through the Executor interface.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "exec/executor.h"
#include "model/model.h"
#include "tests/golden/golden_checkpoint.h"

namespace boreas {

inline std::shared_ptr<const Model> golden_model() {
  const std::string folder = BOREAS_SOURCE_DIR "/tests/golden/cohere2_moe/gpu";
  std::ifstream file(folder + "/golden.json");
  std::stringstream manifest;
  manifest << file.rdbuf();
  auto model = load_golden_model(folder, manifest.str());
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? *model : nullptr;
}

struct Sequence {
  int32_t slot;
  std::vector<TokenId> prompt;
  std::vector<PageId> pages;  // of both pools
  SamplingParams sampling = greedy();
  static SamplingParams greedy() {
    SamplingParams params;
    params.temperature = 0;
    return params;
  }
};

struct Decoded {
  std::vector<TokenId> tokens;
  std::vector<std::vector<float>> logprobs;  // of all ids, where asked for
};

// Prefills sequences in one plan and decodes them side by side, tokens fed back by the executor. With log-probabilities
// the host draws the tokens.
inline std::vector<Decoded> decode(Executor& executor, const std::vector<Sequence>& sequences, int32_t steps,
                                   bool logprobs) {
  const int32_t vocabulary = executor.info().vocab_size;
  std::vector<Decoded> results(sequences.size());
  for (const Sequence& sequence : sequences) {
    SequenceSpec spec;
    spec.sampling = sequence.sampling;
    spec.sampling.top_logprobs = logprobs ? vocabulary : -1;
    spec.prompt = sequence.prompt;
    executor.open_sequence(sequence.slot, spec);
  }
  for (int32_t step = 0; step < steps; ++step) {
    StepPlan plan;
    for (const Sequence& sequence : sequences) {
      StepRow row;
      row.slot = sequence.slot;
      row.position = step == 0 ? 0 : static_cast<int32_t>(sequence.prompt.size()) + step - 1;
      if (step == 0) row.tokens = sequence.prompt;
      row.full_pages = row.sliding_pages = sequence.pages;
      row.logits = LogitsWanted::kLast;
      plan.rows.push_back(row);
    }
    auto ticket = executor.submit(plan);
    EXPECT_TRUE(ticket.ok()) << (ticket.ok() ? "" : ticket.error().message);
    if (!ticket.ok()) return results;
    auto done = executor.wait(*ticket);
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    if (!done.ok()) return results;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const SampledToken& sampled = done->rows[i].sampled;
      results[i].tokens.push_back(sampled.id);
      if (!logprobs) continue;
      std::vector<float> all(static_cast<size_t>(vocabulary));
      for (const TokenLogprob& entry : sampled.top) all[static_cast<size_t>(entry.id)] = entry.logprob;
      results[i].logprobs.push_back(std::move(all));
    }
  }
  for (const Sequence& sequence : sequences) executor.close_sequence(sequence.slot);
  return results;
}

inline void expect_equal(const std::vector<Decoded>& a, const std::vector<Decoded>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << what << ", sequence " << i;
    EXPECT_EQ(a[i].logprobs, b[i].logprobs) << what << ", sequence " << i;
  }
}

}  // namespace boreas
