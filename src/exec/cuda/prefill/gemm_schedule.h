// Which tile of a prefill product a block computes next: integer math over the tokens of each group (of each expert; a
// dense product has one group). The lists are made on the device, so every block works this out for itself, once, in
// shared memory; gemm_schedule_test.cc runs the same code.
//
// A group's tokens are cut into tiles of `width` tokens and one of what is left, in steps of 64. All blocks take tiles
// in turn, widest first: those taken at about the same time cost the same. Full tiles come group by group, and within a
// group neighbours share rows of W or tokens, so that they meet in the L2 cache.
#pragma once

#include <cstdint>

#include "program/layout.h"

namespace boreas::cuda {

constexpr int32_t kGemmGroupsMax = 128;
constexpr int32_t kGemmWidthStep = 64;
constexpr int32_t kGemmWidthMax = 256;      // tokens of a tile: N of the widest MMA
constexpr int32_t kGemmTokenTilesNear = 8;  // token tiles that take turns before the next 128 rows of W

struct GemmSchedule {
  int32_t first[kGemmGroupsMax + 1];        // rows of Y: group g has first[g] .. first[g + 1] - 1
  int32_t full_before[kGemmGroupsMax + 1];  // full tiles of groups below
  int32_t rest_count;                       // groups with a narrower tile
  uint16_t full[kGemmGroupsMax];
  uint8_t rest[kGemmGroupsMax];        // width of the group's last tile if it is narrower, in steps; 0: there is none
  uint8_t rest_group[kGemmGroupsMax];  // the groups that have one, widest first
};

// To fill a schedule, `first` comes before; then every group's cut, then every group's place.
constexpr void cut_group(GemmSchedule& s, int32_t group, int32_t width) {
  const int32_t tokens = s.first[group + 1] - s.first[group];
  const int32_t steps = ceil_div_32(tokens % width, kGemmWidthStep);
  const bool whole = steps * kGemmWidthStep == width;
  s.full[group] = static_cast<uint16_t>(tokens / width + (whole ? 1 : 0));
  s.rest[group] = static_cast<uint8_t>(whole ? 0 : steps);
}
constexpr void place_group(GemmSchedule& s, int32_t groups, int32_t group) {
  int32_t before = 0, rank = 0, rests = 0;
  for (int32_t other = 0; other < groups; ++other) {
    before += other < group ? s.full[other] : 0;
    rank += s.rest[other] > s.rest[group] || (s.rest[other] == s.rest[group] && other < group) ? 1 : 0;
    rests += s.rest[other] > 0 ? 1 : 0;
  }
  s.full_before[group] = before;
  if (s.rest[group] > 0) s.rest_group[rank] = static_cast<uint8_t>(group);
  if (group == groups - 1) {
    s.full_before[groups] = before + s.full[group];
    s.rest_count = rests;
  }
}

struct GemmWork {
  int32_t group;
  int32_t row_tile;  // of W
  int32_t row;       // of Y: the first token
  int32_t tokens;    // how many are wanted
  int32_t width;     // of the tile, in steps
};

constexpr int32_t work_count(const GemmSchedule& s, int32_t groups, int32_t row_tiles) {
  return (s.full_before[groups] + s.rest_count) * row_tiles;
}
constexpr int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
constexpr GemmWork work_at(const GemmSchedule& s, int32_t groups, int32_t row_tiles, int32_t width, int32_t index) {
  const int32_t full_works = s.full_before[groups] * row_tiles;
  int32_t group, row_tile, token_tile, steps = width / kGemmWidthStep;
  if (index < full_works) {
    int32_t low = 0, high = groups - 1;  // the last group that begins at or before the tile
    while (low < high) {
      const int32_t middle = (low + high + 1) / 2;
      if (s.full_before[middle] * row_tiles <= index) low = middle;
      else high = middle - 1;
    }
    group = low;
    const int32_t inside = index - s.full_before[group] * row_tiles;
    const int32_t near = inside / (kGemmTokenTilesNear * row_tiles) * kGemmTokenTilesNear;
    const int32_t left = inside - near * row_tiles, turn = least(kGemmTokenTilesNear, s.full[group] - near);
    row_tile = left / turn;
    token_tile = near + left % turn;
  } else {
    group = s.rest_group[(index - full_works) / row_tiles];
    row_tile = (index - full_works) % row_tiles;
    token_tile = s.full[group];
    steps = s.rest[group];
  }
  const int32_t row = s.first[group] + token_tile * width;
  return {group, row_tile, row, least(s.first[group + 1] - row, steps * kGemmWidthStep), steps};
}

// The width for a dense product that takes least time: blocks work in rounds, and a tile's time grows with its width
// from what its share of W costs. Any width gives the same bits.
constexpr int32_t gemm_width(int32_t tokens, int32_t row_tiles, int32_t blocks) {
  constexpr int32_t kWeightCost = 128;  // of 128 rows of W, in tokens
  int32_t best = kGemmWidthMax, best_cost = 0;
  for (int32_t width = kGemmWidthMax; width >= kGemmWidthStep; width /= 2) {
    const int32_t rounds = ceil_div_32(ceil_div_32(tokens, width) * row_tiles, blocks);
    const int32_t cost = rounds * (width + kWeightCost);
    if (best_cost == 0 || cost < best_cost) {
      best = width;
      best_cost = cost;
    }
  }
  return best;
}

// For groups, by what they have on average: wide tiles read W less often, narrow ones leave room for more of it on its
// way, which is all that counts where W's bytes take the time. assignments: at most; 0: not known.
constexpr int32_t gemm_group_width(int32_t assignments, int32_t groups) {
  if (assignments == 0) return kGemmWidthMax;
  return assignments <= 24 * groups ? 64 : assignments <= 80 * groups ? 128 : kGemmWidthMax;
}

}  // namespace boreas::cuda
