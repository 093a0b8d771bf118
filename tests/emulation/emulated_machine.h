// One emulated device with a model on it that runs launches of the megakernel row by row, without an executor: tests
// say which rows, positions and tokens, and see logits, outcomes, pages and faults.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/megakernel.cuh"
#include "exec/cuda/shape_testing.h"
#include "exec/cuda/weight_layout.h"
#include "exec/executor.h"
#include "grid.h"
#include "launch.h"
#include "model/model.h"
#include "program/compile.h"

namespace boreas {

// A model of the golden shape with dummy weights.
inline std::shared_ptr<const Model> small_model(int32_t layers, int32_t window) {
  ModelConfig config = cuda::config_of_shape<cuda::GoldenShape>(*model_shape("tiny"));
  config.window = window;
  config.context_max = 4096;
  config.layers.resize(static_cast<size_t>(layers));
  return *make_dummy_model(config);
}

inline DeviceSpec small_device(int32_t workers) {
  DeviceSpec spec = h200_spec();
  spec.workers = workers;
  spec.scratch_fixed_bytes = 16 * 1024;
  return spec;
}

// One emulated device with a model on it; pages are given out in a scrambled order.
template <class C>
class Machine {
 public:
  Machine(std::shared_ptr<const Model> model, int32_t pages) : model_(std::move(model)), pages_(pages) {
    const ModelConfig& config = model_->config();
    layout_ = cuda::lay_out_weights(config);
    weights_.resize(layout_.bytes);
    norms_.resize(static_cast<size_t>(config.layer_count() + 1) * C::kHidden);
    for (const WeightKey& key : weight_keys(config)) place_weight(key);
    full_.resize(static_cast<size_t>(page_bytes_full(config)) * static_cast<size_t>(pages));
    sliding_.resize(static_cast<size_t>(page_bytes_sliding(config)) * static_cast<size_t>(pages));
    logits_.resize(static_cast<size_t>(cuda::kRowsMax) * C::kVocabulary);
    hop_half_words_ = cuda::hop_half_words_of<C>();
    for (size_t hop = 0; hop < kHops; ++hop) hops_[hop].resize(size_t{2} * hop_half_words_[hop]);
    tables_.resize(size_t{64} * 64);
  }

  struct Row {
    int32_t slot, position;
    TokenId token;
    std::optional<cuda::DrawPlan> draw = std::nullopt;  // none: greedy
  };

  // Runs a launch; logits of each row. Rows of one slot must be neighbours.
  emulation::GridResult run(const std::vector<Row>& rows, uint64_t seed, uint32_t delay_seed = 0,
                            int32_t silent_task = -1) {
    const Program& program = program_for(static_cast<int32_t>(rows.size()));
    cuda::StepParams params = fixed_params(program);
    params.delay_seed = delay_seed;
    params.silent_task = silent_task;
    if (silent_task >= 0) params.deadline = 1000;
    params.step = step_++;
    params.rows = static_cast<int32_t>(rows.size());
    params.row_reciprocal = cuda::reciprocal_of(params.rows);
    for (size_t i = 0; i < rows.size(); ++i) fill_row(params, rows, i);
    spoil_words();
    register_all();
    emulation::GridOptions options;
    options.blocks = C::kWorkers;
    options.threads = cuda::kThreads;
    options.shared_bytes = 227 * 1024;
    options.seed = seed;
    options.check_races = check_races_;
    options.polled_words = {params.scratch.arrived};
    return emulation::run_grid(options, [&] { emulation::run_block<C>(params); });
  }
  // Shared accesses that nothing orders are errors from here on.
  void check_races() { check_races_ = true; }
  std::vector<float> logits(size_t row) const {
    return {logits_.begin() + static_cast<ptrdiff_t>(row * C::kVocabulary),
            logits_.begin() + static_cast<ptrdiff_t>((row + 1) * C::kVocabulary)};
  }
  const cuda::RowOutcome& outcome(size_t row) const { return outcomes_[row]; }
  const cuda::FaultRecord& fault() const { return fault_; }
  // [64, head_dim] of one layer and head: element (position, dim) of K or V.
  uint16_t& kv(PagePoolKind pool, int32_t page, int32_t pool_layer, int32_t head, bool value, int32_t position,
               int32_t dim) {
    const bool sliding = pool == PagePoolKind::kSliding;
    std::vector<uint8_t>& memory = sliding ? sliding_ : full_;
    const int64_t bytes = sliding ? page_bytes_sliding(model_->config()) : page_bytes_full(model_->config());
    const int64_t at = page * bytes + (int64_t{pool_layer} * C::kKvHeads + head) * kKvPageHeadBytes +
                       (value ? v_offset(position, dim) : k_offset(position, dim));
    return *reinterpret_cast<uint16_t*>(memory.data() + at);
  }
  static int32_t page_of(int32_t slot, int32_t page, int32_t pages) { return (page * 7 + slot * 3 + 5) % pages; }
  void fill_pages(uint8_t byte) {
    std::fill(full_.begin(), full_.end(), byte);
    std::fill(sliding_.begin(), sliding_.end(), byte);
  }

