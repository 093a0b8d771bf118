// The comparison arms on the emulated device, behind the whole CUDA executor: steps cut into kernels, whose blocks find
// nothing in shared memory but what they put there, give the megakernel's bits.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulated_executor.h"
#include "executor_run.h"
#include "launch_segment.h"

namespace boreas {
namespace {

using C = emulation::ExecutorCut;

Status launch(size_t shared_bytes, const cuda::StepParams& params, uint64_t seed) {
  return emulation::launch_kernel<C>(shared_bytes, params, seed);
}

struct Arm {
  CudaArm arm = CudaArm::kMegakernel;
  KernelCut cut = KernelCut::kLevels;
  uint64_t seed = 0;  // 0: warps in turn
  bool check_races = false;
};

std::unique_ptr<Executor> executor_of(const std::shared_ptr<const Model>& model, const Arm& arm) {
  CudaExecutorOptions options;
  options.arm = arm.arm;
  options.cut = arm.cut;
  options.delay_seed = static_cast<uint32_t>(arm.seed);
  cuda::HostDeviceOptions device;
  auto seed = std::make_shared<uint64_t>(arm.seed);
  device.segment_kernel = [seed, arm](size_t bytes, const cuda::StepParams& params,
                                      const cuda::SegmentParams& segment) {
    return emulation::launch_segment<C>(bytes, params, segment, arm.seed == 0 ? 0 : (*seed)++, arm.check_races);
  };
  return emulation::emulated_executor(&launch, model, options, device);
}

std::vector<Sequence> sequences_of(int32_t count) {
  std::vector<Sequence> sequences;
  for (int32_t i = 0; i < count; ++i) {
    Sequence sequence{i, {}, {}};
    for (int32_t k = 0; k < 3 + 4 * i; ++k) sequence.prompt.push_back((17 * k + 91 * i + 5) % 512);
    for (int32_t page = 0; page < 2; ++page) sequence.pages.push_back(PageId(2 * i + page));
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

void expect_bits_of_megakernel(KernelCut kernel_cut) {
  const auto model = golden_model();
  struct Case {
    int32_t rows;
    uint64_t seed;
    bool check_races;
  };
  for (const Case& each : {Case{1, 0, false}, Case{1, 2, true}, Case{3, 1, false}}) {
    auto whole = executor_of(model, {});
    auto cut = executor_of(model, {CudaArm::kGraph, kernel_cut, each.seed, each.check_races});
    ASSERT_TRUE(whole && cut);
    expect_equal(decode(*cut, sequences_of(each.rows), 3, true), decode(*whole, sequences_of(each.rows), 3, true),
                 std::to_string(each.rows) + " rows, seed " + std::to_string(each.seed));
  }
}

// Tokens are fed back and drawn on the device, by filters too: what FILTER leaves for SAMPLE goes through memory.
void expect_draws_of_megakernel(KernelCut kernel_cut) {
  const auto model = golden_model();
  auto sequences = sequences_of(3);
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].sampling.temperature = 0.8f;
    sequences[i].sampling.seed = 40 + i;
  }
  sequences[1].sampling.top_p = 0.3f;
  sequences[2].sampling.top_k = 2;
  auto whole = executor_of(model, {}), cut = executor_of(model, {CudaArm::kDependentLaunch, kernel_cut, 5, false});
  ASSERT_TRUE(whole && cut);
  expect_equal(decode(*cut, sequences, 4, false), decode(*whole, sequences, 4, false), "drawn");
}

TEST(Arms, BitsOfLevelsAreTheMegakernels) { expect_bits_of_megakernel(KernelCut::kLevels); }
TEST(Arms, DrawsOfLevelsAreTheMegakernels) { expect_draws_of_megakernel(KernelCut::kLevels); }
TEST(ArmsFull, BitsOfOpsAreTheMegakernels) { expect_bits_of_megakernel(KernelCut::kOps); }
TEST(ArmsFull, DrawsOfOpsAreTheMegakernels) { expect_draws_of_megakernel(KernelCut::kOps); }

// What the step counts goes through memory as well.
TEST(ArmsOnce, ExpertsAreCountedOverAllKernels) {
  const auto model = golden_model();
  int64_t experts[2] = {};
  for (const bool cut : {false, true}) {
    auto executor = executor_of(model, {cut ? CudaArm::kGraph : CudaArm::kMegakernel, KernelCut::kOps});
    ASSERT_TRUE(executor);
    const Sequence sequence = sequences_of(1)[0];
    SequenceSpec spec;
    spec.sampling = Sequence::greedy();
    executor->open_sequence(0, spec);
    StepPlan plan;
    plan.rows.push_back({});
    plan.rows[0].tokens = sequence.prompt;
    plan.rows[0].full_pages = plan.rows[0].sliding_pages = sequence.pages;
    plan.rows[0].logits = LogitsWanted::kLast;
    auto ticket = executor->submit(plan);
    ASSERT_TRUE(ticket.ok());
    auto done = executor->wait(*ticket);
    ASSERT_TRUE(done.ok());
    experts[cut] = done->distinct_experts;
  }
  EXPECT_GT(experts[0], 0);
  EXPECT_EQ(experts[0], experts[1]);
}

TEST(ArmsOnce, TracesAreTheMegakernels) {
  CudaExecutorOptions options;
  options.arm = CudaArm::kGraph;
  options.trace = [](const cuda::LaunchTrace&) {};
  DeviceSpec spec = h200_spec();
  spec.workers = emulation::kExecutorWorkers;
  static const cuda::CompiledShape shapes[] = {cuda::compiled_shape<cuda::GoldenShape, emulation::kExecutorWorkers>()};
  auto device = std::make_unique<cuda::HostDevice>(cuda::HostDeviceOptions{}, cuda::HostKernel{},
                                                   std::make_shared<cuda::HostDeviceLog>());
  const auto executor = cuda::make_device_executor(std::move(device), spec, shapes, golden_model(), options);
  ASSERT_FALSE(executor.ok());
  EXPECT_NE(executor.error().message.find("trace"), std::string::npos) << executor.error().message;
}

}  // namespace
}  // namespace boreas
