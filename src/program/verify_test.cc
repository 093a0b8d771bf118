// One wrong thing at a time, each named in the verdict. The mutation test (mutation_test.cc) covers the rest by seed.
#include <gtest/gtest.h>

#include <functional>

#include "program/program_testing.h"
#include "program/worker_memory.h"

namespace boreas {
namespace {

// The verdict's text after a change to the tiny program on three workers.
std::string verdict_after(const std::function<void(Program&)>& change, int32_t rows = 1) {
  Program program = placed(shape_named("tiny"), toy_spec(3), rows);
  change(program);
  const Verdict verdict = verify(program);
  EXPECT_EQ(verdict.ok, verdict.problem.empty());
  return verdict.problem;
}

TaskDesc& task_of(Program& program, int32_t worker, Role role, Op op, int32_t layer) {
  for (size_t i = 0;; ++i) {
    TaskDesc& task = const_cast<TaskDesc&>(program.list(worker, role)[i]);
    if (static_cast<Op>(task.op) == op && task.layer == layer) return task;
  }
}
TaskDesc& consumer(Program& program, Op op, int32_t layer) { return task_of(program, 1, Role::kConsumer, op, layer); }

#define EXPECT_VERDICT(text, change)                                                        \
  EXPECT_NE(verdict_after([&](Program& program) { change; }).find(text), std::string::npos) \
      << verdict_after([&](Program& program) { change; })

TEST(Verify, TheProgramItselfIsFine) {
  EXPECT_EQ(verdict_after([](Program&) {}), "");
}

TEST(Verify, MemoryThatDoesNotFit) {
  EXPECT_VERDICT("the ring has 2 chunks", program.ring_chunks = 2);
  EXPECT_VERDICT("no multiple of the 2 consumer groups", program.ring_chunks = 5);
  EXPECT_VERDICT("5 producer warps", program.producers = 5);
  EXPECT_VERDICT("no multiple of the 3 producer warps", program.producers = 3);
  EXPECT_VERDICT("slot normed has 0 bytes", program.slots[0].bytes = 0);
  EXPECT_VERDICT("slot qkv has", program.slots[1].bytes -= 1);
  EXPECT_VERDICT("not aligned or beyond the end", program.slot_bytes -= 256);
  EXPECT_VERDICT("not aligned", program.slots[2].offset += 4);
  EXPECT_VERDICT("slots and ring need", program.device.slot_ring_bytes = program.slot_bytes + 7 * 16384);
}

TEST(Verify, ListsThatAreNoLists) {
  EXPECT_VERDICT("not one list", program.list_first.pop_back());
  EXPECT_VERDICT("not one list", program.list_first[3] = 1 << 20);
  EXPECT_VERDICT("not one list", program.list_first[3] = -5);
  EXPECT_VERDICT("not one list", program.tasks.pop_back());
  EXPECT_VERDICT("steps ahead", program.device.host_steps_ahead = 3);
  EXPECT_VERDICT("steps ahead", program.device.host_steps_ahead = 0);
  EXPECT_VERDICT("hop qkv has 6 uses", program.hop_uses[2] = 6);
}

TEST(Verify, NumbersOutOfRange) {
  EXPECT_VERDICT("has opcode 99", consumer(program, Op::kDown, 2).op = 99);
  EXPECT_VERDICT("has opcode -1", consumer(program, Op::kDown, 2).op = -1);
  EXPECT_VERDICT("list of another role", consumer(program, Op::kDown, 2).op = static_cast<int32_t>(Op::kGather));
  EXPECT_VERDICT("names layer 77", consumer(program, Op::kDown, 2).layer = 77);
  EXPECT_VERDICT("arrives at barrier " + std::to_string(kSlots), consumer(program, Op::kDown, 2).arrive = kSlots);
  EXPECT_VERDICT("which a step does not have", consumer(program, Op::kDown, 2).barriers[0].id = 99);
  EXPECT_VERDICT("which a step does not have", consumer(program, Op::kDown, 2).barriers[0].target = 6);
  EXPECT_VERDICT("which a step does not have", consumer(program, Op::kDown, 2).barriers[0].target = 0);
  EXPECT_VERDICT("names KV heads", consumer(program, Op::kQkv, 2).args[QkvOp::kHeadFirst] = 2);
  EXPECT_VERDICT("KV heads that do not exist",
                 task_of(program, 1, Role::kProducer, Op::kLoad, 2).args[LoadOp::kStream] = LoadOp::kKvPages;
                 task_of(program, 1, Role::kProducer, Op::kLoad, 2).args[LoadOp::kHeadCount] = INT32_MAX);
  EXPECT_VERDICT("takes its route from slot 12", consumer(program, Op::kDown, 2).args[DownOp::kRouteSlot] = 12);
  EXPECT_VERDICT("takes its route from slot 4", consumer(program, Op::kDown, 0).args[DownOp::kRouteSlot] = 4);
  EXPECT_VERDICT("publishes a use that does not exist", consumer(program, Op::kDown, 2).publish.use = 6);
}

TEST(Verify, HopsOfOtherOpsAndLayers) {
  EXPECT_VERDICT("publishes hop inner, its op residual",
                 consumer(program, Op::kDown, 2).publish.hop = static_cast<int32_t>(Hop::kInner));
  EXPECT_VERDICT("out of order, twice", consumer(program, Op::kDown, 2).publish.use = 2);
  EXPECT_VERDICT("but that is layer", task_of(program, 1, Role::kMessenger, Op::kGatherNorm, 2).wait.use = 1);
  EXPECT_VERDICT("waits for writers", task_of(program, 1, Role::kMessenger, Op::kGatherNorm, 2).wait.count = 2);
  EXPECT_VERDICT("waits for use -1", task_of(program, 1, Role::kMessenger, Op::kGatherNorm, 2).wait.use = -1);
  EXPECT_VERDICT("writers that do not exist", task_of(program, 1, Role::kMessenger, Op::kGatherNorm, 2).wait.first = 1);
}

TEST(Verify, SlicesThatDoNotCover) {
  EXPECT_VERDICT("owns a slice", consumer(program, Op::kDown, 2).args[DownOp::kFirst] += 1);
  EXPECT_VERDICT("attention pieces", consumer(program, Op::kAttention, 2).args[AttentionOp::kPieceFirst] += 1);
  EXPECT_VERDICT("has RoPE", consumer(program, Op::kQkv, 4).args[QkvOp::kRope] = 1);
  EXPECT_VERDICT("another window", consumer(program, Op::kAttention, 1).args[AttentionOp::kSliding] = 0);
  EXPECT_VERDICT("counts other workers", task_of(program, 1, Role::kMessenger, Op::kSample, -1).args[0] = 2);
  EXPECT_VERDICT("covers 85 of 128 rows",
                 task_of(program, 2, Role::kConsumer, Op::kEmbed, -1).args[EmbedOp::kCount] = 0);
}

TEST(Verify, Streams) {
  EXPECT_VERDICT("the producer does not load that", consumer(program, Op::kDown, 2).stream_item += 1);
  EXPECT_VERDICT("the producer does not load that", consumer(program, Op::kDown, 2).stream_unit_pieces += 1);
  EXPECT_VERDICT("the producer does not load that",
                 task_of(program, 1, Role::kProducer, Op::kLoad, 2).args[LoadOp::kUnitBytes] /= 2);
  EXPECT_VERDICT("the producer does not load that", consumer(program, Op::kDown, 2).stream_count = 0);
}

TEST(Verify, OrderThatIsMissing) {
  EXPECT_VERDICT("reads slot inner without being ordered after its write",
                 consumer(program, Op::kDown, 2).barriers[0] = BarrierWait{});
  EXPECT_VERDICT("later ones may hide", consumer(program, Op::kDown, 2).barriers[0].target -= 1);
  EXPECT_VERDICT("deadlock", consumer(program, Op::kDown, 2).barriers[0].target += 1);
  // Up and gate of layer 2 by the route of layer 1: in order, but of another value.
  EXPECT_NE(verdict_after([](Program& program) {
              const int32_t route = static_cast<int32_t>(Slot::kRoute);
              consumer(program, Op::kUpGate, 2).args[UpGateOp::kRouteSlot] = route;
              for (const TaskDesc& load : program.list(1, Role::kProducer))
                if (load.layer == 2 && load.args[LoadOp::kStream] == LoadOp::kExpertUpGate)
                  const_cast<TaskDesc&>(load).args[LoadOp::kRouteSlot] = route;
            }).find("not written for its layer"),
            std::string::npos);
}

// Where loads wait for routes, that alone tells the producer that the step before has appended its rows. A dense model
// has no routes: there the wait for the step's first norm is all there is.
TEST(Verify, OldKvRowsAreStreamedAfterTheirAppend) {
  ModelConfig dense = shape_named("tiny");
  for (LayerConfig& layer : dense.layers) layer.dense_mlp = true;
  Program program = placed(dense, toy_spec(3), 1);
  EXPECT_TRUE(verify(program).ok) << verify(program).problem;
  for (TaskDesc& task : program.tasks)
    if (static_cast<Op>(task.op) == Op::kLoad) task.barriers[0] = BarrierWait{};
  EXPECT_NE(verify(program).problem.find("reads KV rows without being ordered after their append"), std::string::npos)
      << verify(program).problem;
}

TEST(Verify, SlotsThatShareMemory) {
  // The attention output still waits for OUT_PROJ when the experts' results are gathered over it.
  EXPECT_VERDICT("slot", program.slots[static_cast<size_t>(Slot::kInner)].offset =
                             program.slots[static_cast<size_t>(Slot::kAttention)].offset);
  EXPECT_VERDICT("slot", program.slots[static_cast<size_t>(Slot::kResidual)].offset = 0);
  // Where place itself lets them share, it adds a wait: without it the proof fails.
  Program program = placed(shape_named("north"), h200_spec(), 5);
  const SlotSpec& inner = program.slots[static_cast<size_t>(Slot::kInner)];
  for (Slot slot : {Slot::kNormed, Slot::kAttention}) {
    const SlotSpec& other = program.slots[static_cast<size_t>(slot)];
    ASSERT_LT(inner.offset, other.offset + other.bytes);
    ASSERT_LT(other.offset, inner.offset + inner.bytes);
  }
  EXPECT_TRUE(verify(program).ok);
  for (TaskDesc& task : program.tasks)
    if (static_cast<Op>(task.op) == Op::kGather) task.barriers[0] = BarrierWait{};
  EXPECT_NE(verify(program).problem.find("slot attention"), std::string::npos) << verify(program).problem;
}

TEST(Verify, InnerVectorsInTwoParts) {
  const Program whole = placed(shape_named("north"), h200_spec(), 8);
  ASSERT_TRUE(verify(whole).ok) << verify(whole).problem;
  const int32_t first = inner_first_vectors(whole.config, 8);
  EXPECT_EQ(first, 21) << "as many as slot normed holds";
  const auto verdict_of = [&](Op op, const auto& change) {
    Program program = whole;
    for (TaskDesc& task : program.tasks)
      if (static_cast<Op>(task.op) == op && task.layer == 2) change(task);
    return verify(program).problem;
  };
  const auto is_part = [](const TaskDesc& task, Slot slot) {
    return static_cast<Slot>(task.args[GatherOp::kSlot]) == slot;
  };
  EXPECT_NE(verdict_of(Op::kUpGate, [](TaskDesc& task) { task.args[UpGateOp::kFirstVectors] = 0; })
                .find("publishes 0 inner vectors as the first part, not 21"),
            std::string::npos);
  EXPECT_NE(verdict_of(Op::kDown, [](TaskDesc& task) { task.args[DownOp::kFirstVectors] = 20; }).find("finds 20 inner"),
            std::string::npos);
  EXPECT_NE(verdict_of(Op::kGather,
                       [&](TaskDesc& task) {
                         if (is_part(task, Slot::kInner)) task.args[GatherOp::kFirstVectors] = 22;
                       })
                .find("cuts inner vectors at 22, not at 21"),
            std::string::npos);
  EXPECT_NE(verdict_of(Op::kGather,
                       [&](TaskDesc& task) {
                         if (is_part(task, Slot::kInnerFirst)) task.args[GatherOp::kRouteSlot] = -1;
                       })
                .find("takes its route from slot -1"),
            std::string::npos);
  // Either part must be waited for, the second one also by who gathers it: OUT_PROJ still reads what it is put over.
  for (const Slot slot : {Slot::kInnerFirst, Slot::kInner}) {
    const std::string problem = verdict_of(Op::kDown, [&](TaskDesc& task) {
      for (BarrierWait& wait : task.barriers)
        if (wait.id == static_cast<int32_t>(slot)) wait = BarrierWait{};
    });
    EXPECT_NE(problem.find(std::string("reads slot ") + slot_name(static_cast<int32_t>(slot))), std::string::npos)
        << problem;
  }
  const std::string problem = verdict_of(Op::kGather, [&](TaskDesc& task) {
    for (BarrierWait& wait : task.barriers)
      if (wait.id == static_cast<int32_t>(Slot::kProjected)) wait = BarrierWait{};
  });
  EXPECT_NE(problem.find("slot attention"), std::string::npos) << problem;
}

// With small items and several producer warps one that had no chunk may still look at a route that is overwritten:
// place chooses one warp then.
TEST(Verify, AProducerWarpThatLagsBehind) {
  Program program = placed(shape_named("tiny"), toy_spec(128), 1);
  EXPECT_EQ(program.producers, 1);
  EXPECT_TRUE(verify(program).ok);
  program.producers = 4;
  EXPECT_NE(verify(program).problem.find("producer task"), std::string::npos) << verify(program).problem;
}

TEST(Verify, NorthIsProvedForEveryWorkerCountOfD3) {
  for (int32_t workers : {128, 112, 96, 64, 32}) {
    DeviceSpec device = h200_spec();
    device.workers = workers;
    const Result<Program> program = compile(shape_named("north"), device, 1);
    EXPECT_TRUE(program.ok()) << workers << ": " << program.error().message;
  }
}

}  // namespace
}  // namespace boreas