 private:
  void place_weight(const WeightKey& key) {
    const ModelConfig& config = model_->config();
    const TensorView& tensor = model_->weights().at(key.role, key.layer, key.expert);
    const WeightShape shape = weight_shape(config, key.role);
    if (key.role == WeightRole::kInputNorm || key.role == WeightRole::kFinalNorm) {
      const size_t row = key.role == WeightRole::kFinalNorm ? static_cast<size_t>(config.layer_count())
                                                            : static_cast<size_t>(key.layer);
      std::memcpy(norms_.data() + row * C::kHidden, tensor.bf16_row(0), C::kHidden * 2);
      return;
    }
    const auto places = cuda::row_places(config, C::kWorkers, key.role);
    uint8_t* base = weights_.data() + cuda::region_offset(layout_, key.role, key.layer, key.expert);
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int32_t pair = 0; pair < shape.cols / 2; ++pair)
        std::memcpy(base + cuda::pair_offset(places[static_cast<size_t>(row)], pair), tensor.bf16_row(row) + 2 * pair,
                    4);
    }
  }

  // What earlier launches published keeps its epochs, but is no number any more: whoever takes a word without looking
  // at its epoch shows in the logits. Old values would hardly: they are much like those that are awaited.
  void spoil_words() {
    for (auto& hop : hops_)
      for (cuda::Word& word : hop) std::fill(std::begin(word.payload), std::end(word.payload), 0x7fff7fffu);
  }

  const Program& program_for(int32_t rows) {
    auto [it, is_new] = programs_.try_emplace(rows);
    if (is_new) {
      auto program = compile(model_->config(), small_device(C::kWorkers), rows);
      EXPECT_TRUE(program.ok()) << program.error().message;
      it->second = std::make_unique<Program>(std::move(*program));
      cuda::address_loads(model_->config(), layout_, it->second->list_first, it->second->tasks);
    }
    return *it->second;
  }

  cuda::StepParams fixed_params(const Program& program) {
    const ModelConfig& config = model_->config();
    cuda::StepParams params{};
    params.tasks = program.tasks.data();
    params.list_first = program.list_first.data();
    params.weights = weights_.data();
    params.norms = norms_.data();
    params.lm_head = layout_.lm_head;
    std::copy(layout_.layers.begin(), layout_.layers.end(), params.layers);
    params.pages_full = full_.data();
    params.pages_sliding = sliding_.data();
    params.page_bytes_full = static_cast<uint64_t>(page_bytes_full(config));
    params.page_bytes_sliding = static_cast<uint64_t>(page_bytes_sliding(config));
    params.page_tables = tables_.data();
    for (int32_t hop = 0; hop < kHops; ++hop) {
      params.hops[hop] = hops_[hop].data();
      params.hop_half_words[hop] = hop_half_words_[static_cast<size_t>(hop)];
      params.hop_uses[hop] = static_cast<uint32_t>(program.hop_uses[static_cast<size_t>(hop)]);
    }
    params.logits = logits_.data();
    params.slot_tokens = slot_tokens_;
    params.outcomes = outcomes_;
    params.fault = &fault_;
    for (int32_t slot = 0; slot < kSlots; ++slot)
      params.slot_offset[slot] = static_cast<uint32_t>(program.slots[static_cast<size_t>(slot)].offset);
    params.ring_offset = static_cast<uint32_t>((program.slot_bytes + 127) / 128 * 128);
    params.ring_chunks = std::min(program.ring_chunks, cuda::kStagesMax);
    params.producers = program.producers;
    for (int32_t& credits : params.credits) credits = 4;
    params.page_list_full = 64;
    params.page_list_sliding = 16;
    const uint32_t scratch = params.ring_offset + static_cast<uint32_t>(params.ring_chunks * kStreamChunkBytes);
    params.scratch = cuda::map_scratch<C>(scratch, program.rows_max, 64 + 16, cuda::partial_bytes(program.rows_max));
    params.layer_count = config.layer_count();
    params.window = config.window;
    params.rms_norm_eps = config.rms_norm_eps;
    params.logit_scale = config.logit_scale;
    params.deadline = uint32_t{1} << 28;
    params.silent_task = -1;
    return params;
  }

  void fill_row(cuda::StepParams& params, const std::vector<Row>& rows, size_t i) {
    const ModelConfig& config = model_->config();
    cuda::RowPlan& plan = params.row[i];
    plan.position = rows[i].position;
    plan.token = rows[i].token;
    plan.slot = rows[i].slot;
    plan.sample = rows[i].draw ? cuda::kSampleDraw : cuda::kSampleGreedy;
    if (rows[i].draw) plan.draw = *rows[i].draw;
    plan.page_table_full = plan.page_table_sliding = rows[i].slot * 64;
    size_t first = i;
    while (first > 0 && rows[first - 1].slot == rows[i].slot) --first;
    plan.group_first = static_cast<int32_t>(first);
    for (int32_t page = 0; page <= rows[i].position / 64; ++page)
      tables_[static_cast<size_t>(rows[i].slot * 64 + page)] = page_of(rows[i].slot, page, pages_);
    for (int32_t pair = 0; pair < config.head_dim / 2; ++pair) {
      const double angle = rows[i].position * std::pow(config.rope_theta, -2.0 * pair / config.head_dim);
      params.rope[i][pair][0] = static_cast<float>(std::cos(angle));
      params.rope[i][pair][1] = static_cast<float>(std::sin(angle));
    }
  }

  void register_all() {
    emulation::forget_memory();
    const auto add = [](const auto& v, const char* name) {
      emulation::register_memory(v.data(), v.size() * sizeof(v[0]), name);
    };
    add(weights_, "weights");
    add(norms_, "norms");
    add(logits_, "logits");
    add(full_, "full pages");
    add(sliding_, "sliding pages");
    add(tables_, "page tables");
    for (const auto& hop : hops_) add(hop, "hop");
    for (const auto& [rows, program] : programs_) {
      add(program->tasks, "tasks");
      add(program->list_first, "lists");
    }
  }

  std::shared_ptr<const Model> model_;
  int32_t pages_;
  cuda::WeightLayout layout_;
  std::vector<uint8_t> weights_, full_, sliding_;
  std::vector<uint16_t> norms_;
  std::vector<float> logits_;
  std::vector<cuda::Word> hops_[kHops];
  std::array<uint32_t, kHops> hop_half_words_{};
  std::vector<int32_t> tables_;
  int32_t slot_tokens_[64] = {};
  cuda::RowOutcome outcomes_[cuda::kRowsMax] = {};
  cuda::FaultRecord fault_{};
  std::map<int32_t, std::unique_ptr<Program>> programs_;
  uint32_t step_ = 0;
  bool check_races_ = false;
};

inline std::vector<TokenId> some_tokens(int32_t count, uint32_t seed) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<TokenId>((i * 2654435761u + seed * 40503u) >> 8) % 512);
  return tokens;
}

}  // namespace boreas
