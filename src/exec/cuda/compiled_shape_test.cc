// Which models a kernel fits, what a refusal says, and that programs for every compiled shape fit a Hopper block.
#include "exec/cuda/compiled_shape.h"

#include <gtest/gtest.h>

#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/program_set_testing.h"
#include "exec/cuda/weight_layout.h"

namespace boreas::cuda {
namespace {

TEST(CompiledShape, ModelsFindTheirKernel) {
  for (const char* name : {"north", "demo"}) {
    const Result<CompiledShape> found = find_shape(model_shape(name).value(), 128, compiled_shapes());
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_STREQ(found->name, name);
  }
}

TEST(CompiledShape, ARefusalNamesNumbersAndShapes) {
  ModelConfig config = model_shape("demo").value();
  config.experts = 24;
  const Result<CompiledShape> wrong = find_shape(config, 128, compiled_shapes());
  ASSERT_FALSE(wrong.ok());
  for (const char* part : {"experts 24, expected 16", "nearest: demo", "north on 128 workers", "golden"})
    EXPECT_NE(wrong.error().message.find(part), std::string::npos) << wrong.error().message;
  const Result<CompiledShape> few = find_shape(model_shape("demo").value(), 112, compiled_shapes());
  ASSERT_FALSE(few.ok());
  EXPECT_NE(few.error().message.find("workers 112, expected 128"), std::string::npos) << few.error().message;
  EXPECT_FALSE(find_shape(config, 128, {}).ok());
  config = model_shape("demo").value();
  config.layers.resize(kLayersMax + 1, config.layers.back());
  EXPECT_FALSE(find_shape(config, 128, compiled_shapes()).ok());
}

TEST(CompiledShape, HopWordsHoldWhatWorkersPublish) {
  const CompiledShape north = compiled_shape<NorthShape, 128>();
  const auto words = [&](Hop hop) { return static_cast<int64_t>(north.hop_half_words[static_cast<size_t>(hop)]); };
  EXPECT_EQ(words(Hop::kResidual), 8 * 128 * 3);  // 16 values a worker in words of 6
  EXPECT_EQ(words(Hop::kLogit), 2 * 128);
  EXPECT_EQ(words(Hop::kQkv), 8 * 128 * 7);              // 40 values
  EXPECT_EQ(words(Hop::kPartial), 8 * 4 * 32 * 4 * 96);  // pairs of queries: 9 floats from 32 lanes
  EXPECT_EQ(words(Hop::kInner), 8 * 128 * 8);
  EXPECT_EQ(words(Hop::kLogits), 8 * 128);
  EXPECT_EQ(words(Hop::kToken), 128);
}

TEST(ProgramSet, EveryCompiledShapeFitsAHopperBlock) {
  for (const char* name : {"north", "demo"}) {
    const ModelConfig config = model_shape(name).value();
    HostDevice device({}, {}, std::make_shared<HostDeviceLog>());
    Result<ProgramSet> set = uploaded_programs(config, config.context_max, device);
    ASSERT_TRUE(set.ok()) << set.error().message;
    EXPECT_GE(set->context_max(), std::min(config.context_max, 262144));
    for (int32_t rows = 1; rows <= kRowsMax; ++rows) {
      StepParams params{};
      const size_t bytes = set->select(rows, CudaTuning{}, params);
      EXPECT_LE(bytes, static_cast<size_t>(h200_spec().slot_ring_bytes)) << name << ", " << rows << " rows";
      EXPECT_EQ(params.ring_offset % 1024, 0u);
      EXPECT_EQ(params.scratch.full,  // the scratch's first
                params.ring_offset + static_cast<uint32_t>(params.ring_chunks) * kStreamChunkBytes);
      EXPECT_LE(params.ring_chunks, kStagesMax);
      EXPECT_LE(params.producers, kProducerWarpsMax);
      for (int32_t credit : params.credits) EXPECT_TRUE(credit >= 1 && credit <= params.ring_chunks);
      for (size_t hop = 0; hop < kHops; ++hop) EXPECT_GT(params.hop_uses[hop], 0u);
      EXPECT_LE(params.slot_offset[kSlots - 1], params.ring_offset);
    }
  }
}

TEST(ProgramSet, ListsOnTheDeviceAreThoseOfTheProgram) {
  const ModelConfig config = model_shape("demo").value();
  HostDevice device({}, {}, std::make_shared<HostDeviceLog>());
  Result<ProgramSet> set = uploaded_programs(config, 4096, device);
  ASSERT_TRUE(set.ok()) << set.error().message;
  ASSERT_TRUE(device.synchronize().ok());
  StepParams params{};
  set->select(5, CudaTuning{}, params);
  DeviceSpec spec = h200_spec();
  spec.ring_chunks_max = kStagesMax;
  Program program = compile(config, spec, 5).value();
  address_loads(config, lay_out_weights(config), program.list_first, program.tasks);
  for (size_t i = 0; i < program.list_first.size(); ++i) ASSERT_EQ(params.list_first[i], program.list_first[i]);
  ASSERT_EQ(std::memcmp(params.tasks, program.tasks.data(), program.tasks.size() * sizeof(TaskDesc)), 0);
}

TEST(ProgramSet, PageListsCoverContextAndWindow) {
  const ModelConfig config = model_shape("north").value();
  const PageListSizes lists = page_list_sizes(config, 128, config.context_max);
  EXPECT_EQ(lists.full, 245);   // 7813 pages, every 32nd
  EXPECT_EQ(lists.sliding, 3);  // 65 pages
  const PageListSizes few = page_list_sizes(config, 4, 4096);
  EXPECT_EQ(few.full, 2 * 32);
  EXPECT_EQ(few.sliding, 2 * 32);  // 64 pages in all
}

TEST(ProgramSet, ListsThatDoNotFitShortenTheContext) {
  const ModelConfig config = model_shape("north").value();
  HostDevice device({}, {}, std::make_shared<HostDeviceLog>());
  Result<ProgramSet> set = uploaded_programs(config, 4000000, device);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_LT(set->context_max(), 4000000);
  StepParams params{};
  EXPECT_LE(set->select(kRowsMax, CudaTuning{}, params), static_cast<size_t>(h200_spec().slot_ring_bytes));
  EXPECT_EQ(params.page_list_full, page_list_sizes(config, 128, set->context_max()).full);
}

TEST(ProgramSet, NoRoomAtAllIsAnErrorWithNumbers) {
  const ModelConfig config = model_shape("demo").value();
  const CompiledShape shape = find_shape(config, 128, compiled_shapes()).value();
  DeviceSpec spec = h200_spec();
  spec.scratch_fixed_bytes = spec.scratch_row_bytes = 0;  // what placement then believes to have
  spec.slot_ring_bytes = 4 * kStreamChunkBytes + 29 * 1024;
  const Result<ProgramSet> set = ProgramSet::compile(config, spec, shape, 4096);
  ASSERT_FALSE(set.ok());
  EXPECT_NE(set.error().message.find("bytes of shared memory"), std::string::npos) << set.error().message;
}

}  // namespace
}  // namespace boreas::cuda
