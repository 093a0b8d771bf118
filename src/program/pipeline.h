// The ring between a worker's producer warps and its consumer groups, as constexpr state machines: which warp handles
// which chunk, in which stage, and by which parity it waits. The GPU's worker runs them; place.cc sizes the ring by
// is_valid; pipeline_test.cc steps them through every interleaving for small rings.
//
//   chunk    0    1    2    3    4    5    6 ...     numbered through the whole step, across items and layers
//   stage    0    1    2    3    0    1    2         chunk mod stages; its round is chunk / stages
//   producer 0    1    0    1    0    1    0         chunk mod producers: warps issue copies in turn
//   group    0    1    0    1    0    1    0         (chunk / turn) mod groups: groups of warps compute in turn
//
// A stage has two phase barriers. `full` completes a phase when a copy has landed, `empty` when a group has released
// the chunk; so after round r both have completed r + 1 phases. A wait names a phase by its parity only, and that is
// what makes the rules below necessary: a warp that asks of a barrier that others may have lapped is told a lie.
//
//   1. A stage always belongs to one group: stages is a multiple of groups * turn. Else a group could ask for a phase
//      of `full` whose predecessor it never waited for, and read a stage that is not filled.
//   2. A chunk may be issued when fewer than `credits` (at most stages) chunks before it have not arrived, counted in
//      order by one warp (ArrivalCounter) in a shared word, never by asking the `full` barrier of chunk - credits:
//      other producers may have lapped it. The counter itself is never lapped, because nobody is further than `credits`
//      ahead of it.
//   3. A producer waits for `empty` first, so that all it has to do before a copy is done when the copy's credit comes.
//      Therefore a stage belongs to one producer: stages is a multiple of producers. Else a producer could pass a phase
//      of `empty` that is two behind. (Its credit first, which says that the stage's last chunk has arrived, would
//      spare that; then the wait for `empty` lies between a credit and its copy.) Before its credit a chunk must not be
//      able to land, or it could lap the counter.
#pragma once

#include <cstdint>

namespace boreas {

struct PipelineShape {
  int32_t stages = 1;
  int32_t producers = 1;
  int32_t groups = 1;
  int32_t turn = 1;     // chunks that a group takes in a row; 2 where K and V of a page belong together
  int32_t credits = 1;  // chunks issued and not yet arrived
};

constexpr bool is_valid(const PipelineShape& shape) {
  return shape.producers >= 1 && shape.groups >= 1 && shape.turn >= 1 && shape.stages >= shape.producers &&
         shape.stages % (shape.groups * shape.turn) == 0 && shape.stages % shape.producers == 0 && shape.credits >= 1 &&
         shape.credits <= shape.stages;
}

// A walk over chunk numbers that keeps stage and parity without dividing.
class ChunkCursor {
 public:
  constexpr ChunkCursor(int32_t first, int32_t stages)
      : chunk_(first), stages_(stages), stage_(first % stages), odd_round_((first / stages) & 1) {}

  constexpr int32_t chunk() const { return chunk_; }
  constexpr int32_t stage() const { return stage_; }
  constexpr int32_t odd_round() const { return odd_round_; }  // 0 or 1
  // distance <= stages
  constexpr void advance(int32_t distance) {
    chunk_ += distance;
    stage_ += distance;
    if (stage_ >= stages_) {
      stage_ -= stages_;
      odd_round_ ^= 1;
    }
  }

 private:
  int32_t chunk_;
  int32_t stages_;
  int32_t stage_;
  int32_t odd_round_;
};

// One producer warp: wait for `empty`, arm `full`, wait until has_credit, issue the copy, then advance.
class ProducerTurn {
 public:
  constexpr ProducerTurn(const PipelineShape& shape, int32_t warp)
      : cursor_(warp, shape.stages), producers_(shape.producers), credits_(shape.credits) {}

  constexpr int32_t chunk() const { return cursor_.chunk(); }
  constexpr int32_t stage() const { return cursor_.stage(); }
  // Of the phase of `empty` before this round. A barrier that has completed no phase yet passes a wait for parity 1.
  constexpr int32_t empty_parity() const { return cursor_.odd_round() ^ 1; }
  constexpr bool has_credit(int32_t arrived) const { return cursor_.chunk() - arrived < credits_; }
  constexpr bool has_chunk_before(int32_t item_end) const { return cursor_.chunk() < item_end; }
  constexpr void advance() { cursor_.advance(producers_); }

 private:
  ChunkCursor cursor_;
  int32_t producers_;
  int32_t credits_;
};

// The warp that counts arrivals: wait `full` of its chunk, then store arrived() + 1 to the shared word, then advance.
class ArrivalCounter {
 public:
  constexpr explicit ArrivalCounter(const PipelineShape& shape) : cursor_(0, shape.stages) {}

  constexpr int32_t arrived() const { return cursor_.chunk(); }
  constexpr int32_t stage() const { return cursor_.stage(); }
  constexpr int32_t full_parity() const { return cursor_.odd_round(); }
  constexpr void advance() { cursor_.advance(1); }

 private:
  ChunkCursor cursor_;
};

// One consumer group: wait `full`, read the stage, arrive at `empty`, then advance.
class ConsumerTurn {
 public:
  constexpr ConsumerTurn(const PipelineShape& shape, int32_t group)
      : cursor_(group * shape.turn, shape.stages), turn_(shape.turn), others_(shape.turn * (shape.groups - 1)) {}

  constexpr int32_t chunk() const { return cursor_.chunk(); }
  constexpr int32_t stage() const { return cursor_.stage(); }
  constexpr int32_t full_parity() const { return cursor_.odd_round(); }
  constexpr bool has_chunk_before(int32_t item_end) const { return cursor_.chunk() < item_end; }
  constexpr void advance() {
    const bool turn_over = ++taken_ == turn_;
    if (turn_over) taken_ = 0;
    cursor_.advance(turn_over ? 1 + others_ : 1);
  }

 private:
  ChunkCursor cursor_;
  int32_t turn_;
  int32_t others_;
  int32_t taken_ = 0;
};

}  // namespace boreas
