// What the CPU executor promises: equal bits whatever the SIMD level, the number of workers and threads, the order of
// tasks, the chunking and the neighbours; and that it really interprets the program: a task dropped or moved is
// noticed.
#include "exec/cpu/cpu_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "exec/cpu/cpu_executor_testing.h"
#include "exec/cpu/kernels.h"
#include "program/compile.h"

namespace boreas {
namespace {

const std::vector<TokenId>& sequence() {
  static const std::vector<TokenId> tokens = random_tokens(11, 150);  // more than two pages, many windows
  return tokens;
}
const std::vector<float>& expected_logits() {
  static const std::vector<float> logits = logits_of(sequence(), 32, small_options());
  return logits;
}

TEST(CpuExecutor, EqualBitsAtEverySimdLevel) {
  for (const char* simd : {"portable", "avx2", "avx512"}) {
    CpuExecutorOptions options = small_options();
    options.simd = simd;
    const cpu::SimdLevel level = std::string(simd) == "avx512" ? cpu::SimdLevel::kAvx512
                                 : std::string(simd) == "avx2" ? cpu::SimdLevel::kAvx2
                                                               : cpu::SimdLevel::kPortable;
    if (!cpu::simd_supported(level)) {
      std::cout << simd << " not on this processor: not compared\n";
      continue;
    }
    EXPECT_EQ(logits_of(sequence(), 32, options), expected_logits()) << simd;
  }
}

TEST(CpuExecutor, EqualBitsForAnyNumberOfWorkersAndThreads) {
  for (int32_t workers : {2, 3, 16, 128}) {
    CpuExecutorOptions options = small_options();
    options.workers = workers;
    options.threads = std::min(workers, 3);
    options.threads_exact = true;
    EXPECT_EQ(logits_of(sequence(), 32, options), expected_logits()) << workers << " workers";
  }
}

TEST(CpuExecutor, EqualBitsForAnyChunking) {
  for (int32_t chunk : {1, 7, 31})
    EXPECT_EQ(logits_of(sequence(), chunk, small_options()), expected_logits()) << "chunks of " << chunk;
}

TEST(CpuExecutor, EqualBitsUnderAdversarialInterleavings) {
  const std::span<const TokenId> part = std::span(sequence()).first(70);
  const std::vector<float> expected(expected_logits().begin(),
                                    expected_logits().begin() + 70 * tiny_model()->config().vocab_size);
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CpuExecutorOptions options = small_options();
    options.workers = seed % 2 == 0 ? 3 : 16;
    options.interleave_seed = seed;
    EXPECT_EQ(logits_of(part, 32, options), expected) << "seed " << seed;
  }
}

// Sequences in one plan, with their own pages; every token sampled at temperature 1 from its own seed.
class Batch {
 public:
  explicit Batch(const CpuExecutorOptions& options) {
    auto made = make_cpu_executor(tiny_model(), options);
    CHECK(made.ok());
    executor_ = std::move(*made);
  }
  void open(int32_t slot, const std::vector<TokenId>& prompt) {
    SequenceSpec spec;
    spec.sampling.seed = static_cast<uint64_t>(slot) + 100;
    spec.sampling.repetition_penalty = 1.1f;
    spec.sampling.top_p = 0.9f;
    spec.prompt = prompt;
    executor_->open_sequence(slot, spec);
    State& state = states_[slot];
    state.prompt = prompt;
    for (int32_t page = 0; page < 8; ++page) state.pages.emplace_back(next_page_++);
  }
  // One plan: `chunk` prompt tokens of every sequence still in its prompt, one decoded token of every other.
  void step(int32_t chunk) {
    StepPlan plan;
    std::vector<int32_t> slots;
    for (auto& [slot, state] : states_) {
      StepRow row;
      row.slot = slot;
      row.position = state.position;
      row.full_pages = row.sliding_pages = state.pages;
      const int32_t left = static_cast<int32_t>(state.prompt.size()) - state.position;
      if (left > 0)
        row.tokens = std::span(state.prompt)
                         .subspan(static_cast<size_t>(state.position), static_cast<size_t>(std::min(left, chunk)));
      row.logits = left > chunk ? LogitsWanted::kNone : LogitsWanted::kLast;
      state.position += left > 0 ? std::min(left, chunk) : 1;
      plan.rows.push_back(row);
      slots.push_back(slot);
    }
    auto ticket = executor_->submit(plan);
    CHECK(ticket.ok());
    auto result = executor_->wait(*ticket);
    CHECK(result.ok());
    for (size_t i = 0; i < slots.size(); ++i)
      if (plan.rows[i].logits == LogitsWanted::kLast) states_[slots[i]].output.push_back(result->rows[i].sampled.id);
  }
  std::vector<TokenId> output(int32_t slot) { return states_[slot].output; }

