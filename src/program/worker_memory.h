// Bytes that follow from a shape and a cut: of a worker's slots, and of what the producer streams for a task. Used by
// placement, which lays memory out, and by the structure check, which proves that it is enough.
#pragma once

#include <cstdint>

#include "model/model.h"
#include "program/layout.h"
#include "program/ops/all.h"
#include "program/task.h"
#include "program/weight_tiles.h"

namespace boreas {

// Offsets of slots are multiples of this: bulk copies and vector loads of any width are aligned.
constexpr int64_t kSlotAlign = 128;

// How many inner vectors of a routed layer, the first ones in the order of their experts and then rows, are gathered
// into a slot of their own (kInnerFirst), so that DOWN can begin with these while OUT_PROJ still needs the memory of
// the rest: as many as slot kNormed holds, which is free by then, but not all. 0 for so few rows that all inner vectors
// have memory of their own, and for models without routed layers.
int32_t inner_first_vectors(const ModelConfig& config, int32_t rows);

// Bytes of a slot for `rows` rows; shapes stand at the enumerators in task.h. Enough for every worker of so many.
int64_t slot_bytes(const ModelConfig& config, int32_t workers, int32_t rows, Slot slot);

// Bytes of one unit of the stream that `consumer` takes: all its weights, those of one expert, or one KV page's K and V
// of one head and layer. 0 where the worker's share is empty.
int64_t stream_unit_bytes(const ModelConfig& config, LoadOp::Stream stream, const TaskDesc& consumer);

// Pieces of that unit (weight_tiles.h).
int32_t stream_unit_pieces(const ModelConfig& config, LoadOp::Stream stream, const TaskDesc& consumer);

// Units of it in a step of `rows` rows with `context` positions each that hit as many distinct experts as they can.
int64_t stream_units(const ModelConfig& config, const TaskDesc& consumer, int32_t rows, int32_t context);

// What a consumer task of this op streams in this layer; -1: nothing.
int32_t stream_of(const ModelConfig& config, Op op, int32_t layer);

constexpr StreamCount stream_count_of(int32_t stream) {
  if (stream == LoadOp::kKvPages) return StreamCount::kPages;
  if (stream == LoadOp::kExpertUpGate || stream == LoadOp::kExpertDown) return StreamCount::kExperts;
  return StreamCount::kOne;
}

}  // namespace boreas
