// A step cut into segments, against the step in one piece: every list is run task by task, each worker's places holding
// the number of the task that wrote them, in the order that a seed gives. What every task reads must be the same.
#include "exec/cuda/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/prng.h"
#include "program/program_testing.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kNothing = -1;  // what an unwritten place holds

// What tasks read, by task of the program; and who has published what.
struct Log {
  std::vector<std::vector<int32_t>> reads;
  std::map<std::pair<int32_t, int32_t>, std::set<int32_t>> published;  // (hop, use): workers
};

struct WorkerState {
  std::array<int32_t, kKeptPlaces> place;
  std::array<bool, kKeptPlaces> restored{};  // by consumers; other roles see it only if they wait for it
  std::array<int32_t, kSlots> arrivals{};
  size_t next[kRoles] = {}, end[kRoles] = {};
  WorkerState() { place.fill(kNothing); }
};

template <class Visit>
void visit_places(const TaskDesc& task, bool writes, const Visit& visit) {
  AccessList accesses;
  writes ? task_writes(task, accesses) : task_reads(task, accesses);
  for (int32_t i = 0; i < accesses.size; ++i)
    if (accesses.items[i].space == Space::kSlot) visit(accesses.items[i].id);
  if (static_cast<Op>(task.op) == Op::kTopK || (!writes && static_cast<Op>(task.op) == Op::kSample))
    visit(kKeptExperts);
  if (static_cast<Op>(task.op) == (writes ? Op::kFilter : Op::kSample)) visit(kKeptBest);
}

// Runs the tasks [next, end) of all workers. `words`: whose publications may be read, null: those of this very run.
class Simulation {
 public:
  Simulation(const Program& program, std::vector<WorkerState>& workers, Log& log, Prng& prng)
      : program_(program), workers_(workers), log_(log), prng_(prng) {}

  // What could not run; empty: everything did.
  std::string run(const Log* words, const Segment* segment) {
    words_ = words != nullptr ? &words->published : &log_.published;
    segment_ = segment;
    std::vector<int32_t> lanes(workers_.size() * kRoles);
    std::iota(lanes.begin(), lanes.end(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = lanes.size(); i > 1; --i) std::swap(lanes[i - 1], lanes[prng_.below(static_cast<uint32_t>(i))]);
      for (const int32_t lane : lanes) moved |= advance(lane / kRoles, static_cast<Role>(lane % kRoles));
    }
    for (size_t w = 0; w < workers_.size(); ++w)
      for (int32_t r = 0; r < kRoles; ++r)
        if (workers_[w].next[r] != workers_[w].end[r])
          return "worker " + std::to_string(w) + " " + role_name(static_cast<Role>(r)) + " task " +
                 std::to_string(workers_[w].next[r]);
    return "";
  }

 private:
  bool advance(int32_t worker, Role role) {
    WorkerState& state = workers_[static_cast<size_t>(worker)];
    const size_t r = static_cast<size_t>(role);
    const auto list = program_.list(worker, role);
    bool moved = false;
    while (state.next[r] < state.end[r] && may_run(worker, role, list[state.next[r]])) {
      do_task(worker, role, state, list[state.next[r]]);
      ++state.next[r];
      moved = true;
    }
    return moved;
  }
  bool may_run(int32_t worker, Role role, const TaskDesc& task) const {
    const WorkerState& state = workers_[static_cast<size_t>(worker)];
    for (const BarrierWait& wait : task.barriers) {
      if (wait.id < 0) continue;
      const size_t id = static_cast<size_t>(wait.id);
      const int32_t target = wait.target - (segment_ != nullptr ? segment_->arrivals[id] : 0);
      if (target > state.arrivals[id]) return false;
    }
    if (role == Role::kConsumer && task.stream_item >= 0 && !is_loaded(worker, task.stream_item)) return false;
    if (task.wait.hop < 0 || task.wait.use < 0) return true;
    const auto found = words_->find({task.wait.hop, task.wait.use});
    if (found == words_->end()) return false;
    for (int32_t writer = task.wait.first; writer < task.wait.first + task.wait.count; ++writer)
      if (found->second.count(writer) == 0) return false;
    return true;
  }
  // In this very run of tasks: a ring does not outlive a kernel.
  bool is_loaded(int32_t worker, int32_t item) const {
    const size_t r = static_cast<size_t>(Role::kProducer);
    const auto loads = program_.list(worker, Role::kProducer);
    const size_t first = segment_ != nullptr ? static_cast<size_t>(segment_->tasks[r].first) : 0;
    for (size_t i = workers_[static_cast<size_t>(worker)].next[r]; i-- > first;)
      if (loads[i].stream_item == item) return true;
    return false;
  }
  void do_task(int32_t worker, Role role, WorkerState& state, const TaskDesc& task) {
    const size_t number = static_cast<size_t>(&task - program_.tasks.data());
    const bool sees =
        role == Role::kConsumer || (segment_ != nullptr && (segment_->waiting >> static_cast<int32_t>(role) & 1) != 0);
    visit_places(task, false, [&](int32_t place) {
      const size_t p = static_cast<size_t>(place);
      log_.reads[number].push_back(state.restored[p] && !sees ? kNothing : state.place[p]);
    });
    visit_places(task, true, [&](int32_t place) {
      state.place[static_cast<size_t>(place)] = static_cast<int32_t>(number);
      state.restored[static_cast<size_t>(place)] = false;
    });
    if (task.arrive >= 0) ++state.arrivals[static_cast<size_t>(task.arrive)];
    if (task.publish.hop >= 0) log_.published[{task.publish.hop, task.publish.use}].insert(worker);
  }

