// Programs of real shapes on real and toy machines: they verify, fit, and do what the shape says.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "program/order_oracle_testing.h"
#include "program/program_testing.h"
#include "program/worker_memory.h"

namespace boreas {
namespace {

struct ToyCase {
  const char* shape;
  int32_t workers;
};

class ToyMachine : public testing::TestWithParam<ToyCase> {};

TEST_P(ToyMachine, ProgramsVerify) {
  for (int32_t rows : {1, 2, 8, 64}) {
    for (int32_t ahead : {1, 2}) {
      DeviceSpec device = toy_spec(GetParam().workers);
      device.host_steps_ahead = ahead;
      const Program program = placed(shape_named(GetParam().shape), device, rows);
      const Verdict verdict = verify(program);
      EXPECT_TRUE(verdict.ok) << verdict.problem;
      EXPECT_GT(verdict.tasks_checked, static_cast<int64_t>(program.tasks.size()));
      if (std::string(GetParam().shape) == "north") return;  // once is enough
    }
  }
}

std::vector<ToyCase> toy_cases() {
  std::vector<ToyCase> cases;
  for (const char* shape : {"north", "demo", "tiny", "bench"})
    for (int32_t workers : {1, 3, 16, 128}) cases.push_back({shape, workers});
  for (int32_t workers : {2, 5, 7, 31, 33, 96, 112}) cases.push_back({"tiny", workers});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Shapes, ToyMachine, testing::ValuesIn(toy_cases()), [](const auto& made) {
  return std::string(made.param.shape) + "_" + std::to_string(made.param.workers);
});

// The brute-force check agrees that programs are right, before any is mutated.
TEST(Place, ProgramsAreRightByBruteForce) {
  for (int32_t workers : {1, 2, 3, 5, 16}) {
    for (int32_t ahead : {1, 2}) {
      DeviceSpec device = toy_spec(workers);
      device.host_steps_ahead = ahead;
      EXPECT_EQ(testing_order::check_order(placed(shape_named("tiny"), device, 2)), "") << workers << " workers";
    }
  }
  EXPECT_EQ(testing_order::check_order(placed(shape_named("demo"), toy_spec(3), 1)), "");
  EXPECT_EQ(testing_order::check_order(placed(three_layer_shape(), toy_spec(64), 1)), "");
}

TEST(Place, NorthFitsAHopperForOneToEightRows) {
  const ModelConfig north = shape_named("north");
  for (const DeviceSpec& device : {h200_spec(), h100_spec()}) {
    for (int32_t rows = 1; rows <= 8; ++rows) {
      const Result<Program> program = compile(north, device, rows);
      ASSERT_TRUE(program.ok()) << program.error().message;
      EXPECT_EQ(program->workers(), 128);
      EXPECT_LE(program->slot_bytes + device.scratch_bytes(rows) + int64_t{program->ring_chunks} * device.chunk_bytes,
                device.slot_ring_bytes);
      EXPECT_GE(program->ring_chunks, device.ring_chunks_min);
      EXPECT_EQ(program->ring_chunks % device.consumer_groups, 0);
      EXPECT_GE(program->producers, 1);
      if (rows == 1) {
        EXPECT_EQ(program->ring_chunks, 12) << "192 KB, the measured best";
        EXPECT_EQ(program->producers, 2);
      }
    }
  }
}

TEST(Place, WhatDoesNotFitIsAnErrorWithTheNumbers) {
  const Result<Program> program = compile(shape_named("north"), h200_spec(), 64);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message.find("does not fit h200"), std::string::npos) << program.error().message;
  DeviceSpec none = toy_spec(0);
  EXPECT_FALSE(place(lower(shape_named("tiny"), 1), none, 1).ok());
  EXPECT_FALSE(place(lower(shape_named("tiny"), 0), toy_spec(3), 0).ok());
}

// The tuned case of North on 128 workers, worker by worker.
TEST(Place, NorthIsCutAsTuned) {
  const Program program = placed(shape_named("north"), h200_spec(), 1);
  for (int32_t worker = 0; worker < 128; ++worker) {
    for (const TaskDesc& task : program.list(worker, Role::kConsumer)) {
      const int32_t* args = task.args;
      switch (static_cast<Op>(task.op)) {
        case Op::kRouterLogits:
          EXPECT_EQ(args[0], worker);
          EXPECT_EQ(args[1], 1);
          break;
        case Op::kQkv:
          EXPECT_EQ(args[QkvOp::kHeadFirst], worker / 32);
          EXPECT_EQ(args[QkvOp::kQCount], 32);
          EXPECT_EQ(args[QkvOp::kKCount], 4);
          EXPECT_EQ(args[QkvOp::kVCount], 4);
          EXPECT_EQ(task.stream_unit_pieces, 20);
          break;
        case Op::kAttention:
          EXPECT_EQ(args[AttentionOp::kPieceFirst], worker % 32);
          EXPECT_EQ(args[AttentionOp::kPieceCount], 1);
          break;
        case Op::kUpGate:
          EXPECT_EQ(args[UpGateOp::kCount], program.config.is_moe(task.layer) ? 6 : 24);
          break;
        case Op::kOutProj:
        case Op::kDown:
          EXPECT_EQ(args[1], 16);
          break;
        case Op::kLmHead:
          EXPECT_EQ(args[1], 2048);
          break;
        default:
          break;
      }
    }
  }
}

// Router logits hide the hop of q, k and v where there are rows enough.
TEST(Place, QkvComesBeforeTheRouterFromThreeRowsOn) {
  for (int32_t rows : {1, 2, 3, 8}) {
    const Program program = placed(three_layer_shape(), toy_spec(4), rows);
    const size_t consumer = static_cast<size_t>(Role::kConsumer);
    std::vector<Op> ops;
    for (int32_t i = program.list_first[consumer]; i < program.list_first[consumer + 1]; ++i)
      if (program.tasks[static_cast<size_t>(i)].layer == 1)
        ops.push_back(static_cast<Op>(program.tasks[static_cast<size_t>(i)].op));
    std::vector<Op> wanted{Op::kRouterLogits, Op::kQkv, Op::kAttention, Op::kUpGate, Op::kOutProj, Op::kDown};
    if (rows >= 3) std::swap(wanted[0], wanted[1]);
    EXPECT_EQ(ops, wanted) << rows;
  }
}

// A role never waits twice for the same arrivals.
TEST(Place, WaitsAreStatedOnce) {
  const Program program = placed(shape_named("demo"), toy_spec(3), 4);
  for (int32_t worker = 0; worker < 3; ++worker) {
    for (int32_t role = 0; role < kRoles; ++role) {
      int32_t known[kSlots] = {};
      for (const TaskDesc& task : program.list(worker, static_cast<Role>(role))) {
        for (const BarrierWait& wait : task.barriers) {
          if (wait.id < 0) continue;
          EXPECT_GT(wait.target, known[wait.id]);
          known[wait.id] = wait.target;
        }
      }
    }
  }
}

TEST(Summary, NorthStreamsEveryByteOnce) {
  const ModelConfig north = shape_named("north");
  const ProgramSummary summary = summarize(placed(north, h200_spec(), 1), 1, 8192);
  EXPECT_EQ(summary.step_bytes, 7130525696) << "the bytes behind 673 tok/s at 4.8 TB/s";
  EXPECT_NEAR(1e6 / summary.predicted_us, 673, 1);
  EXPECT_EQ(summary.hops_per_layer, 6);
  EXPECT_EQ(summary.hop_chain_per_layer, 4);
  EXPECT_EQ(summary.worker_bytes_min, summary.worker_bytes_max) << "slices of North are equal";
  int64_t streamed = 0;
  for (const OpTotals& op : summary.ops) streamed += op.bytes;
  EXPECT_EQ(streamed, 128 * summary.worker_bytes_max);
  // What is streamed is what must be read, up to norms (RMSNorm weights lie elsewhere), the embedding row and the first
  // of the window's pages, which is taken whole.
  EXPECT_NEAR(static_cast<double>(streamed), static_cast<double>(summary.step_bytes), 0.001 * 7e9);
}

TEST(Summary, AHopThatIsGatheredInTwoPartsIsOneHop) {
  const ProgramSummary summary = summarize(placed(shape_named("north"), h200_spec(), 4), 4, 8192);
  EXPECT_EQ(summary.hops_per_layer, 6);
  EXPECT_EQ(summary.hop_chain_per_layer, 4);
}

// Counted from weights and slices for other shapes, too: all experts hit, nothing in the KV pages but one.
TEST(Summary, AllWeightsAreStreamedWhenAllExpertsAreHit) {
  for (const char* shape : {"demo", "tiny", "bench"}) {
    const ModelConfig config = shape_named(shape);
    for (int32_t workers : {1, 3, 16}) {
      const ProgramSummary summary = summarize(placed(config, toy_spec(workers), 64), 64, 1);
      int64_t weights = 0;
      for (const OpTotals& op : summary.ops) weights += op.bytes;
      weights -= summary.ops[static_cast<size_t>(Op::kAttention)].bytes;
      const int64_t norms = (config.layer_count() + 1) * int64_t{config.hidden_size} * 2;
      EXPECT_EQ(weights, weight_bytes(config) - norms) << shape << " on " << workers;
    }
  }
}

TEST(ModelBytes, OfNorth) {
  const ModelConfig north = shape_named("north");
  EXPECT_EQ(weight_bytes(north), 60968607744);
  EXPECT_EQ(page_bytes_full(north), 1703936) << "1.625 MiB";
  EXPECT_EQ(page_bytes_sliding(north), 4718592) << "4.5 MiB";
}

// Made by: for w in 0 1 2; do boreas plan --model-shape tiny --device toy --workers 3 --batch 2 --list $w; done
TEST(Dump, TheTinyProgramIsAsRecorded) {
  std::ifstream file(BOREAS_SOURCE_DIR "/tests/golden/program/tiny_3_workers.txt");
  std::stringstream golden;
  golden << file.rdbuf();
  const Program program = placed(shape_named("tiny"), toy_spec(3), 2);
  std::string text;
  for (int32_t worker = 0; worker < 3; ++worker) text += dump_text(program, worker);
  EXPECT_EQ(text, golden.str());
}

TEST(Dump, JsonHoldsEveryTask) {
  const Program program = placed(shape_named("tiny"), toy_spec(3), 1);
  const std::string json = dump_json(program);
  size_t ops = 0;
  for (size_t at = json.find("{\"op\":"); at != std::string::npos; at = json.find("{\"op\":", at + 1)) ++ops;
  EXPECT_EQ(ops, program.tasks.size());
  int32_t depth = 0;
  for (const char c : json) {
    depth += c == '{' || c == '[';
    depth -= c == '}' || c == ']';
    ASSERT_GE(depth, 0);
  }
  EXPECT_EQ(depth, 0);
}

TEST(Draw, EveryTaskOfTheLayerIsThere) {
  for (int32_t workers : {1, 3, 16}) {
    const Program program = placed(shape_named("tiny"), toy_spec(workers), 1);
    for (int32_t layer = 0; layer < 5; ++layer) {
      const std::string svg = draw_layer_svg(program, layer);
      size_t boxes = 0, expected = 0;
      for (size_t at = svg.find("<g opacity='1'>"); at != std::string::npos; at = svg.find("<g opacity='1'>", at + 1))
        ++boxes;
      for (int32_t worker : {0, workers / 2}) {
        for (int32_t role = 0; role < kRoles; ++role)
          for (const TaskDesc& task : program.list(worker, static_cast<Role>(role))) expected += task.layer == layer;
        if (workers == 1) break;
      }
      EXPECT_EQ(boxes, expected) << "layer " << layer << " of " << workers;
      EXPECT_NE(svg.find("</svg>"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace boreas
