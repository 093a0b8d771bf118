// Every interleaving of producers, copies in flight, arrival counter and consumer groups, for small rings, with the
// state machines of pipeline.h themselves. The explorer knows nothing of phases and parities but the hardware's rule
// for a wait; it looks for deadlock, for a stage that is filled before it was read, and for one that is read before it
// was filled.
#include "program/pipeline.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <unordered_set>
#include <vector>

namespace boreas {
namespace {

enum class CreditRule {
  kArrivalCounter,  // what pipeline.h prescribes
  kParity,          // ask the full barrier of chunk - credits
  kNone,            // the ring alone limits
};
enum class WaitOrder { kCreditFirst, kEmptyFirst };

constexpr int32_t kProducersMax = 4;
constexpr int32_t kGroupsMax = 2;

// A point of an execution. Chunks of producer p or group g before next_*[.] are behind it.
struct State {
  std::array<int32_t, kProducersMax> next_issue{};  // index into the producer's chunks
  std::array<bool, kProducersMax> past_first{};     // has done the first of its two waits
  std::array<int32_t, kGroupsMax> next_take{};
  std::array<bool, kGroupsMax> reading{};
  uint32_t landed = 0;  // bit a chunk
  int32_t arrived = 0;  // by the counter

  uint64_t key() const {
    uint64_t key = landed;
    const auto append = [&key](uint64_t value, int32_t bits) { key = key << bits | value; };
    for (int32_t i = 0; i < kProducersMax; ++i) {
      append(static_cast<uint64_t>(next_issue[static_cast<size_t>(i)]), 4);
      append(past_first[static_cast<size_t>(i)], 1);
    }
    for (int32_t i = 0; i < kGroupsMax; ++i) {
      append(static_cast<uint64_t>(next_take[static_cast<size_t>(i)]), 4);
      append(reading[static_cast<size_t>(i)], 1);
    }
    append(static_cast<uint64_t>(arrived), 4);
    return key;
  }
};

struct Step {  // of a producer or a group, as its state machine says
  int32_t chunk, stage, parity;
};

class Explorer {
 public:
  Explorer(const PipelineShape& shape, int32_t chunks, CreditRule rule, WaitOrder order)
      : shape_(shape), chunks_(chunks), rule_(rule), order_(order) {
    for (int32_t warp = 0; warp < shape.producers; ++warp) {
      ProducerTurn turn(shape, warp);
      for (; turn.has_chunk_before(chunks); turn.advance()) {
        issues_[static_cast<size_t>(warp)].push_back({turn.chunk(), turn.stage(), turn.empty_parity()});
        turns_[static_cast<size_t>(warp)].push_back(turn);
      }
    }
    for (int32_t group = 0; group < shape.groups; ++group)
      for (ConsumerTurn turn(shape, group); turn.has_chunk_before(chunks); turn.advance())
        takes_[static_cast<size_t>(group)].push_back({turn.chunk(), turn.stage(), turn.full_parity()});
    for (ArrivalCounter turn(shape); turn.arrived() < chunks; turn.advance())
      arrivals_.push_back({turn.arrived(), turn.stage(), turn.full_parity()});
  }

  // Empty if every execution ends well.
  std::string explore() {
    push(State{});
    while (!open_.empty() && problem_.empty()) {
      const State state = open_.back();
      open_.pop_back();
      const size_t moves_before = moves_;
      for (int32_t warp = 0; warp < shape_.producers; ++warp) move_producer(state, static_cast<size_t>(warp));
      for (int32_t chunk = 0; chunk < chunks_; ++chunk) land(state, chunk);
      for (int32_t group = 0; group < shape_.groups; ++group) move_group(state, static_cast<size_t>(group));
      if (rule_ == CreditRule::kArrivalCounter) count(state);
      if (moves_ == moves_before && !finished(state)) problem_ = "deadlock";
    }
    return problem_;
  }
  size_t states() const { return seen_.size(); }

 private:
  void push(const State& state) {
    ++moves_;
    if (seen_.insert(state.key()).second) open_.push_back(state);
  }

  bool is_issued(const State& state, int32_t chunk) const {
    const size_t warp = static_cast<size_t>(chunk % shape_.producers);
    return chunk / shape_.producers < state.next_issue[warp];
  }
  static bool is_landed(const State& state, int32_t chunk) { return state.landed >> chunk & 1; }
  bool is_released(const State& state, int32_t chunk) const {
    for (size_t group = 0; group < static_cast<size_t>(shape_.groups); ++group)
      for (size_t i = 0; i < static_cast<size_t>(state.next_take[group]); ++i)
        if (takes_[group][i].chunk == chunk) return true;
    return false;
  }