  const Program& program_;
  std::vector<WorkerState>& workers_;
  Log& log_;
  Prng& prng_;
  const std::map<std::pair<int32_t, int32_t>, std::set<int32_t>>* words_ = nullptr;
  const Segment* segment_ = nullptr;
};

Log run_whole(const Program& program, Prng& prng) {
  Log log;
  log.reads.resize(program.tasks.size());
  std::vector<WorkerState> workers(static_cast<size_t>(program.workers()));
  for (size_t w = 0; w < workers.size(); ++w)
    for (int32_t r = 0; r < kRoles; ++r)
      workers[w].end[r] = program.list(static_cast<int32_t>(w), static_cast<Role>(r)).size();
  EXPECT_EQ(Simulation(program, workers, log, prng).run(nullptr, nullptr), "");
  return log;
}

Log run_cut(const Program& program, const std::vector<Segment>& segments, Prng& prng) {
  Log log;
  log.reads.resize(program.tasks.size());
  std::vector<WorkerState> kept(static_cast<size_t>(program.workers()));
  for (size_t s = 0; s < segments.size(); ++s) {
    const Segment& segment = segments[s];
    std::vector<WorkerState> workers(kept.size());
    for (size_t w = 0; w < workers.size(); ++w) {
      for (size_t place = 0; place < kKeptPlaces; ++place)
        if (segment.restored >> place & 1) {
          workers[w].place[place] = kept[w].place[place];
          workers[w].restored[place] = true;
        }
      for (size_t r = 0; r < kRoles; ++r) {
        workers[w].next[r] = static_cast<size_t>(segment.tasks[r].first);
        workers[w].end[r] = static_cast<size_t>(segment.tasks[r].end());
      }
    }
    Log before;
    before.published = log.published;
    EXPECT_EQ(Simulation(program, workers, log, prng).run(&before, &segment), "") << "segment " << s;
    for (size_t w = 0; w < workers.size(); ++w)
      for (size_t place = 0; place < kKeptPlaces; ++place)
        if (segment.saved >> place & 1) kept[w].place[place] = workers[w].place[place];
  }
  return log;
}

// Every task of every list once, in order; nothing empty; nothing saved that nobody reads.
void check_shape(const Program& program, const std::vector<Segment>& segments) {
  uint32_t saved = 0, restored = 0;
  for (size_t r = 0; r < kRoles; ++r) {
    int32_t next = 0;
    for (const Segment& segment : segments) {
      EXPECT_EQ(segment.tasks[r].first, next);
      next = segment.tasks[r].end();
    }
    EXPECT_EQ(static_cast<size_t>(next), program.list(0, static_cast<Role>(r)).size());
  }
  for (const Segment& segment : segments) {
    int32_t tasks = 0;
    for (const Range& own : segment.tasks) tasks += own.count;
    EXPECT_GT(tasks, 0);
    EXPECT_EQ(segment.restored & ~saved, 0u) << "restored before it was saved";
    saved |= segment.saved;
    restored |= segment.restored;
  }
  EXPECT_EQ(saved, restored);
}

