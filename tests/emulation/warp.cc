// What the lanes of a warp do together: the last to arrive computes the results of all. Called through
// device_emulation.h.
#include <bit>
#include <cstring>

#include "grid.h"
#include "races.h"

namespace boreas::emulation {
namespace {

// A vector of the compiler's, so that the inner loop needs no optimiser.
typedef float Float8 __attribute__((vector_size(32)));

float low_half(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float high_half(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

// Operands: a0..a3, b0, b1, d[4]; layouts as in ptx.cuh.
void multiply(Lane* lanes) {
  float a[16][16], d[16][8];
  Float8 b[16];  // row k
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t g = lane / 4, c = lane % 4 * 2;
    const uint32_t* in = lanes[lane].operands;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = g + i % 2 * 8, column = c + i / 2 * 8;
      a[row][column] = low_half(in[i]);
      a[row][column + 1] = high_half(in[i]);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      b[c + i * 8][g] = low_half(in[4 + i]);
      b[c + i * 8 + 1][g] = high_half(in[4 + i]);
      std::memcpy(&d[g + i * 8][c], in + 6 + 2 * i, 2 * sizeof(float));
    }
  }
  for (uint32_t row = 0; row < 16; ++row) {
    Float8 sum;
    std::memcpy(&sum, d[row], sizeof sum);
    for (uint32_t k = 0; k < 16; ++k) sum = sum + a[row][k] * b[k];
    std::memcpy(d[row], &sum, sizeof sum);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t g = lane / 4, c = lane % 4 * 2;
    std::memcpy(lanes[lane].results, &d[g][c], 2 * sizeof(float));
    std::memcpy(lanes[lane].results + 2, &d[g + 8][c], 2 * sizeof(float));
  }
}

void transpose(Lane* lanes) {
  const auto element = [lanes](uint32_t row, uint32_t column) {
    return lanes[4 * row + column / 2].operands[0] >> (column % 2 * 16) & 0xffffu;
  };
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t row = lane / 4, column = lane % 4 * 2;
    lanes[lane].results[0] = element(column, row) | element(column + 1, row) << 16;
  }
}

// Which lane's value `lane` gets. As the chip does, only the low five bits of the argument count.
uint32_t source_lane(Primitive at, uint32_t lane, uint32_t argument) {
  const uint32_t low = argument % kLanes;
  switch (at) {
    case Primitive::kShuffle:
      return low;
    case Primitive::kShuffleXor:
      return lane ^ low;
    default:  // down: beyond the last lane it keeps its own
      return lane + low < kLanes ? lane + low : lane;
  }
}

void vote(Primitive at, Lane* lanes) {
  uint32_t bits = 0, largest = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t value = lanes[lane].operands[0];
    bits |= static_cast<uint32_t>(value != 0) << lane;
    largest = value > largest ? value : largest;
  }
  uint32_t result = largest;
  if (at == Primitive::kAllLanes) result = bits == kFullWarp;
  if (at == Primitive::kBallot) result = bits;
  for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane].results[0] = result;
}

void check_same_barrier(const Warp& warp) {
  for (uint32_t lane = 1; lane < kLanes; ++lane) {
    if (std::memcmp(warp.lanes[lane].detail, warp.lanes[0].detail, sizeof warp.lanes[0].detail) != 0) {
      fail("lanes of a warp meet at different named barriers or counts", warp.lanes[lane].where);
    }
  }
}

// The whole warp has arrived; false: it must wait for others.
bool arrive_at_barrier(Warp& warp, const Where& where) {
  check_same_barrier(warp);
  const uint32_t id = warp.lanes[0].detail[0];
  const int32_t threads = static_cast<int32_t>(warp.lanes[0].detail[1]);
  const bool block_wide = warp.lanes[0].at == Primitive::kBlockSync;
  if (id >= kNamedBarriers || (id == 0 && !block_wide)) fail("a named barrier's id is 1 to 15", where);
  if (threads <= 0 || threads % kLanes != 0 || threads > grid->options.threads) {
    fail("a named barrier counts " + std::to_string(threads) + " threads: not a multiple of 32 within the block",
         where);
  }
  NamedBarrier& barrier = warp.block->barriers[id];
  if (barrier.arrived != 0 && barrier.threads != threads) {
    fail("barrier " + std::to_string(id) + " counts " + std::to_string(threads) + " threads here and " +
             std::to_string(barrier.threads) + " for those who wait",
         where);
  }
  barrier.threads = threads;
  barrier.warps |= 1u << warp.warp;
  barrier.arrived += kLanes;
  if (barrier.arrived < threads) return false;
  if (warp.block->races != nullptr) warp.block->races->sync_warps(barrier.warps);
  for (uint32_t left = barrier.warps; left != 0; left &= left - 1) {
    Warp& other = warp.block->warps[std::countr_zero(left)];
    other.meeting = 0;
    other.ready = kFullWarp;
  }
  barrier = {};
  return true;
}

// All lanes have arrived: their results.
void conclude(Primitive at, Lane* lanes) {
  switch (at) {
    case Primitive::kShuffle:
    case Primitive::kShuffleXor:
    case Primitive::kShuffleDown:
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane].results[0] = lanes[source_lane(at, lane, lanes[lane].operands[1])].operands[0];
      }
      break;
    case Primitive::kReduceMax:
    case Primitive::kAllLanes:
    case Primitive::kBallot:
      vote(at, lanes);
      break;
    case Primitive::kMma:
      multiply(lanes);
      break;
    case Primitive::kTranspose:
      transpose(lanes);
      break;
    default:  // synchronisation alone
      break;
  }
}

bool is_block_barrier(Primitive at) { return at == Primitive::kBlockSync || at == Primitive::kNamedBarrier; }

// Of one instruction, not only of one kind: what PTX calls aligned.
bool is_aligned(Primitive at) { return at == Primitive::kMma || at == Primitive::kTranspose || is_block_barrier(at); }

void check_convergence(const Lane& self) {
  const Warp& warp = *self.warp;
  if (warp.returned != 0) {
    fail("meets a warp of which a lane has returned: " + place_of(warp.lanes[std::countr_zero(warp.returned)]),
         self.where);
  }
  if (warp.meeting == 0) return;
  const Lane& other = warp.lanes[std::countr_zero(warp.meeting)];
  const bool same_line = other.where.line == self.where.line && std::strcmp(other.where.file, self.where.file) == 0;
  if (other.at != self.at || (is_aligned(self.at) && !same_line)) {
    fail(std::string("is at ") + name_of(self.at) + " where " + place_of(other) + " waits in " + name_of(other.at) +
             " at " + text_of(other.where),
         self.where);
  }
}

}  // namespace

void meet(Primitive at, const Where& where) {
  Lane& self = *current;
  Warp& warp = *self.warp;
  self.at = at;
  self.where = where;
  check_convergence(self);
  const uint32_t bit = 1u << self.lane;
  warp.ready &= ~bit;
  warp.meeting |= bit;
  if (warp.meeting != kFullWarp) {
    leave(self);
    return;
  }
  ++grid->result.meetings;
  if (is_block_barrier(at)) {
    ++events;
    if (!arrive_at_barrier(warp, where)) leave(self);
    return;
  }
  if (at == Primitive::kWarpSync && warp.block->races != nullptr) warp.block->races->sync_warp(warp.warp);
  conclude(at, warp.lanes);
  warp.meeting = 0;
  warp.ready = kFullWarp;
}

}  // namespace boreas::emulation
