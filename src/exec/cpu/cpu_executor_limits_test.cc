// The CPU executor under what it does not expect: broken weights, programs that cannot go on, plans at their limits,
// more threads than work, several executors at once, and plans that break the contract.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <thread>

#include "exec/cpu/cpu_executor_testing.h"
#include "program/compile.h"

namespace boreas {
namespace {

std::vector<PageId> pages_from(int32_t first, int32_t count) {
  std::vector<PageId> pages;
  for (int32_t i = 0; i < count; ++i) pages.emplace_back(first + i);
  return pages;
}

StepRow row_of(int32_t slot, int32_t position, std::span<const TokenId> tokens, std::span<const PageId> pages,
               LogitsWanted logits) {
  StepRow row;
  row.slot = slot;
  row.position = position;
  row.tokens = tokens;
  row.full_pages = row.sliding_pages = pages;
  row.logits = logits;
  return row;
}

StepPlan plan_of(std::vector<StepRow> rows) {
  StepPlan plan;
  plan.rows = std::move(rows);
  return plan;
}

TEST(CpuExecutorLimits, AModelWithoutWeightsOnTheHost) {
  const auto model = make_dummy_model(tiny_model()->config(), {}, DummyValues::kMadeByExecutor);
  ASSERT_TRUE(model.ok());
  const auto executor = make_cpu_executor(*model, {});
  ASSERT_FALSE(executor.ok());
  EXPECT_NE(executor.error().message.find("no weights on the host"), std::string::npos);
}

// ---- broken weights
// A model of its own, one weight of which is `value`: dummy weights lie in memory that the model owns, so a test may
// break it.
std::shared_ptr<const Model> broken_model(WeightRole role, int32_t layer, float value) {
  Result<std::shared_ptr<const Model>> made = make_dummy_model(tiny_model()->config());
  CHECK(made.ok());
  const ModelConfig& config = (*made)->config();
  const bool of_expert =
      role == WeightRole::kExpertGate || role == WeightRole::kExpertUp || role == WeightRole::kExpertDown;
  for (int32_t expert = 0; expert < (of_expert ? config.experts : 1); ++expert) {  // whichever are hit
    const TensorView& view = (*made)->weights().at(role, layer, expert);
    const_cast<bf16*>(view.bf16_row(view.rows / 2))[view.cols / 3] = float_to_bf16(value);
  }
  return *made;
}

const std::vector<std::pair<WeightRole, int32_t>>& breakable() {
  static const std::vector<std::pair<WeightRole, int32_t>> roles{
      {WeightRole::kEmbedding, 0}, {WeightRole::kFinalNorm, 0},  {WeightRole::kInputNorm, 2},
      {WeightRole::kQuery, 1},     {WeightRole::kKey, 2},        {WeightRole::kValue, 4},
      {WeightRole::kOutput, 3},    {WeightRole::kRouter, 4},     {WeightRole::kExpertGate, 1},
      {WeightRole::kExpertUp, 2},  {WeightRole::kExpertDown, 4}, {WeightRole::kDenseGate, 0},
      {WeightRole::kDenseUp, 0},   {WeightRole::kDenseDown, 0},
  };
  return roles;
}

SampledToken first_token(std::shared_ptr<const Model> model, const SamplingParams& sampling, TokenId forced,
                         const char* simd = nullptr) {
  CpuExecutorOptions options = small_options();
  options.workers = 3;
  options.simd = simd;
  const std::unique_ptr<Executor> executor = make_executor(std::move(model), options);
  SequenceSpec spec;
  spec.sampling = sampling;
  executor->open_sequence(0, spec);
  const std::vector<TokenId> tokens = random_tokens(7, 70);
  const std::vector<PageId> pages = pages_from(0, 2);
  StepPlan plan = plan_of({row_of(0, 0, tokens, pages, LogitsWanted::kLast)});
  plan.rows[0].forced_token = forced;
  const Result<StepResult> result = run_plan(*executor, plan);
  CHECK(result.ok());
  return result->rows[0].sampled;
}

TEST(CpuExecutorLimits, ANanAnywhereInTheWeightsIsReportedAsCorrupted) {
  for (const auto& [role, layer] : breakable()) {
    const auto model = broken_model(role, layer, std::numeric_limits<float>::quiet_NaN());
    const std::string name = published_tensor_name(role, layer, 0);
    for (const float temperature : {0.0f, 1.0f}) {
      SamplingParams sampling;
      sampling.temperature = temperature;
      const SampledToken token = first_token(model, sampling, -1);
      EXPECT_TRUE(token.corrupted) << name;
      EXPECT_EQ(token.id, -1) << name;
    }
    EXPECT_TRUE(first_token(model, {}, 5).corrupted) << name << ", forced token";
    EXPECT_TRUE(first_token(model, {}, -1, "portable").corrupted) << name << ", portable";
  }
}

// Infinity may cancel out (a score of -infinity is a key that nobody looks at): all that is promised is an end.
TEST(CpuExecutorLimits, AnInfinityInTheWeightsEndsTheStepAllTheSame) {
  int32_t corrupted = 0, cases = 0;
  for (const auto& [role, layer] : breakable()) {
    for (const float sign : {-1.0f, 1.0f}) {
      const SampledToken token =
          first_token(broken_model(role, layer, sign * std::numeric_limits<float>::infinity()), {}, -1);
      EXPECT_TRUE(token.corrupted || token.id >= 0);
      corrupted += token.corrupted;
      ++cases;
    }
  }
  std::cout << corrupted << " of " << cases << " infinities made the logits infinite or NaN\n";
  EXPECT_GT(corrupted, cases / 2);
}

// ---- programs that cannot go on
// With threads, every list waits on other threads' words; that nothing will come is known at once and stays so.
TEST(CpuExecutorLimits, AStuckProgramIsAnErrorNowAndLater) {
  Result<Program> whole = compile(tiny_model()->config(), toy_spec(4), 32);
  ASSERT_TRUE(whole.ok());
  Prng prng(23);
  int32_t stuck = 0;
  for (int32_t tried = 0; tried < 30; ++tried) {
    CpuExecutorOptions options = small_options();
    options.workers = 4;
    options.threads = 1 + tried % 4;
    options.threads_exact = true;
    const size_t index = prng.below(static_cast<uint32_t>(whole->tasks.size()));
    options.mutate_program = [&](Program& program) { program.tasks[index] = TaskDesc{}; };
    const std::unique_ptr<Executor> executor = make_executor(tiny_model(), options);
    executor->open_sequence(0, {});
    const std::vector<TokenId> tokens = random_tokens(5, 20);
    const std::vector<PageId> pages = pages_from(0, 1);
    const StepPlan plan = plan_of({row_of(0, 0, tokens, pages, LogitsWanted::kLast)});
    if (run_plan(*executor, plan).ok()) continue;  // what it computed is wrong, but it ended
    ++stuck;
    for (int32_t again = 0; again < 3; ++again) {
      const Result<StepTicket> ticket = executor->submit(plan);
      ASSERT_FALSE(ticket.ok());
      EXPECT_NE(ticket.error().message.find("worker"), std::string::npos) << ticket.error().message;
    }
  }
  std::cout << stuck << " of 30 dropped tasks stopped the program\n";
  EXPECT_GT(stuck, 5);
}

// All lists end, but SAMPLE has done nothing: found out after the step, and no step is computed any more.
TEST(CpuExecutorLimits, AStepWithoutItsTokenIsAnErrorNowAndLater) {
  CpuExecutorOptions options = small_options();
  options.mutate_program = [](Program& program) {
    for (TaskDesc& task : program.tasks)
      if (static_cast<Op>(task.op) == Op::kSample) task.op = static_cast<int32_t>(Op::kNop);
  };
  const std::unique_ptr<Executor> executor = make_executor(tiny_model(), options);
  executor->open_sequence(0, {});
  const std::vector<TokenId> tokens = random_tokens(5, 20);
  const std::vector<PageId> pages = pages_from(0, 1);
  StepPlan plan = plan_of({row_of(0, 0, tokens, pages, LogitsWanted::kLast)});
  for (LogitsWanted wanted : {LogitsWanted::kLast, LogitsWanted::kNone}) {
    plan.rows[0].logits = wanted;
    const Result<StepTicket> ticket = executor->submit(plan);
    ASSERT_FALSE(ticket.ok());
    EXPECT_NE(ticket.error().message.find("no worker drew"), std::string::npos) << ticket.error().message;
  }
}

// ---- plans at their limits
struct Scored {
  std::vector<SampledToken> sampled;
  std::vector<SampledToken> prompt;
};

// One scored prompt between two other rows, cut into blocks of `block_rows`.
Scored score(int32_t block_rows, bool alone) {
  CpuExecutorOptions options = small_options();
  options.block_rows = block_rows;
  options.workers = 3;
  const std::unique_ptr<Executor> executor = make_executor(tiny_model(), options);
  const std::vector<TokenId> before = random_tokens(1, 9), scored = random_tokens(2, 100), after = random_tokens(3, 21);
  const std::vector<PageId> pages[] = {pages_from(0, 1), pages_from(3, 2), pages_from(7, 1)};
  StepPlan plan;
  if (!alone) plan.rows.push_back(row_of(1, 0, before, pages[0], LogitsWanted::kLast));
  plan.rows.push_back(row_of(4, 0, scored, pages[1], LogitsWanted::kAll));
  plan.rows.back().prompt_top_logprobs = 2;
  if (!alone) plan.rows.push_back(row_of(2, 0, after, pages[2], LogitsWanted::kLast));
  for (const StepRow& row : plan.rows) executor->open_sequence(row.slot, {});
  Result<StepResult> result = run_plan(*executor, plan);
  CHECK(result.ok());
  Scored out;
  for (RowResult& row : result->rows) {
    out.sampled.push_back(row.sampled);
    if (!row.prompt_logprobs.empty()) out.prompt = row.prompt_logprobs;
  }
  return out;
}

TEST(CpuExecutorLimits, AScoredPromptMaySpanBlocksAndShareThem) {
  const Scored alone = score(64, true);
  ASSERT_EQ(alone.prompt.size(), 99u);
  std::vector<SampledToken> sampled;
  for (int32_t block_rows : {1, 2, 7, 32, 130, 4096}) {
    const Scored together = score(block_rows, false);
    ASSERT_EQ(together.prompt.size(), 99u) << block_rows;
    for (size_t i = 0; i < 99; ++i) {
      ASSERT_EQ(together.prompt[i].logprob, alone.prompt[i].logprob) << block_rows << " token " << i;
      ASSERT_EQ(together.prompt[i].top.size(), 2u);
      ASSERT_EQ(together.prompt[i].top[1].id, alone.prompt[i].top[1].id);
    }
    ASSERT_EQ(together.sampled.size(), 3u);
    EXPECT_EQ(together.sampled[1].id, alone.sampled[0].id) << block_rows;
    if (sampled.empty()) sampled = together.sampled;
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(together.sampled[i].id, sampled[i].id) << block_rows;
  }
}

// Pages that left the window are given back, and overwritten by others: the row must not look at them.
std::vector<TokenId> decode_with_window(bool give_back) {
  const std::unique_ptr<Executor> executor = make_executor(tiny_model(), small_options());
  SequenceSpec spec;
  spec.sampling.seed = 9;
  executor->open_sequence(0, spec);
  const std::vector<TokenId> prompt = random_tokens(13, 120);
  const std::vector<PageId> full = pages_from(0, 4), sliding = pages_from(10, 4);
  const int32_t window = tiny_model()->config().window;
  const std::vector<std::byte> junk(static_cast<size_t>(executor->info().page_bytes_sliding), std::byte{0xff});  // NaN
  std::vector<TokenId> out;
  int32_t position = 0;
  for (int32_t step = 0; step < 90; ++step) {
    StepRow row = row_of(0, position, {}, full, LogitsWanted::kLast);
    row.sliding_pages = sliding;
    if (step == 0) row.tokens = prompt;
    if (give_back) {
      row.sliding_first = first_visible(position, true, window) / kPagePositions;
      row.sliding_pages = row.sliding_pages.subspan(static_cast<size_t>(row.sliding_first));
      for (int32_t page = 0; page < row.sliding_first; ++page)
        CHECK(executor->restore_page(PagePoolKind::kSliding, sliding[static_cast<size_t>(page)], junk).ok());
    }
    const Result<StepResult> result = run_plan(*executor, plan_of({row}));
    CHECK(result.ok());
    out.push_back(result->rows[0].sampled.id);
    position += step == 0 ? static_cast<int32_t>(prompt.size()) : 1;
  }
  return out;
}

TEST(CpuExecutorLimits, PagesThatLeftTheWindowAreNotLookedAt) {
  EXPECT_EQ(decode_with_window(true), decode_with_window(false));
}

// ---- threads
std::vector<TokenId> decode_on(Executor& executor, int32_t steps, std::chrono::milliseconds pause) {
  executor.open_sequence(3, {});
  const std::vector<TokenId> prompt = random_tokens(17, 30);
  const std::vector<PageId> pages = pages_from(0, 4);
  StepRow row = row_of(3, 0, prompt, pages, LogitsWanted::kLast);
  std::vector<TokenId> out;
  for (int32_t step = 0; step < steps; ++step) {
    std::this_thread::sleep_for(pause);
    const Result<StepResult> result = run_plan(executor, plan_of({row}));
    CHECK(result.ok());
    out.push_back(result->rows[0].sampled.id);
    row.position += row.tokens.empty() ? 1 : static_cast<int32_t>(row.tokens.size());
    row.tokens = {};
  }
  executor.close_sequence(3);
  return out;
}

std::vector<TokenId> decode(int32_t threads, int32_t workers, std::optional<uint64_t> interleave_seed, int32_t steps) {
  CpuExecutorOptions options = small_options();
  options.threads = threads;
  options.threads_exact = true;
  options.workers = workers;
  options.interleave_seed = interleave_seed;
  return decode_on(*make_executor(tiny_model(), options), steps, std::chrono::milliseconds(0));
}

TEST(CpuExecutorLimits, MoreThreadsThanWorkersOrProcessors) {
  const std::vector<TokenId> expected = decode(1, 1, {}, 40);
  EXPECT_EQ(decode(8, 3, {}, 40), expected);
  EXPECT_EQ(decode(8, 1, {}, 40), expected);
  EXPECT_EQ(decode(12, 0, {}, 40), expected);
  EXPECT_EQ(decode(4, 16, 5, 40), expected);  // interleaved: one thread whatever was asked for
  CpuExecutorOptions options = small_options();
  options.threads = 8;
  options.threads_exact = true;
  options.workers = 3;
  EXPECT_EQ(make_executor(tiny_model(), options)->info().device.rfind("3 threads, ", 0), 0u);
}

TEST(CpuExecutorLimits, NoMoreThreadsThanProcessorsAndItIsSaid) {
  const int32_t usable = cpu_threads(0);
  EXPECT_EQ(cpu_threads(1), 1);
  EXPECT_EQ(cpu_threads(usable), usable);
  EXPECT_EQ(cpu_threads(1024), std::min(usable, 1024));
  CpuExecutorOptions options = small_options();
  options.threads = usable + 1;
  const std::string device = make_executor(tiny_model(), options)->info().device;
  EXPECT_EQ(device.rfind(std::to_string(usable) + " threads (not " + std::to_string(usable + 1) +
                             ": this process may use " + std::to_string(usable) + " processor",
                         0),
            0u)
      << device;
  options.threads = usable;
  const std::string as_asked = make_executor(tiny_model(), options)->info().device;
  EXPECT_EQ(as_asked.find("not"), std::string::npos) << as_asked;
}

// Threads that come late, sleep or run other threads' workers: steps without a pause, with pauses, and both at once.
TEST(CpuExecutorLimits, ThreadsSleepBetweenStepsAndWithin) {
  const std::vector<TokenId> expected = decode(1, 1, {}, 12);
  CpuExecutorOptions options = small_options();
  options.threads = 6;
  options.threads_exact = true;
  options.workers = 9;
  const std::unique_ptr<Executor> executor = make_executor(tiny_model(), options);
  for (int32_t round = 0; round < 20; ++round) {
    const auto pause = std::chrono::milliseconds(round % 4 == 3 ? 3 : 0);  // longer than a thread looks for work
    EXPECT_EQ(decode_on(*executor, 12, pause), expected) << round;
  }
}

TEST(CpuExecutorLimits, SeveralExecutorsAtOnce) {
  const std::vector<TokenId> expected = decode(1, 1, {}, 30);
  std::vector<std::vector<TokenId>> outputs(5);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < outputs.size(); ++i)
    threads.emplace_back([&outputs, i] { outputs[i] = decode(2, static_cast<int32_t>(2 + i), {}, 30); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<TokenId>& output : outputs) EXPECT_EQ(output, expected);
}

// ---- options and plans that break the contract
TEST(CpuExecutorLimits, OptionsOutOfRangeAreErrorsThatNameThem) {
  const auto message = [](auto&& change) {
    CpuExecutorOptions options = small_options();
    change(options);
    const auto made = make_cpu_executor(tiny_model(), options);
    return made.ok() ? std::string("accepted") : made.error().message;
  };
  EXPECT_EQ(message([](CpuExecutorOptions& o) { o.threads = -1; }), "threads is -1, expected 0 to 1024");
  EXPECT_EQ(message([](CpuExecutorOptions& o) { o.threads = 1000000; }), "threads is 1000000, expected 0 to 1024");
  EXPECT_EQ(message([](CpuExecutorOptions& o) { o.block_rows = 0; }), "block_rows is 0, expected 1 to 4096");
  EXPECT_EQ(message([](CpuExecutorOptions& o) { o.sequence_slots = 0; }), "sequence_slots is 0, expected 1 to 65536");
  EXPECT_NE(message([](CpuExecutorOptions& o) { o.pages_full = 5; }).find("too small"), std::string::npos);
  EXPECT_NE(message([](CpuExecutorOptions& o) { o.kv_bytes = -1; }).find("kv_bytes"), std::string::npos);
  EXPECT_EQ(message([](CpuExecutorOptions& o) { o.kv_bytes = int64_t{1} << 24; }), "accepted");
}

TEST(CpuExecutorLimits, APlanThatBreaksTheContractIsABug) {
  const std::unique_ptr<Executor> executor = make_executor(tiny_model(), small_options());
  executor->open_sequence(0, {});
  executor->open_sequence(1, {});
  const std::vector<TokenId> tokens = random_tokens(1, 70), outside{512};
  const std::vector<PageId> pages = pages_from(0, 2), foreign{PageId(0), PageId(executor->info().pages_full)};
  const StepRow good = row_of(0, 0, tokens, pages, LogitsWanted::kLast);
  const auto submit = [&](auto&& change) {
    StepRow row = good;
    change(row);
    (void)executor->submit(plan_of({row}));
  };
  EXPECT_DEATH((void)executor->submit(StepPlan{}), "rows.empty");
  EXPECT_DEATH((void)executor->submit(plan_of({good, good})), "used");
  EXPECT_DEATH(submit([](StepRow& row) { row.slot = 2; }), "open");
  EXPECT_DEATH(submit([](StepRow& row) { row.slot = -1; }), "slot");
  EXPECT_DEATH(submit([&](StepRow& row) { row.tokens = outside; }), "token");
  EXPECT_DEATH(submit([](StepRow& row) { row.tokens = {}; }), "has_token");  // nothing was sampled yet
  EXPECT_DEATH(submit([](StepRow& row) { row.forced_token = 512; }), "forced_token");
  EXPECT_DEATH(submit([](StepRow& row) { row.mask = std::make_shared<TokenMask>(); }), "mask");
  EXPECT_DEATH(submit([](StepRow& row) { row.position = -1; }), "position");
  EXPECT_DEATH(submit([](StepRow& row) { row.position = INT32_MAX; }), "context_max");
  EXPECT_DEATH(submit([](StepRow& row) { row.full_pages = row.full_pages.first(1); }), "full_pages");
  EXPECT_DEATH(submit([&](StepRow& row) { row.full_pages = foreign; }), "page.value");
  EXPECT_DEATH(submit([&](StepRow& row) { row.sliding_pages = foreign; }), "page.value");
  EXPECT_DEATH(submit([](StepRow& row) { row.sliding_first = -1; }), "sliding_first");
  EXPECT_DEATH(submit([](StepRow& row) { row.sliding_first = 1; }), "sliding_first");
  EXPECT_DEATH(executor->open_sequence(0, {}), "open");
  EXPECT_DEATH(executor->open_sequence(8, {}), "slot");
  EXPECT_TRUE(run_plan(*executor, plan_of({good})).ok());
}

}  // namespace
}  // namespace boreas