struct CutCase {
  const char* shape;
  int32_t workers, rows;
};
class CutSteps : public testing::TestWithParam<CutCase> {};

TEST_P(CutSteps, ReadWhatTheWholeStepReads) {
  const Program program = placed(shape_named(GetParam().shape), toy_spec(GetParam().workers), GetParam().rows);
  for (const KernelCut cut : {KernelCut::kLevels, KernelCut::kOps}) {
    const auto segments = cut_into_segments(program, cut);
    ASSERT_TRUE(segments.ok()) << segments.error().message;
    check_shape(program, *segments);
    const bool large = program.tasks.size() > 20000;
    for (uint64_t seed = 1; seed <= (large ? 1u : 4u); ++seed) {
      Prng prng(seed);
      const Log whole = run_whole(program, prng), pieces = run_cut(program, *segments, prng);
      ASSERT_EQ(pieces.reads, whole.reads) << "seed " << seed;
      ASSERT_EQ(pieces.published, whole.published) << "seed " << seed;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, CutSteps,
                         testing::Values(CutCase{"tiny", 1, 1}, CutCase{"tiny", 3, 1}, CutCase{"tiny", 16, 8},
                                         CutCase{"tiny", 128, 2}, CutCase{"demo", 3, 64}, CutCase{"demo", 16, 3},
                                         CutCase{"bench", 1, 8}, CutCase{"north", 16, 8}, CutCase{"north", 128, 1}),
                         [](const auto& made) {
                           return std::string(made.param.shape) + "_" + std::to_string(made.param.workers) + "_" +
                                  std::to_string(made.param.rows);
                         });

// The numbers that docs/megakernel.md names.
TEST(Segments, NorthHasFourKernelsALayerOrOneAnOp) {
  DeviceSpec spec = h200_spec();
  spec.workers = 128;
  for (const int32_t rows : {1, 8}) {
    const Program program = placed(shape_named("north"), spec, rows);
    EXPECT_EQ(cut_into_segments(program, KernelCut::kLevels)->size(), 4u * 49 + 4);
    EXPECT_EQ(cut_into_segments(program, KernelCut::kOps)->size(), 6u * 49 - 1 + 4);  // the first layer has no router
  }
}

// Of one row, between kernels: what norms feed twice, routes, and the residual; little beside the weights.
TEST(Segments, LittleIsKept) {
  DeviceSpec spec = h200_spec();
  spec.workers = 128;
  const Program program = placed(shape_named("north"), spec, 1);
  for (const KernelCut cut : {KernelCut::kLevels, KernelCut::kOps}) {
    const auto segments = cut_into_segments(program, cut);
    ASSERT_TRUE(segments.ok());
    uint32_t slots[kSlots];
    for (size_t i = 0; i < kSlots; ++i) slots[i] = static_cast<uint32_t>(program.slots[i].offset);
    const ScratchMap scratch = map_scratch<Cut<NorthShape, 128>>(100000, 1, 64, partial_bytes(1));
    const auto params = segment_params(program, *segments, slots, scratch);
    ASSERT_EQ(params.size(), segments->size());
    EXPECT_LE(params[0].kept_bytes, 8192u);
    std::set<std::pair<uint32_t, uint32_t>> saved;
    for (const SegmentParams& segment : params) {
      for (int32_t i = 0; i < segment.restored; ++i)
        EXPECT_EQ(saved.count({segment.restore[i].shared, segment.restore[i].kept}), 1u);
      for (int32_t i = 0; i < segment.saved; ++i) {
        const KeptRange& range = segment.save[i];
        EXPECT_TRUE(range.bytes == 4 || range.bytes % 16 == 0);
        EXPECT_LE(range.kept + range.bytes, segment.kept_bytes);
        saved.insert({range.shared, range.kept});
      }
    }
  }
}

TEST(Segments, UnlikeListsAreRefused) {
  Program program = placed(shape_named("tiny"), toy_spec(3), 1);
  program.tasks.back().layer = 5;
  const auto segments = cut_into_segments(program, KernelCut::kLevels);
  ASSERT_FALSE(segments.ok());
  EXPECT_NE(segments.error().message.find("worker 2"), std::string::npos) << segments.error().message;
}

}  // namespace
}  // namespace boreas::cuda
