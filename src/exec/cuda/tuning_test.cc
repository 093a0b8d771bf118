// A launch with less of the design than its program has (tuning.h): within what the pipeline allows, and proved as
// well.
#include "exec/cuda/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "exec/cuda/host_device_testing.h"
#include "exec/cuda/program_set_testing.h"
#include "program/compile.h"
#include "program/pipeline.h"

namespace boreas::cuda {
namespace {

TEST(Tuning, RingAndProducersStayWithinTheProgramAndThePipeline) {
  const ModelConfig config = model_shape("demo").value();
  HostDevice device({}, {}, std::make_shared<HostDeviceLog>());
  Result<ProgramSet> set = uploaded_programs(config, 4096, device);
  ASSERT_TRUE(set.ok()) << set.error().message;
  for (int32_t rows : {1, 8}) {
    StepParams whole{};
    const size_t bytes = set->select(rows, CudaTuning{}, whole);
    ASSERT_GT(whole.ring_chunks, h200_spec().ring_chunks_min);
    for (int32_t chunks = -1; chunks <= kStagesMax + 1; ++chunks) {
      for (int32_t producers = -1; producers <= kProducerWarpsMax + 1; ++producers) {
        CudaTuning tuning;
        tuning.ring_chunks_max = chunks;
        tuning.producers_max = producers;
        tuning.credits_for(rows).fill(chunks);
        StepParams less{};
        EXPECT_EQ(set->select(rows, tuning, less), bytes);
        EXPECT_LE(less.ring_chunks, whole.ring_chunks);
        EXPECT_LE(less.ring_chunks, std::max(chunks, h200_spec().ring_chunks_min));
        EXPECT_LE(less.producers, whole.producers);
        EXPECT_EQ(less.scratch.full, whole.scratch.full) << "what lies behind the ring stays";
        for (int32_t credits : less.credits)
          EXPECT_TRUE(is_valid({less.ring_chunks, less.producers, kConsumerGroups, 1, credits})) << chunks;
      }
    }
  }
}

// What ProgramSet::select() says of the proof.
TEST(Tuning, AProgramVerifiesWithEverySmallerRingAndFewerProducers) {
  for (int32_t rows : {1, 8}) {
    const Result<Program> compiled = compile(model_shape("demo").value(), h200_spec(), rows);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    Program program = *compiled;
    for (program.producers = 1; program.producers <= compiled->producers; ++program.producers) {
      for (program.ring_chunks = program.device.ring_chunks_min; program.ring_chunks <= compiled->ring_chunks;
           program.ring_chunks += kConsumerGroups) {
        const Verdict verdict = verify(program);
        EXPECT_TRUE(verdict.ok) << program.ring_chunks << " chunks: " << verdict.problem;
      }
    }
  }
}

}  // namespace
}  // namespace boreas::cuda