 private:
  struct State {
    std::vector<TokenId> prompt, output;
    std::vector<PageId> pages;
    int32_t position = 0;
  };
  std::unique_ptr<Executor> executor_;
  std::map<int32_t, State> states_;
  int32_t next_page_ = 0;
};

TEST(CpuExecutor, ARequestIsItselfWhateverItsNeighboursAndItsChunking) {
  std::vector<std::vector<TokenId>> prompts;
  for (int32_t slot = 0; slot < 5; ++slot)
    prompts.push_back(random_tokens(static_cast<uint64_t>(slot), 3 + static_cast<size_t>(slot) * 29));
  Batch together(small_options());
  for (int32_t slot = 0; slot < 5; ++slot) {
    together.open(slot, prompts[static_cast<size_t>(slot)]);
    for (int32_t i = 0; i <= slot; ++i) together.step(13);  // they join at different times
  }
  for (int32_t i = 0; i < 20; ++i) together.step(13);
  for (int32_t slot = 0; slot < 5; ++slot) {
    Batch alone(small_options());
    alone.open(slot, prompts[static_cast<size_t>(slot)]);
    for (int32_t i = 0; i < 20; ++i) alone.step(64);
    std::vector<TokenId> a = alone.output(slot), b = together.output(slot);
    const size_t common = std::min(a.size(), b.size());
    ASSERT_GE(common, 15u);
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + static_cast<long>(common), b.begin())) << "slot " << slot;
  }
}

TEST(CpuExecutor, ManySmallStepsGiveTheSameTokensWithThreads) {
  CpuExecutorOptions threaded = small_options();
  threaded.threads = 4;
  threaded.threads_exact = true;
  Batch a(small_options()), b(threaded);
  for (Batch* batch : {&a, &b}) batch->open(3, random_tokens(5, 20));
  for (int32_t i = 0; i < 100; ++i) {
    a.step(64);
    b.step(64);
  }
  EXPECT_EQ(a.output(3), b.output(3));
}

// The interpreter has no forward pass of its own: take a task out of a proved program, or let it pass its successor,
// and either the logits change or the interpreter reports it. Not one goes unnoticed but moves past a task that it has
// nothing to do with.
TEST(CpuExecutor, ADroppedTaskIsNoticed) {
  const std::vector<TokenId> tokens = random_tokens(3, 40);
  CpuExecutorOptions options = small_options();
  options.workers = 3;
  options.interleave_seed = 1;  // one thread: a stuck program is known at once
  const std::vector<float> expected = logits_of(tokens, 20, options);
  Result<Program> whole = compile(tiny_model()->config(), toy_spec(3), 32);
  ASSERT_TRUE(whole.ok());
  Prng prng(17);
  int32_t changed = 0, reported = 0;
  for (size_t tried = 0; tried < 150; ++tried) {
    const size_t index = prng.below(static_cast<uint32_t>(whole->tasks.size()));
    const Op op = static_cast<Op>(whole->tasks[index].op);
    options.mutate_program = [&](Program& program) { program.tasks[index] = TaskDesc{}; };
    const Result<CpuTrace> trace = trace_cpu_forward(tiny_model(), tokens, 20, options);
    if (!trace.ok()) ++reported;
    else if (trace->logits != expected) ++changed;
    else FAIL() << "nothing happened without task " << index << " (" << op_name(op) << ")";
  }
  std::cout << "dropped tasks: " << changed << " changed the logits, " << reported << " were reported\n";
}

// Whether a forward of 40 tokens, 20 at once and all in piece 0, with one drawn token, leaves the task without work:
// attention and its gather on a worker whose pieces begin later, the second part of inner vectors, all of which fit
// into the first, sampling on all workers but the first, and filtering, which SAMPLE does here.
bool has_no_work(const Program& program, size_t index) {
  const auto list = std::upper_bound(program.list_first.begin(), program.list_first.end(), static_cast<int32_t>(index));
  const int32_t worker = static_cast<int32_t>(list - program.list_first.begin() - 1) / kRoles;
  const TaskDesc& task = program.tasks[index];
  const Op op = static_cast<Op>(task.op);
  if (op == Op::kFilter) return true;
  if (op == Op::kSample) return worker > 0;
  if (op == Op::kGather && static_cast<Slot>(task.args[GatherOp::kSlot]) == Slot::kInner)
    return task.args[GatherOp::kFirstVectors] >= 20 * program.config.experts_per_token;
  if (op == Op::kGather && static_cast<Slot>(task.args[GatherOp::kSlot]) != Slot::kQkv) return false;
  if (op != Op::kGather && op != Op::kAttention) return false;
  for (const TaskDesc& other : program.list(worker, Role::kConsumer))
    if (static_cast<Op>(other.op) == Op::kAttention) return other.args[AttentionOp::kPieceFirst] > 0;
  return false;
}

