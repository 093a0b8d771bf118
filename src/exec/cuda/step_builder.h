// From a plan to launches of the megakernel: a launch computes at most kRowsMax tokens, each a row. A decode row is one
// row; a prefill range is cut into runs, the rows of a run side by side with ascending positions. Launches take tokens
// in plan order and are filled to the brim, so several sequences may share one. A token's arithmetic does not depend on
// its launch, so any cut gives the same bits. A plan whose tokens are all prefilled has one launch without rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/page_tables.h"
#include "exec/cuda/step_params.h"
#include "exec/executor.h"
#include "model/model.h"

namespace boreas::cuda {

// What the executor has decided about a row of the plan.
struct RowChoice {
  TokenId token = -1;               // of a row without tokens of its own; -1: the device knows it
  SampleMode sample = kSampleNone;  // of its last token
  PageTables::Place pages;
  int32_t prefilled = 0;  // tokens at the start of its range that no launch computes (prefill/)
  DrawPlan draw;          // if `sample` is kSampleDraw
};

// What becomes of a launch's row.
struct LaunchRow {
  int32_t plan_row = 0;
  int32_t token_index = 0;  // in the row's range
  bool samples = false;     // the sequence's next token comes of it
  bool scores = false;      // kAll: its logits score the next token of the range
};

struct LaunchPlan {
  int32_t rows = 0;
  std::array<RowPlan, kRowsMax> row{};
  std::array<LaunchRow, kRowsMax> use{};
  bool wants_logits = false;  // of a row whose sample mode is kSampleHost
};

std::vector<LaunchPlan> cut_into_launches(const StepPlan& plan, std::span<const RowChoice> choices);

// Cosines and sines of a row's position: angle = position * theta^(-2i/dim), frequency rounded once to fp32, product in
// fp32, cosine and sine rounded from double. The same bits as the CPU executor's.
class RopeTable {
 public:
  RopeTable() = default;
  explicit RopeTable(const ModelConfig& config);
  void fill(int32_t position, float (&out)[kHeadDim / 2][2]) const;
  const std::array<float, kHeadDim / 2>& frequencies() const { return frequency_; }

 private:
  std::array<float, kHeadDim / 2> frequency_{};
};

}  // namespace boreas::cuda
