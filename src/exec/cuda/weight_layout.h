// Where every weight lies on the device: one region a matrix (and layer), in which worker after worker finds its unit
// as one contiguous run (program/weight_tiles.h). One copy of every weight; padding only between regions. The kernel
// computes the same places from compile-time shapes (Cut in shape.h); weight_layout_test.cc compares both.
//
//   qkv      unit of a worker: its q rows, its k rows, its v rows of one KV head
//   router   its experts' rows
//   up_gate  expert after expert (a dense MLP: one); unit: gate row, up row, gate row, ... of its slice
//   output   its hidden rows
//   down     expert after expert; unit: its hidden rows
//   lm_head  its vocabulary rows; also the embedding
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cuda/step_params.h"
#include "model/model.h"
#include "program/weight_tiles.h"

namespace boreas::cuda {

constexpr uint64_t kRegionAlign = 256;

struct RowPlace {
  int64_t offset = 0;  // bytes from the region's base (of an expert's part of it): column 0
  // Bytes from one block of 32 columns to the next; says how high the row's tile is. 0: no tile, columns as they are.
  int32_t block_stride = 0;
};
// Bytes from the region's base to columns 2 * pair and 2 * pair + 1 of a row.
constexpr int64_t pair_offset(const RowPlace& place, int32_t pair) {
  if (place.block_stride == 0) return place.offset + int64_t{pair} * 4;
  constexpr int32_t kPairs = kBlockColumns / 2;
  const bool tall = place.block_stride == kTileRowsMax * kBlockRowBytes;
  return place.offset + int64_t{pair / kPairs} * place.block_stride + pair_in_row(tall, pair % kPairs);
}

// Places of a role's rows in its region, at least as many workers as KV heads. Query, key and value share the region
// `qkv`, gate and up of an expert (or of the dense MLP) the region `up_gate`. Norms are rows as they are.
std::vector<RowPlace> row_places(const ModelConfig& config, int32_t workers, WeightRole role);

struct WeightLayout {
  std::vector<LayerWeights> layers;
  uint64_t lm_head = 0;
  uint64_t bytes = 0;                  // of all regions
  uint64_t expert_up_gate_stride = 0;  // from one expert's unit region to the next
  uint64_t expert_down_stride = 0;
};
WeightLayout lay_out_weights(const ModelConfig& config);

// Fills in what LOAD tasks hold on the device (DeviceLoadArg), for all of a program. list_first: as in Program.
void address_loads(const ModelConfig& config, const WeightLayout& layout, std::span<const int32_t> list_first,
                   std::span<TaskDesc> tasks);

// Byte offset in `weights` of what row_places counts from. Not for norms.
uint64_t region_offset(const WeightLayout& layout, WeightRole role, int32_t layer, int32_t expert);

}  // namespace boreas::cuda