  // The hardware's rule: a wait for a parity passes when the phase in progress has the other one.
  bool passes(int32_t phases_completed, int32_t parity) const { return (phases_completed & 1) != parity; }
  int32_t full_phases(const State& state, int32_t stage) const {
    int32_t phases = 0;
    for (int32_t chunk = stage; chunk < chunks_; chunk += shape_.stages) phases += is_landed(state, chunk);
    return phases;
  }
  int32_t empty_phases(const State& state, int32_t stage) const {
    int32_t phases = 0;
    for (int32_t chunk = stage; chunk < chunks_; chunk += shape_.stages) phases += is_released(state, chunk);
    return phases;
  }

  bool has_credit(const State& state, size_t warp, int32_t chunk) const {
    if (rule_ == CreditRule::kNone) return true;
    if (rule_ == CreditRule::kArrivalCounter)
      return turns_[warp][static_cast<size_t>(state.next_issue[warp])].has_credit(state.arrived);
    const int32_t earlier = chunk - shape_.credits;
    if (earlier < 0) return true;
    return passes(full_phases(state, earlier % shape_.stages), earlier / shape_.stages & 1);
  }

  void move_producer(const State& state, size_t warp) {
    if (static_cast<size_t>(state.next_issue[warp]) == issues_[warp].size()) return;
    const Step step = issues_[warp][static_cast<size_t>(state.next_issue[warp])];
    State next = state;
    const bool asks_credit = state.past_first[warp] == (order_ == WaitOrder::kEmptyFirst);
    if (asks_credit ? !has_credit(state, warp, step.chunk) : !passes(empty_phases(state, step.stage), step.parity))
      return;
    if (!state.past_first[warp]) {
      next.past_first[warp] = true;
      return push(next);
    }
    for (int32_t other = step.stage; other < chunks_; other += shape_.stages) {
      const bool is_earlier = other < step.chunk;
      if (is_earlier != is_issued(state, other) || (is_earlier && !is_released(state, other)))
        problem_ = "chunk " + std::to_string(step.chunk) + " overwrites chunk " + std::to_string(other);
      if (other >= step.chunk) break;
    }
    next.past_first[warp] = false;
    ++next.next_issue[warp];
    push(next);
  }

  // Copies land in any order.
  void land(const State& state, int32_t chunk) {
    if (!is_issued(state, chunk) || is_landed(state, chunk)) return;
    State next = state;
    next.landed |= 1u << chunk;
    push(next);
  }

  void move_group(const State& state, size_t group) {
    if (static_cast<size_t>(state.next_take[group]) == takes_[group].size()) return;
    const Step step = takes_[group][static_cast<size_t>(state.next_take[group])];
    State next = state;
    if (!state.reading[group]) {
      if (!passes(full_phases(state, step.stage), step.parity)) return;
      if (!is_landed(state, step.chunk))
        problem_ = "chunk " + std::to_string(step.chunk) + " is read before it is there";
      next.reading[group] = true;
    } else {
      next.reading[group] = false;
      ++next.next_take[group];
    }
    push(next);
  }

  void count(const State& state) {
    if (state.arrived == chunks_) return;
    const Step step = arrivals_[static_cast<size_t>(state.arrived)];
    if (!passes(full_phases(state, step.stage), step.parity)) return;
    if (!is_landed(state, step.chunk))
      problem_ = "chunk " + std::to_string(step.chunk) + " is counted before it arrives";
    State next = state;
    ++next.arrived;
    push(next);
  }

  bool finished(const State& state) const {
    for (size_t group = 0; group < static_cast<size_t>(shape_.groups); ++group)
      if (static_cast<size_t>(state.next_take[group]) < takes_[group].size()) return false;
    return rule_ != CreditRule::kArrivalCounter || state.arrived == chunks_;
  }