// The task still signals, so nothing waits in vain; only its work is missing.
TEST(CpuExecutor, ATaskWithoutItsWorkIsNoticed) {
  const std::vector<TokenId> tokens = random_tokens(3, 40);
  CpuExecutorOptions options = small_options();
  options.workers = 3;
  options.interleave_seed = 1;
  const std::vector<float> expected = logits_of(tokens, 20, options);
  Result<Program> whole = compile(tiny_model()->config(), toy_spec(3), 32);
  ASSERT_TRUE(whole.ok());
  Prng prng(19);
  int32_t changed = 0, reported = 0, idle = 0;
  for (size_t tried = 0; tried < 200; ++tried) {
    const size_t index = prng.below(static_cast<uint32_t>(whole->tasks.size()));
    const Op op = static_cast<Op>(whole->tasks[index].op);
    options.mutate_program = [&](Program& program) { program.tasks[index].op = static_cast<int32_t>(Op::kNop); };
    const Result<CpuTrace> trace = trace_cpu_forward(tiny_model(), tokens, 20, options);
    if (!trace.ok()) ++reported;
    else if (trace->logits != expected) ++changed;
    else if (has_no_work(*whole, index)) ++idle;
    else FAIL() << "nothing happened without the work of task " << index << " (" << op_name(op) << ")";
  }
  std::cout << "emptied tasks: " << changed << " changed the logits, " << reported << " were reported, " << idle
            << " had nothing to do\n";
  EXPECT_GT(changed, 100);
}

TEST(CpuExecutor, ATaskThatPassesItsSuccessorIsNoticed) {
  const std::vector<TokenId> tokens = random_tokens(4, 40);
  CpuExecutorOptions options = small_options();
  options.workers = 3;
  options.interleave_seed = 1;
  const std::vector<float> expected = logits_of(tokens, 20, options);
  Result<Program> whole = compile(tiny_model()->config(), toy_spec(3), 32);
  ASSERT_TRUE(whole.ok());
  Prng prng(18);
  int32_t changed = 0, reported = 0, harmless = 0;
  for (size_t tried = 0; tried < 150; ++tried) {
    const size_t index = prng.below(static_cast<uint32_t>(whole->tasks.size() - 1));
    options.mutate_program = [&](Program& program) { std::swap(program.tasks[index], program.tasks[index + 1]); };
    const Result<CpuTrace> trace = trace_cpu_forward(tiny_model(), tokens, 20, options);
    if (!trace.ok()) ++reported;
    else if (trace->logits != expected) ++changed;
    else ++harmless;
  }
  std::cout << "swapped tasks: " << changed << " changed the logits, " << reported << " were reported, " << harmless
            << " made no difference\n";
  EXPECT_GT(changed + reported, harmless);
}

TEST(CpuExecutor, ScoresEveryPromptToken) {
  auto made = make_cpu_executor(tiny_model(), small_options());
  ASSERT_TRUE(made.ok());
  Executor& executor = **made;
  executor.open_sequence(2, {});
  std::vector<PageId> pages{PageId(5), PageId(2), PageId(7)};
  StepRow row;
  row.slot = 2;
  row.tokens = std::span(sequence()).first(100);
  row.full_pages = row.sliding_pages = pages;
  row.logits = LogitsWanted::kAll;
  row.prompt_top_logprobs = 3;
  StepPlan plan;
  plan.rows.push_back(row);
  auto ticket = executor.submit(plan);
  ASSERT_TRUE(ticket.ok());
  auto result = executor.wait(*ticket);
  ASSERT_TRUE(result.ok());
  const size_t vocab = static_cast<size_t>(tiny_model()->config().vocab_size);
  ASSERT_EQ(result->rows[0].prompt_logprobs.size(), 99u);
  for (size_t i = 0; i < 99; ++i) {
    const SampledToken expected =
        score_token(std::span(expected_logits()).subspan(i * vocab, vocab), sequence()[i + 1], 3);
    EXPECT_EQ(result->rows[0].prompt_logprobs[i].logprob, expected.logprob);
    EXPECT_EQ(result->rows[0].prompt_logprobs[i].top.size(), 3u);
  }
  EXPECT_GT(result->bytes_read, 0);
  EXPECT_GT(result->distinct_experts, 0);
}

TEST(CpuExecutor, PagesCanBeSavedRestoredAndCopied) {
  auto made = make_cpu_executor(tiny_model(), small_options());
  ASSERT_TRUE(made.ok());
  Executor& executor = **made;
  for (PagePoolKind pool : {PagePoolKind::kFull, PagePoolKind::kSliding}) {
    const size_t bytes = static_cast<size_t>(pool == PagePoolKind::kFull ? executor.info().page_bytes_full
                                                                         : executor.info().page_bytes_sliding);
    std::vector<std::byte> written(bytes), read(bytes);
    for (size_t i = 0; i < bytes; ++i) written[i] = static_cast<std::byte>(i * 7 + 3);
    ASSERT_TRUE(executor.restore_page(pool, PageId(3), written).ok());
    ASSERT_TRUE(executor.copy_page(pool, PageId(3), PageId(4)).ok());
    ASSERT_TRUE(executor.save_page(pool, PageId(4), read).ok());
    EXPECT_EQ(read, written);
  }
}

TEST(CpuExecutor, RefusesWhatItCannotDo) {
  CpuExecutorOptions options = small_options();
  options.simd = "sse9";
  EXPECT_FALSE(make_cpu_executor(tiny_model(), options).ok());
  options = small_options();
  options.kv_bytes = 1000;
  const auto made = make_cpu_executor(tiny_model(), options);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("too small"), std::string::npos);
}

}  // namespace
}  // namespace boreas
