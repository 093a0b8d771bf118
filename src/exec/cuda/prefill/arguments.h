// Arguments of the prefill kernels: plain data that the host fills and kernels read. [tokens] runs over a batch.
#pragma once

#include <cstdint>

#include "exec/cuda/prefill/batch.h"
#include "program/weight_tiles.h"

namespace boreas::cuda::prefill {

struct EmbedArgs {
  const PrefillToken* tokens;
  const uint8_t* lm_head;  // its region of the re-laid weights
  uint16_t* residual;      // [tokens][hidden] bf16
  int32_t hidden, vocabulary, workers;
};

struct RopeArgs {
  const PrefillToken* tokens;
  float* turns;  // [tokens][head_dim / 2][2] cosine and sine
  int32_t token_count;
  float frequency[kKvHeadDim / 2];
};

// RoPE of q in place; k and v into their pages.
struct AppendArgs {
  const PrefillToken* tokens;
  uint16_t* qkv;       // [tokens][(query_heads + 2 kv_heads) * head_dim] bf16
  const float* turns;  // as RopeArgs; null: no RoPE in this layer
  const int32_t* page_tables;
  uint8_t* pages;  // of the layer's pool
  uint64_t page_bytes;
  uint64_t layer_offset;  // in a page, of the layer's first KV head
  int32_t token_count, query_heads, kv_heads, sliding;
};

// One layer's K and V of the pages that a batch sees, laid out for wgmma: see unfold.cuh.
struct UnfoldArgs {
  const UnfoldedPage* list;  // [blocks / kv_heads]
  const int32_t* page_tables;
  const uint8_t* pages;               // as AppendArgs
  uint64_t page_bytes, layer_offset;  // as AppendArgs
  uint8_t* unfolded;                  // [places][kv_heads][kUnfoldedBytes], aligned to kUnfoldedAlign
  int32_t kv_heads;
};

struct AttentionArgs {
  const uint16_t* qkv;         // as AppendArgs, RoPE applied
  uint16_t* output;            // [tokens][query_heads * head_dim] bf16 in operand order
  const AttentionItem* items;  // [blocks / kv_heads]
  const uint8_t* unfolded;     // as UnfoldArgs
  int32_t query_heads, kv_heads, sliding, window;
};

struct RouteArgs {
  const uint16_t* logits;  // [tokens][experts] bf16
  int32_t* chosen;         // [tokens][choices] ascending
  float* weights;          // [tokens][choices] sigmoid of their logits
  int32_t* counts;         // [blocks of kGroupTokens][experts]
  int32_t* first;          // [experts + 1] where an expert's assignments begin
  int32_t* rows;           // [tokens * choices] the token of each assignment
  int32_t* slots;          // [tokens][choices] the assignment of each choice
  int32_t tokens, experts, choices;
};

// The end of a layer and the norm of the next one.
struct FinishArgs {
  uint16_t* residual;      // [tokens][hidden] bf16
  const float* projected;  // [tokens][hidden] attention's part; null: nothing is added (before the first layer)
  const float* mlp;        // [tokens][hidden], or of routed layers [assignments][hidden]
  const int32_t* slots;    // as RouteArgs; null: a dense layer
  const float* weights;    // as RouteArgs
  const uint16_t* norm;    // [hidden] bf16, of the coming layer
  uint16_t* normed;        // [tokens][hidden] bf16, operand order
  int32_t hidden, choices;
  float eps;
};

// ---- limits and sizes that host and kernels share
constexpr int32_t kExpertsMax = 128, kChoicesMax = 8;
constexpr int32_t kGroupTokens = 256;  // of a block that groups, a thread each
constexpr int32_t kVector = 8;         // columns of 16 bytes, what a thread of a row kernel takes
constexpr int32_t kTileRows = 192;     // queries of an attention block: tokens x queries of a KV head
// An unfolded page of one KV head: K in two slabs of 64 dims, then V.
constexpr int32_t kUnfoldedSlabBytes = kLayoutPagePositions * 128, kUnfoldedValues = 2 * kUnfoldedSlabBytes;
constexpr int32_t kUnfoldedBytes = kKvPageHeadBytes, kUnfoldedAlign = 1024;
static_assert(kUnfoldedBytes == kUnfoldedValues + kKvHeadDim * 128);

// Rows of 128 bytes with the 128-byte swizzle: byte offset of 16 bytes of a row.
constexpr int32_t swizzled(int32_t row, int32_t sixteen) { return row * 128 + (sixteen ^ row % 8) * 16; }

}  // namespace boreas::cuda::prefill