  PipelineShape shape_;
  int32_t chunks_;
  CreditRule rule_;
  WaitOrder order_;
  std::array<std::vector<Step>, kProducersMax> issues_;
  std::array<std::vector<ProducerTurn>, kProducersMax> turns_;
  std::array<std::vector<Step>, kGroupsMax> takes_;
  std::vector<Step> arrivals_;
  std::vector<State> open_;
  std::unordered_set<uint64_t> seen_;
  size_t moves_ = 0;
  std::string problem_;
};

std::string explore(const PipelineShape& shape, int32_t chunks, CreditRule rule,
                    WaitOrder order = WaitOrder::kEmptyFirst) {
  return Explorer(shape, chunks, rule, order).explore();
}

std::string describe(const PipelineShape& shape) {
  return std::to_string(shape.stages) + " stages, " + std::to_string(shape.producers) + " producers, " +
         std::to_string(shape.groups) + " groups, turns of " + std::to_string(shape.turn) + ", " +
         std::to_string(shape.credits) + " credits";
}

template <class Visit>
void for_each_shape(Visit visit) {
  for (int32_t stages = 2; stages <= 6; ++stages)
    for (int32_t producers = 1; producers <= kProducersMax; ++producers)
      for (int32_t groups = 1; groups <= kGroupsMax; ++groups)
        for (int32_t turn = 1; turn <= 2; ++turn)
          for (int32_t credits = 1; credits <= stages; ++credits) visit({stages, producers, groups, turn, credits});
}

// Two and a half rounds show every parity twice; 12 chunks for the larger rings.
int32_t chunks_for(const PipelineShape& shape) { return shape.stages < 5 ? 2 * shape.stages + 3 : 12; }

TEST(Pipeline, ValidShapesAreSafeInEveryInterleaving) {
  size_t shapes = 0, states = 0;
  for_each_shape([&](const PipelineShape& shape) {
    if (!is_valid(shape)) return;
    Explorer explorer(shape, chunks_for(shape), CreditRule::kArrivalCounter, WaitOrder::kEmptyFirst);
    EXPECT_EQ(explorer.explore(), "") << describe(shape);
    ++shapes;
    states += explorer.states();
  });
  std::printf("%zu shapes, %zu states\n", shapes, states);
  EXPECT_GT(shapes, 80u);
}

TEST(Pipeline, CreditsByParityAreFoundBadWithFourProducers) {
  int32_t bad = 0;
  for_each_shape([&](const PipelineShape& shape) {
    if (!is_valid(shape) || shape.producers != 4 || shape.turn != 1) return;
    bad += !explore(shape, chunks_for(shape), CreditRule::kParity).empty();
  });
  EXPECT_GT(bad, 0);
  // As it was met on the machine: enough credits that the others can lap the one who asks.
  EXPECT_EQ(explore({4, 4, 2, 1, 3}, 12, CreditRule::kParity), "deadlock");
  EXPECT_EQ(explore({4, 4, 2, 1, 3}, 12, CreditRule::kArrivalCounter), "");
}

TEST(Pipeline, OneProducerMayCountByParity) {
  for_each_shape([&](const PipelineShape& shape) {
    if (!is_valid(shape) || shape.producers != 1) return;
    EXPECT_EQ(explore(shape, chunks_for(shape), CreditRule::kParity), "") << describe(shape);
  });
}

// Whoever changes groups from round to round reads what is not there: each such ring is found bad.
TEST(Pipeline, StagesThatAreNoMultipleOfTheGroupsAreFoundBad) {
  int32_t found = 0, missed = 0;
  for_each_shape([&](const PipelineShape& shape) {
    if (shape.stages % (shape.groups * shape.turn) == 0 || shape.producers > shape.stages || shape.groups == 1) return;
    if (explore(shape, chunks_for(shape), CreditRule::kArrivalCounter).empty()) ++missed;
    else ++found;
  });
  std::printf("%d bad rings found, %d safe by their credits\n", found, missed);
  EXPECT_GT(found, missed);
  EXPECT_NE(explore({3, 1, 2, 1, 3}, 9, CreditRule::kArrivalCounter), "");
  EXPECT_NE(explore({5, 2, 2, 1, 5}, 12, CreditRule::kArrivalCounter), "");
}

// A stage must belong to one producer, unless that one waits for his credit first: without that order or the counter,
// other rings are found bad.
TEST(Pipeline, StagesThatAreNoMultipleOfTheProducersAreFoundBad) {
  int32_t found = 0;
  for_each_shape([&](const PipelineShape& shape) {
    if (shape.stages % shape.producers == 0 || shape.stages < shape.producers ||
        shape.stages % (shape.groups * shape.turn) != 0)
      return;
    EXPECT_FALSE(is_valid(shape));
    found += !explore(shape, chunks_for(shape), CreditRule::kArrivalCounter).empty();
    EXPECT_EQ(explore(shape, chunks_for(shape), CreditRule::kArrivalCounter, WaitOrder::kCreditFirst), "")
        << describe(shape);
  });
  std::printf("%d bad rings found\n", found);
  EXPECT_GT(found, 0);
  EXPECT_NE(explore({4, 3, 2, 1, 4}, 12, CreditRule::kArrivalCounter), "");
  EXPECT_NE(explore({4, 3, 2, 1, 4}, 12, CreditRule::kNone), "");
  EXPECT_NE(explore({3, 4, 1, 1, 3}, 12, CreditRule::kNone), "");
}

constexpr int32_t last_stage_of_a_walk() {
  ConsumerTurn turn({12, 4, 2, 1, 5}, 1);
  for (int32_t i = 0; i < 6; ++i) turn.advance();
  return turn.stage() * 10 + turn.full_parity();
}
static_assert(last_stage_of_a_walk() == 11, "after a round of 12 stages group 1 is back at stage 1, parity 1");
static_assert(!is_valid({11, 4, 2, 1, 5}) && !is_valid({10, 4, 2, 1, 5}) && is_valid({12, 4, 2, 1, 5}));

}  // namespace
}  // namespace boreas
