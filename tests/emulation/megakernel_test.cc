// The megakernel's own source, run on the emulated device, against the CPU executor: a whole decode step of a small
// model, on a few workers, with ragged rows, window crossings and prefill blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "distance.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/cuda/compiled_shape.h"
#include "exec/cuda/megakernel.cuh"
#include "exec/cuda/shape_testing.h"
#include "exec/cuda/weight_layout.h"
#include "grid.h"
#include "launch.h"
#include "model/model.h"
#include "program/compile.h"

namespace boreas {
namespace {

using cuda::StepParams;

// A model of the golden shape with dummy weights.
std::shared_ptr<const Model> small_model(int32_t layers, int32_t window) {
  ModelConfig config = cuda::config_of_shape<cuda::GoldenShape>(*model_shape("tiny"));
  config.window = window;
  config.context_max = 4096;
  config.layers.resize(static_cast<size_t>(layers));
  return *make_dummy_model(config);
}

DeviceSpec small_device(int32_t workers) {
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
  };

  // Runs a launch; logits of each row. Rows of one slot must be neighbours.
  emulation::GridResult run(const std::vector<Row>& rows, uint64_t seed, uint32_t delay_seed = 0,
                            int32_t silent_task = -1) {
    const Program& program = program_for(static_cast<int32_t>(rows.size()));
    StepParams params = fixed_params(program);
    params.delay_seed = delay_seed;
    params.silent_task = silent_task;
    if (silent_task >= 0) params.deadline = 1000;
    params.step = step_++;
    params.rows = static_cast<int32_t>(rows.size());
    params.row_reciprocal = cuda::reciprocal_of(params.rows);
    for (size_t i = 0; i < rows.size(); ++i) fill_row(params, rows, i);
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

  StepParams fixed_params(const Program& program) {
    const ModelConfig& config = model_->config();
    StepParams params{};
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

  void fill_row(StepParams& params, const std::vector<Row>& rows, size_t i) {
    const ModelConfig& config = model_->config();
    cuda::RowPlan& plan = params.row[i];
    plan.position = rows[i].position;
    plan.token = rows[i].token;
    plan.slot = rows[i].slot;
    plan.sample = cuda::kSampleGreedy;
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

std::vector<TokenId> some_tokens(int32_t count, uint32_t seed) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<TokenId>((i * 2654435761u + seed * 40503u) >> 8) % 512);
  return tokens;
}

std::vector<float> cpu_logits(const std::shared_ptr<const Model>& model, std::span<const TokenId> tokens) {
  CpuExecutorOptions options;
  options.threads = 1;
  options.context_max = 4096;
  auto trace = trace_cpu_forward(model, tokens, 8, options);
  EXPECT_TRUE(trace.ok());
  return trace->logits;
}

// Decodes several sequences side by side, token by token, and compares every row's logits with the CPU executor's.
template <class C>
void check_against_cpu(int32_t layers, int32_t window, const std::vector<int32_t>& lengths, uint64_t seed,
                       int32_t prefill_block = 1) {
  const auto model = small_model(layers, window);
  Machine<C> machine(model, 32);
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<float>> expected;
  std::vector<int32_t> done(lengths.size(), 0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    tokens.push_back(some_tokens(lengths[i], static_cast<uint32_t>(i + 1)));
    expected.push_back(cpu_logits(model, tokens.back()));
  }
  double worst = 0;
  for (uint64_t launch = 0;; ++launch) {
    std::vector<typename Machine<C>::Row> rows;
    for (size_t i = 0; i < lengths.size(); ++i) {
      for (int32_t k = 0; k < prefill_block && done[i] < lengths[i] && rows.size() < cuda::kRowsMax; ++k) {
        rows.push_back({static_cast<int32_t>(i), done[i], tokens[i][static_cast<size_t>(done[i])]});
        ++done[i];
      }
    }
    if (rows.empty()) break;
    const auto result = machine.run(rows, seed == 0 ? 0 : seed + launch);
    ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
    for (size_t row = 0; row < rows.size(); ++row) {
      const std::span<const float> wanted(expected[static_cast<size_t>(rows[row].slot)].data() +
                                              static_cast<size_t>(rows[row].position) * C::kVocabulary,
                                          C::kVocabulary);
      const double off = distance(machine.logits(row), wanted);
      worst = std::max(worst, off);
      ASSERT_LT(off, bf16_distance(layers)) << "slot " << rows[row].slot << " position " << rows[row].position;
      const auto logits = machine.logits(row);
      EXPECT_EQ(machine.outcome(row).token, std::max_element(logits.begin(), logits.end()) - logits.begin());
    }
  }
  std::printf("worst relative distance %.5f\n", worst);
}

using emulation::FourWorkers;

TEST(Megakernel, OneRowEqualsTheCpuExecutor) { check_against_cpu<FourWorkers>(3, 32, {20}, 0); }
TEST(Megakernel, RaggedRowsEqualTheCpuExecutor) {
  check_against_cpu<FourWorkers>(5, 16, {3, 20, 1, 7, 12, 9, 2, 17}, 7);
}
// As on a GPU: slices of two rows and of none, tiles of every height.
TEST(Megakernel, AllWorkersEqualTheCpuExecutor) {
  check_against_cpu<cuda::Cut<cuda::GoldenShape, 128>>(2, 16, {1, 1}, 5);
}
TEST(MegakernelFull, AllWorkersEqualTheCpuExecutor) {
  check_against_cpu<cuda::Cut<cuda::GoldenShape, 128>>(2, 16, {3}, 0);
  check_against_cpu<cuda::Cut<cuda::GoldenShape, 128>>(2, 16, {2, 1, 2}, 5);
}
TEST(Megakernel, PrefillBlocksEqualTheCpuExecutor) { check_against_cpu<FourWorkers>(3, 32, {70, 9}, 3, 5); }
// Nobody touches shared memory without having met, at an mbarrier, a named barrier or the arrival count, whoever
// touched it before. Several rows over a window's end, and a second page.
TEST(Megakernel, SharedAccessesAreOrdered) {
  Machine<FourWorkers> machine(small_model(3, 32), 32);
  machine.check_races();
  for (uint64_t launch = 0; launch < 3; ++launch) {
    std::vector<Machine<FourWorkers>::Row> rows;
    for (int32_t row = 0; row < 5; ++row)
      rows.push_back({row, static_cast<int32_t>(launch) + 62 * (row % 2), static_cast<TokenId>(7 * row + 1)});
    const auto result = machine.run(rows, 100 + launch);
    ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
  }
}
TEST(Megakernel, UnevenSlicesEqualTheCpuExecutor) {
  check_against_cpu<cuda::Cut<cuda::GoldenShape, 3>>(3, 16, {9, 4, 6}, 11, 2);
}

// Promise 1 of the design: a row's bits do not depend on neighbours, on how many they are, or on who was late.
void expect_bits_of_the_row_alone(std::initializer_list<int32_t> numbers_of_neighbours) {
  const auto model = small_model(3, 16);
  const auto tokens = some_tokens(10, 1);
  std::vector<std::vector<float>> alone;
  Machine<FourWorkers> lone(model, 32);
  for (int32_t i = 0; i < 10; ++i) {
    ASSERT_EQ(lone.run({{2, i, tokens[static_cast<size_t>(i)]}}, 0).outcome, emulation::Outcome::kFinished);
    alone.push_back(lone.logits(0));
  }
  for (int32_t neighbours : numbers_of_neighbours) {
    Machine<FourWorkers> machine(model, 32);
    for (int32_t i = 0; i < 10; ++i) {
      std::vector<Machine<FourWorkers>::Row> rows;
      const int32_t at = (i * 3) % (neighbours + 1);  // the row's place among the others changes
      for (int32_t k = 0; k <= neighbours; ++k) {
        if (k == at) rows.push_back({2, i, tokens[static_cast<size_t>(i)]});
        else rows.push_back({3 + k, i, static_cast<TokenId>((i * 31 + k * 77) % 512)});
      }
      const auto result = machine.run(rows, static_cast<uint64_t>(100 * neighbours + i), 17);
      ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
      ASSERT_EQ(machine.logits(static_cast<size_t>(at)), alone[static_cast<size_t>(i)]) << neighbours << " " << i;
    }
  }
}

TEST(Megakernel, BitsDependOnTheRowAlone) { expect_bits_of_the_row_alone({4}); }
TEST(MegakernelFull, BitsDependOnTheRowAlone) { expect_bits_of_the_row_alone({1, 7}); }

// Prefill in blocks of one to eight: the same bits, since there is one arithmetic.
TEST(Megakernel, BlocksOfAnySizeGiveTheSameBits) {
  const auto model = small_model(2, 16);
  const auto tokens = some_tokens(24, 5);
  std::vector<std::vector<float>> wanted;
  for (int32_t block : {1, 3, 8}) {
    Machine<FourWorkers> machine(model, 8);
    for (int32_t first = 0; first < 24; first += block) {
      std::vector<Machine<FourWorkers>::Row> rows;
      for (int32_t i = first; i < first + block; ++i) rows.push_back({0, i, tokens[static_cast<size_t>(i)]});
      ASSERT_EQ(machine.run(rows, 0).outcome, emulation::Outcome::kFinished);
      for (int32_t i = 0; i < block; ++i) {
        const auto logits = machine.logits(static_cast<size_t>(i));
        if (block == 1) wanted.push_back(logits);
        else ASSERT_EQ(logits, wanted[static_cast<size_t>(first + i)]) << block << " " << first + i;
      }
    }
  }
}

// What a recycled page still holds, NaN at worst, is not seen.
TEST(Megakernel, LeftoversInPagesDoNotShow) {
  const auto model = small_model(2, 16);
  Machine<FourWorkers> clean(model, 8), dirty(model, 8);
  dirty.fill_pages(0xff);  // every element is NaN
  const auto tokens = some_tokens(4, 9);
  for (int32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(clean.run({{0, i, tokens[static_cast<size_t>(i)]}}, 0).outcome, emulation::Outcome::kFinished);
    ASSERT_EQ(dirty.run({{0, i, tokens[static_cast<size_t>(i)]}}, 0).outcome, emulation::Outcome::kFinished);
    EXPECT_EQ(clean.logits(0), dirty.logits(0));
  }
}

// A task that publishes nothing: some wait passes its deadline and says where and for what.
TEST(Megakernel, ASilentTaskIsReported) {
  const auto model = small_model(2, 16);
  Machine<FourWorkers> machine(model, 8);
  const auto result = machine.run({{0, 0, 5}}, 0, 0, 1);  // worker 0's QKV of layer 0
  EXPECT_EQ(result.outcome, emulation::Outcome::kStopped);
  EXPECT_EQ(machine.fault().complete, 1u);
  EXPECT_EQ(machine.fault().what, cuda::kWaitHop);
  EXPECT_EQ(machine.fault().hop_or_barrier, static_cast<int32_t>(Hop::kQkv));
  EXPECT_EQ(machine.fault().role, static_cast<int32_t>(Role::kMessenger));
  EXPECT_EQ(machine.fault().layer, 0);
  EXPECT_EQ(machine.fault().wanted, 1u);
  EXPECT_EQ(machine.fault().seen, 0u);
}

// A long context against the CPU executor on the same seeded pages: several pages a piece, and pages out of the window.
TEST(Megakernel, LongContextEqualsTheCpuExecutor) {
  constexpr int32_t kPosition = 2500, kPages = 48;
  const auto model = small_model(2, 700);
  const ModelConfig& config = model->config();
  Machine<FourWorkers> machine(model, kPages);
  CpuExecutorOptions options;
  options.threads = 1;
  options.context_max = 4096;
  options.pages_full = options.pages_sliding = kPages;
  auto made = make_cpu_executor(model, options);
  ASSERT_TRUE(made.ok());
  const std::unique_ptr<Executor> cpu = std::move(made).value();
  std::vector<PageId> pages;
  Prng prng(4);
  for (int32_t page = 0; page <= kPosition / 64; ++page) {
    const int32_t id = Machine<FourWorkers>::page_of(0, page, kPages);
    pages.push_back(PageId(id));
    for (PagePoolKind pool : {PagePoolKind::kFull, PagePoolKind::kSliding}) {
      std::vector<uint16_t> content;  // [head][K, V][64][128]; one layer a pool
      for (int32_t i = 0; i < config.kv_heads * 2 * 64 * 128; ++i)
        content.push_back(static_cast<uint16_t>((prng.below(2) << 15) | (0x3e00 + prng.below(0x180))));
      for (int32_t head = 0; head < config.kv_heads; ++head)
        for (int32_t value = 0; value < 2; ++value)
          for (int32_t i = 0; i < 64 * 128; ++i)
            machine.kv(pool, id, 0, head, value != 0, i / 128, i % 128) =
                content[static_cast<size_t>((head * 2 + value) * 64 * 128 + i)];
      ASSERT_TRUE(cpu->restore_page(pool, PageId(id), std::as_bytes(std::span(content))).ok());
    }
  }
  SequenceSpec spec;
  spec.sampling.temperature = 0;
  spec.sampling.top_logprobs = config.vocab_size;
  cpu->open_sequence(0, spec);
  const TokenId token = 77;
  StepPlan plan;
  plan.rows.push_back({});
  plan.rows[0].position = kPosition;
  plan.rows[0].tokens = std::span(&token, 1);
  plan.rows[0].full_pages = plan.rows[0].sliding_pages = pages;
  plan.rows[0].logits = LogitsWanted::kLast;
  auto step = cpu->wait(*cpu->submit(plan));
  ASSERT_TRUE(step.ok());
  const auto result = machine.run({{0, kPosition, token}}, 3);
  ASSERT_EQ(result.outcome, emulation::Outcome::kFinished) << result.message;
  const std::vector<float> logits = machine.logits(0);
  const SampledToken wanted = step->rows[0].sampled;
  ASSERT_EQ(wanted.top.size(), static_cast<size_t>(config.vocab_size));
  const SampledToken seen = score_token(logits, wanted.id, config.vocab_size);
  std::vector<float> a(logits.size()), b(logits.size());
  for (const TokenLogprob& entry : wanted.top) a[static_cast<size_t>(entry.id)] = entry.logprob;
  for (const TokenLogprob& entry : seen.top) b[static_cast<size_t>(entry.id)] = entry.logprob;
  EXPECT_LT(distance(b, a), bf16_distance(2));
  EXPECT_EQ(machine.outcome(0).token, wanted.id);
}

}  // namespace
}  // namespace boreas
