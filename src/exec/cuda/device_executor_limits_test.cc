// The executor when something is wrong or runs out: faults of the device, missing and corrupted outcomes, epochs at
// their end, too little memory, options out of range; and the pages' way to the host and back.
#include <gtest/gtest.h>

#include "exec/cuda/deadlines.h"
#include "exec/cuda/fault.h"
#include "exec/cuda/made_up_kernel_testing.h"

namespace boreas::cuda {
namespace {

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

const std::vector<PageId>& some_pages() {
  static const std::vector<PageId> pages{PageId(7), PageId(3)};
  return pages;
}

StepPlan one_row(int32_t slot, int32_t position, std::span<const TokenId> tokens) {
  StepPlan plan;
  plan.rows.resize(1);
  plan.rows[0].slot = slot;
  plan.rows[0].position = position;
  plan.rows[0].tokens = tokens;
  plan.rows[0].full_pages = plan.rows[0].sliding_pages = some_pages();
  plan.rows[0].logits = LogitsWanted::kLast;
  return plan;
}

Result<StepResult> run(Executor& executor, const StepPlan& plan) {
  ASSIGN_OR_RETURN(const StepTicket ticket, executor.submit(plan));
  return executor.wait(ticket);
}

FaultRecord some_fault() {
  FaultRecord fault{};
  fault.claimed = fault.complete = 1;
  fault.worker = 77;
  fault.role = static_cast<int32_t>(Role::kMessenger);
  fault.warp = 9;
  fault.task = 123;
  fault.op = static_cast<int32_t>(Op::kGather);
  fault.layer = 17;
  fault.what = kWaitHop;
  fault.hop_or_barrier = static_cast<int32_t>(Hop::kInner);
  fault.wanted = 4000;
  fault.seen = 3951;
  return fault;
}

TEST(Fault, SaysWhoWaitedForWhat) {
  FaultRecord fault = some_fault();
  EXPECT_EQ(
      describe(fault),
      "worker 77, messenger (warp 9), task 123 (gather, layer 17) waited too long for hop inner: wanted 4000, seen "
      "3951");
  fault.what = kWaitBarrier;
  fault.hop_or_barrier = static_cast<int32_t>(Slot::kNormed);
  EXPECT_NE(describe(fault).find("barrier 0 (slot normed)"), std::string::npos);
  fault.what = kWaitChunkFull;
  fault.hop_or_barrier = 4711;  // no stage: the chunk's number
  EXPECT_NE(describe(fault).find("chunk 4711 of the stream to land"), std::string::npos);
  fault.what = kWaitChunkEmpty;
  EXPECT_NE(describe(fault).find("room in the ring for chunk 4711"), std::string::npos);
  fault.what = kWaitCredit;
  EXPECT_NE(describe(fault).find("credit"), std::string::npos);
  fault.complete = 0;
  EXPECT_EQ(describe(fault), "an incomplete fault record");
  fault = some_fault();  // what a broken kernel might leave
  fault.role = fault.op = fault.what = fault.hop_or_barrier = -5;
  EXPECT_NE(describe(fault).find("role -5"), std::string::npos);
  fault.role = fault.op = fault.what = fault.hop_or_barrier = 1 << 30;
  EXPECT_NE(describe(fault).find("wanted 4000"), std::string::npos);
}

TEST(DeviceExecutorLimits, AFaultIsAnErrorNowAndLater) {
  MadeUp setup;
  setup.kernel->fault = some_fault();
  setup.kernel->fault_launch = 2;
  const std::unique_ptr<Executor> executor = setup.make().value();
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt{1, 2, 3};
  ASSERT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
  const Result<StepTicket> good = executor->submit(one_row(0, 3, {}));
  const Result<StepTicket> bad = executor->submit(one_row(0, 4, {}));
  ASSERT_TRUE(good.ok() && bad.ok());
  EXPECT_TRUE(executor->wait(*good).ok());
  const Result<StepResult> result = executor->wait(*bad);
  ASSERT_FALSE(result.ok());
  for (const char* part : {"worker 77", "messenger", "task 123", "gather", "layer 17", "hop inner", "4000", "3951",
                           "unspecified launch failure"})
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  const Result<StepTicket> later = executor->submit(one_row(0, 5, {}));
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().message, result.error().message);
  std::vector<std::byte> page(static_cast<size_t>(executor->info().page_bytes_full));
  EXPECT_FALSE(executor->save_page(PagePoolKind::kFull, PageId(0), page).ok());
}

TEST(DeviceExecutorLimits, BothPlansInFlightFailWithTheFirstFault) {
  MadeUp setup;
  setup.kernel->fault = some_fault();
  setup.kernel->fault_launch = 1;
  const std::unique_ptr<Executor> executor = setup.make().value();
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt{1, 2, 3};
  ASSERT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
  const Result<StepTicket> first = executor->submit(one_row(0, 3, {}));
  const Result<StepTicket> second = executor->submit(one_row(0, 4, {}));
  ASSERT_TRUE(first.ok() && second.ok());
  const Result<StepResult> one = executor->wait(*first), two = executor->wait(*second);
  ASSERT_FALSE(one.ok() || two.ok());
  EXPECT_EQ(one.error().message, two.error().message);
}

// Whoever waits has the launch's deadlines, and a kernel that none of its own waits ends is given up by the host.
TEST(DeviceExecutorLimits, AHungDeviceIsGivenUp) {
  for (const double scale : {1.0, 30.0}) {
    MadeUp setup;
    setup.options.deadline_scale = scale;
    const std::unique_ptr<Executor> executor = setup.make().value();
    executor->open_sequence(0, {greedy(), {}, {}});
    const std::vector<TokenId> prompt{1, 2, 3};
    ASSERT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
    EXPECT_EQ(setup.log->last_params.deadline, static_cast<uint32_t>(scale * 0.1 * 2e9 / 1024));
    ASSERT_EQ(setup.log->wait_limits.size(), 1U);
    EXPECT_NEAR(static_cast<double>(setup.log->wait_limits[0].count()), scale * 0.5e9, 1.0);
    const Result<StepTicket> first = executor->submit(one_row(0, 3, {}));
    const Result<StepTicket> second = executor->submit(one_row(0, 4, {}));
    ASSERT_TRUE(first.ok() && second.ok());
    setup.log->hangs = true;
    const Result<StepResult> one = executor->wait(*first), two = executor->wait(*second);
    ASSERT_FALSE(one.ok() || two.ok());
    const std::string expected = "did not finish its work within " + std::string(scale == 1 ? "500" : "15000") + " ms";
    EXPECT_NE(one.error().message.find(expected), std::string::npos) << one.error().message;
    EXPECT_EQ(two.error().message, one.error().message);
    EXPECT_EQ(setup.log->wait_limits.size(), 2U);  // the second is not waited for
    EXPECT_FALSE(executor->submit(one_row(0, 5, {})).ok());
  }
}

// A page that goes to the host waits for all that is in flight, as long as all of that may take.
TEST(DeviceExecutorLimits, AHungDeviceIsGivenUpByCopiesToo) {
  MadeUp setup;
  const std::unique_ptr<Executor> executor = setup.make().value();
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt{1, 2, 3};
  ASSERT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
  ASSERT_TRUE(executor->submit(one_row(0, 3, {})).ok() && executor->submit(one_row(0, 4, {})).ok());
  setup.log->hangs = true;
  std::vector<std::byte> page(static_cast<size_t>(executor->info().page_bytes_full));
  const Status saved = executor->save_page(PagePoolKind::kFull, PageId(0), page);
  ASSERT_FALSE(saved.ok());
  EXPECT_NE(saved.error().message.find("within 1000 ms"), std::string::npos) << saved.error().message;
}

TEST(DeviceExecutorLimits, RandomPausesAreGivenMoreTime) {
  MadeUp setup;
  setup.options.delay_seed = 5;
  const std::unique_ptr<Executor> executor = setup.make().value();
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt{1, 2, 3};
  ASSERT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
  EXPECT_EQ(setup.log->last_params.deadline, static_cast<uint32_t>(2e9 / 1024));
}

TEST(DeviceExecutorLimits, ALostDeviceIsAnErrorOfWhateverCallComesFirst) {
  MadeUp setup;
  const std::unique_ptr<Executor> executor = setup.make().value();
  setup.log->fault = "GPU has fallen off the bus";
  std::vector<std::byte> page(static_cast<size_t>(executor->info().page_bytes_sliding));
  ASSERT_TRUE(executor->restore_page(PagePoolKind::kSliding, PageId(1), page).ok());  // only enqueued
  const Status saved = executor->save_page(PagePoolKind::kSliding, PageId(1), page);
  ASSERT_FALSE(saved.ok());
  EXPECT_NE(saved.error().message.find("fallen off"), std::string::npos);
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt{1, 2, 3};
  EXPECT_FALSE(executor->submit(one_row(0, 0, prompt)).ok());
}

TEST(DeviceExecutorLimits, AStepWithoutItsTokenIsAnError) {
  MadeUp setup;
  setup.kernel->mute_launch = 1;
  const std::unique_ptr<Executor> executor = setup.make().value();
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt{1, 2, 3};
  ASSERT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
  const Result<StepResult> mute = run(*executor, one_row(0, 3, {}));
  ASSERT_FALSE(mute.ok());
  EXPECT_NE(mute.error().message.find("without a token"), std::string::npos) << mute.error().message;
  EXPECT_FALSE(executor->submit(one_row(0, 4, {})).ok());
}

TEST(DeviceExecutorLimits, ACorruptedRowIsReportedAndItsFollowersDoNoHarm) {
  for (const bool on_host : {false, true}) {
    MadeUp setup;
    setup.kernel->corrupt_launch = 0;
    const std::unique_ptr<Executor> executor = setup.make().value();
    SamplingParams params = greedy();
    if (on_host) params.frequency_penalty = 1;
    executor->open_sequence(0, {params, {}, {}});
    const std::vector<TokenId> prompt{1, 2, 3};
    const Result<StepTicket> first = executor->submit(one_row(0, 0, prompt));
    const Result<StepTicket> second = executor->submit(one_row(0, 3, {}));
    ASSERT_TRUE(first.ok() && second.ok());
    const Result<StepResult> result = executor->wait(*first);
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(result->rows[0].sampled.corrupted);
    EXPECT_EQ(result->rows[0].sampled.id, -1);
    EXPECT_TRUE(executor->wait(*second).ok());
    executor->close_sequence(0);
    executor->open_sequence(0, {params, {}, {}});
    EXPECT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
  }
}

TEST(DeviceExecutorLimits, ASlotMayBeReusedWhileItsRowsAreInFlight) {
  MadeUp setup;
  const std::unique_ptr<Executor> executor = setup.make().value();
  SamplingParams params = greedy();
  params.repetition_penalty = 2;
  executor->open_sequence(0, {params, {}, {}});
  const std::vector<TokenId> prompt{1, 2, 3}, other{9, 8, 7, 6};
  const Result<StepTicket> first = executor->submit(one_row(0, 0, prompt));
  executor->close_sequence(0);
  executor->open_sequence(0, {greedy(), {}, {}});
  const Result<StepTicket> second = executor->submit(one_row(0, 0, other));
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(executor->wait(*first).ok());
  const Result<StepResult> result = executor->wait(*second);
  ASSERT_TRUE(result.ok());
  const std::vector<float> logits = expected_logits(other, setup.model->config());
  EXPECT_EQ(result->rows[0].sampled.id, std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The kernel checks that no word of a later epoch is left when the counter starts over.
TEST(DeviceExecutorLimits, EpochsStartOverBeforeTheyOverflow) {
  MadeUp setup;
  StepParams params{};
  {
    const std::unique_ptr<Executor> executor = setup.make().value();
    executor->open_sequence(0, {greedy(), {}, {}});
    const std::vector<TokenId> prompt{1, 2};
    ASSERT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
    params = setup.log->last_params;
  }
  const uint32_t uses = *std::max_element(params.hop_uses, params.hop_uses + kHops);
  const uint32_t last = static_cast<uint32_t>(ceil_div(int64_t{1} << 31, uses)) - 2;  // (last + 1) * uses < 2^31
  setup.options.first_step = last - 3;
  setup.kernel = std::make_shared<MadeUpKernel>(setup.model->config());
  setup.log = std::make_shared<HostDeviceLog>();
  const std::unique_ptr<Executor> executor = setup.make().value();
  const int64_t fills = setup.log->fills;
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt{1, 2};
  ASSERT_TRUE(run(*executor, one_row(0, 0, prompt)).ok());
  std::vector<TokenId> text = prompt;
  for (int32_t position = 2; position < 12; ++position) {
    const Result<StepResult> result = run(*executor, one_row(0, position, {}));
    ASSERT_TRUE(result.ok()) << result.error().message;
  }
  EXPECT_EQ(setup.log->fills, fills + 1);
  EXPECT_EQ(*std::max_element(setup.kernel->steps.begin(), setup.kernel->steps.end()), last);
  EXPECT_EQ(setup.kernel->steps.back(), 11 - 4 - 1u);  // of eleven, four came before
  for (uint32_t step : setup.kernel->steps) EXPECT_LT((uint64_t{step} + 1) * uses, uint64_t{1} << 31);
}

TEST(DeviceExecutorLimits, PagesToTheHostAndBack) {
  MadeUp setup;
  const std::unique_ptr<Executor> executor = setup.make().value();
  const int64_t bytes = executor->info().page_bytes_full;
  EXPECT_EQ(bytes, 3 * 2 * kKvPageHeadBytes);
  std::vector<std::byte> in(static_cast<size_t>(bytes)), out(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(executor->restore_page(PagePoolKind::kFull, PageId(5), in).ok());
  ASSERT_TRUE(executor->copy_page(PagePoolKind::kFull, PageId(5), PageId(95)).ok());
  ASSERT_TRUE(executor->copy_page(PagePoolKind::kFull, PageId(5), PageId(5)).ok());
  ASSERT_TRUE(executor->save_page(PagePoolKind::kFull, PageId(95), out).ok());
  EXPECT_EQ(in, out);
  ASSERT_TRUE(executor->save_page(PagePoolKind::kFull, PageId(94), out).ok());
  EXPECT_EQ(out, std::vector<std::byte>(in.size()));
}

TEST(DeviceExecutorLimits, InfoAndPagesFromMemory) {
  MadeUp setup;
  setup.options.pages_full = setup.options.pages_sliding = 0;
  setup.options.sequence_slots = 4;
  setup.device.memory_bytes = int64_t{128} << 20;
  const std::unique_ptr<Executor> executor = setup.make().value();
  const ExecutorInfo& info = executor->info();
  EXPECT_EQ(info.name, "cuda");
  EXPECT_EQ(info.device, "host memory");
  EXPECT_EQ(info.steps_in_flight_max, 2);
  EXPECT_TRUE(info.one_arithmetic);
  EXPECT_EQ(info.window, setup.model->config().window);
  EXPECT_EQ(info.context_max, 2048);
  EXPECT_EQ(info.pages_full, 4 * 2048 / kPagePositions);  // all that the slots can use
  EXPECT_EQ(info.pages_sliding, 4 * 32);                  // windows and a plan's chunks, but no more than contexts
  setup.device.memory_bytes = int64_t{40} << 20;
  const Result<std::unique_ptr<Executor>> small = setup.make();
  ASSERT_TRUE(small.ok()) << small.error().message;
  EXPECT_LT((*small)->info().pages_full, info.pages_full);
  int64_t allocated = 0;
  for (const auto& [what, bytes] : setup.log->allocations) allocated += static_cast<int64_t>(bytes);
  EXPECT_GT(allocated, 0);
}

TEST(DeviceExecutorLimits, TooLittleMemorySaysWhatForAndHowMuch) {
  MadeUp setup;
  setup.device.memory_bytes = 1 << 20;
  const Result<std::unique_ptr<Executor>> none = setup.make();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().param, "memory");
  for (const char* part : {"host memory has 0.001 GB free", "weights ", "programs ", "are missing", "no flag"})
    EXPECT_NE(none.error().message.find(part), std::string::npos) << part << ": " << none.error().message;
  EXPECT_TRUE(setup.log->allocations.empty()) << "refused before anything was taken";
  setup.device.memory_bytes = int64_t{256} << 20;
  setup.options.pages_full = setup.options.pages_sliding = 0;
  setup.options.kv_bytes = int64_t{1} << 30;
  const Result<std::unique_ptr<Executor>> much = setup.make();
  ASSERT_FALSE(much.ok());
  EXPECT_EQ(much.error().param, "kv_bytes");
  setup.options.kv_bytes = 1000;
  const Result<std::unique_ptr<Executor>> little = setup.make();
  ASSERT_FALSE(little.ok());
  EXPECT_NE(little.error().message.find("too small"), std::string::npos) << little.error().message;
}

TEST(DeviceExecutorLimits, OptionsOutOfRange) {
  const auto refused = [](auto change) {
    MadeUp setup;
    change(setup);
    const Result<std::unique_ptr<Executor>> made = setup.make();
    return made.ok() ? std::string() : made.error().param + ": " + made.error().message;
  };
  EXPECT_NE(refused([](MadeUp& s) { s.options.sequence_slots = 0; }).find("sequence_slots: "), std::string::npos);
  EXPECT_NE(refused([](MadeUp& s) { s.options.rows_max = 0; }).find("rows_max: "), std::string::npos);
  EXPECT_NE(refused([](MadeUp& s) { s.options.tokens_max = 3; }).find("tokens_max: "), std::string::npos);
  EXPECT_NE(refused([](MadeUp& s) { s.options.kv_bytes = -1; }).find("kv_bytes: "), std::string::npos);
  EXPECT_NE(refused([](MadeUp& s) { s.device.processors = 3; }).find("3 processors"), std::string::npos);
  EXPECT_NE(refused([](MadeUp& s) { s.options.arm = CudaArm::kGraph; }).find("arm: this build has no kernels"),
            std::string::npos);
  EXPECT_NE(refused([](MadeUp& s) {
              s.model = make_dummy_model(model_shape("tiny").value()).value();
            }).find("no CUDA kernel for the model"),
            std::string::npos);
}

TEST(DeviceExecutorDeathTest, ABrokenPlanIsABug) {
  MadeUp setup;
  const std::unique_ptr<Executor> executor = setup.make().value();
  executor->open_sequence(0, {greedy(), {}, {}});
  const std::vector<TokenId> prompt{1, 2, 3}, outside{GoldenShape::kVocabulary};
  EXPECT_DEATH((void)executor->submit(one_row(0, 0, {})), "has_token");
  EXPECT_DEATH((void)executor->submit(one_row(1, 0, prompt)), "CHECK failed");
  EXPECT_DEATH((void)executor->submit(one_row(0, 0, outside)), "vocab_size");
  EXPECT_DEATH((void)executor->submit(one_row(0, 2047, prompt)), "context_max");
  EXPECT_DEATH((void)executor->wait(1), "CHECK failed");
}

}  // namespace
}  // namespace boreas::cuda
