// Prefill kernels that go over rows of activations: embedding, RoPE and the way into the KV pages, residual adds and
// norms. Formulas and places of rounding are the decode kernel's (exec/cuda/ops/), but q, k and v are rounded to bf16
// once more before RoPE.
#pragma once

#include "exec/cuda/prefill/arguments.h"
#include "exec/cuda/prefill/numbers.cuh"
#include "exec/cuda/prefill/operand.h"
#include "exec/cuda/weight_layout.h"
#include "program/layout.h"

namespace boreas::cuda::prefill {

constexpr int32_t kRowWarpsMax = 32;

// ---- embedding: a block a token, a thread 8 columns

BOREAS_DEVICE RowPlace vocabulary_row(const EmbedArgs& args, int32_t token) {
  int32_t owner = static_cast<int32_t>(int64_t{token} * args.workers / args.vocabulary);
  while (slice(args.vocabulary, args.workers, owner).end() <= token) ++owner;
  while (slice(args.vocabulary, args.workers, owner).first > token) --owner;
  const Range own = slice(args.vocabulary, args.workers, owner);
  const int64_t first = unit_element_offset(own.count, args.hidden, token - own.first, 0);
  RowPlace place;
  place.offset = int64_t{own.first} * args.hidden * 2 + first;
  place.block_stride =
      static_cast<int32_t>(unit_element_offset(own.count, args.hidden, token - own.first, kBlockColumns) - first);
  return place;
}

BOREAS_DEVICE void embed_token(const EmbedArgs& args) {
  const int32_t token = block_index(), pair = thread_index() * kVector / 2;
  const RowPlace place = vocabulary_row(args, args.tokens[token].token);
  uint32_t value[4];
  BOREAS_UNROLL
  for (int32_t i = 0; i < 4; ++i)
    value[i] = *reinterpret_cast<const uint32_t*>(args.lm_head + pair_offset(place, pair + i));
  store_quad(args.residual + int64_t{token} * args.hidden + 2 * pair, {value[0], value[1], value[2], value[3]});
}

// ---- cosine and sine of every token and pair: as RopeTable (step_builder.h)

BOREAS_DEVICE void fill_turn(const RopeArgs& args, int32_t index) {
  constexpr int32_t kPairs = kKvHeadDim / 2;
  if (index >= args.token_count * kPairs) return;
  const float angle = static_cast<float>(args.tokens[index / kPairs].position) * args.frequency[index % kPairs];
  args.turns[2 * index] = static_cast<float>(cos(static_cast<double>(angle)));
  args.turns[2 * index + 1] = static_cast<float>(sin(static_cast<double>(angle)));
}

// ---- RoPE of q in place, k and v into their pages; a thread 8 columns of a token

struct Pairs {
  uint32_t pair[4];
};
BOREAS_DEVICE Pairs load_pairs(const uint16_t* from) {
  const Quad quad = load_quad(from);
  return {{quad.x, quad.y, quad.z, quad.w}};
}
// Pairs of columns dim .. dim + 7 turned by the token's angles.
BOREAS_DEVICE Pairs turned(const Pairs& in, const AppendArgs& args, int32_t token, int32_t dim) {
  const float* turns = args.turns + int64_t{token} * kKvHeadDim + dim;
  Pairs out{};
  BOREAS_UNROLL
  for (int32_t i = 0; i < 2; ++i) {
    const Floats two = load_floats(turns + 4 * i);  // cosine, sine of two pairs
    const float cosine[2] = {two.x, two.z}, sine[2] = {two.y, two.w};
    BOREAS_UNROLL
    for (int32_t k = 0; k < 2; ++k) {
      const float even = low_half_of(in.pair[2 * i + k]), odd = high_half_of(in.pair[2 * i + k]);
      out.pair[2 * i + k] = pack_bf16(even * cosine[k] - odd * sine[k], odd * cosine[k] + even * sine[k]);
    }
  }
  return out;
}
BOREAS_DEVICE uint8_t* page_part(const AppendArgs& args, const PrefillToken& token, int32_t head) {
  const int32_t id = args.page_tables[args.sliding != 0 ? token.page_sliding : token.page_full];
  return args.pages + static_cast<uint64_t>(id) * args.page_bytes + args.layer_offset +
         static_cast<uint64_t>(head) * kKvPageHeadBytes;
}

// Neighbouring threads take neighbouring columns of q and k.
BOREAS_DEVICE void append_keys(const AppendArgs& args, int32_t index) {
  constexpr int32_t kPerHead = kKvHeadDim / kVector;
  const int32_t query_vectors = args.turns != nullptr ? args.query_heads * kPerHead : 0;
  const int32_t vectors = query_vectors + args.kv_heads * kPerHead;
  const int32_t token = index / vectors, vector = index % vectors, dim = vector % kPerHead * kVector;
  if (token >= args.token_count) return;
  uint16_t* row = args.qkv + int64_t{token} * (args.query_heads + 2 * args.kv_heads) * kKvHeadDim;
  if (vector < query_vectors) {
    uint16_t* at = row + vector * kVector;
    const Pairs q = turned(load_pairs(at), args, token, dim);
    store_quad(at, {q.pair[0], q.pair[1], q.pair[2], q.pair[3]});
    return;
  }
  const int32_t head = (vector - query_vectors) / kPerHead;
  Pairs k = load_pairs(row + (args.query_heads + head) * kKvHeadDim + dim);
  if (args.turns != nullptr) k = turned(k, args, token, dim);
  const PrefillToken own = args.tokens[token];
  uint8_t* page = page_part(args, own, head);
  BOREAS_UNROLL
  for (int32_t i = 0; i < 4; ++i)
    *reinterpret_cast<uint32_t*>(page + k_offset(own.position % kLayoutPagePositions, dim + 2 * i)) = k.pair[i];
}
// A warp takes 8 columns of 32 tokens: neighbouring positions of v are neighbours in a page.
BOREAS_DEVICE void append_values(const AppendArgs& args, int32_t index) {
  constexpr int32_t kPerHead = kKvHeadDim / kVector;
  const int32_t vectors = args.kv_heads * kPerHead, warp = index / 32;
  const int32_t token = warp / vectors * 32 + index % 32, vector = warp % vectors;
  if (token >= args.token_count) return;
  const int32_t head = vector / kPerHead, dim = vector % kPerHead * kVector;
  const uint16_t* row = args.qkv + int64_t{token} * (args.query_heads + 2 * args.kv_heads) * kKvHeadDim;
  const Pairs v = load_pairs(row + (args.query_heads + args.kv_heads + head) * kKvHeadDim + dim);
  const PrefillToken own = args.tokens[token];
  uint8_t* page = page_part(args, own, head);
  BOREAS_UNROLL
  for (int32_t i = 0; i < kVector; ++i) {
    const uint32_t half = i % 2 == 0 ? v.pair[i / 2] & 0xffffu : v.pair[i / 2] >> 16;
    *reinterpret_cast<uint16_t*>(page + v_offset(own.position % kLayoutPagePositions, dim + i)) =
        static_cast<uint16_t>(half);
  }
}

// ---- the end of a layer and the norm of the next: a block a token, a thread 8 columns
constexpr uint32_t kFinishSharedBytes = kRowWarpsMax * 4;

struct Eight {
  float value[kVector];
};
BOREAS_DEVICE Eight load_eight(const float* from) {
  const Floats a = load_floats(from), b = load_floats(from + 4);
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
BOREAS_DEVICE Eight load_eight(const uint16_t* from) {
  const Pairs p = load_pairs(from);
  Eight out{};
  BOREAS_UNROLL
  for (int32_t i = 0; i < kVector; ++i)
    out.value[i] = i % 2 == 0 ? low_half_of(p.pair[i / 2]) : high_half_of(p.pair[i / 2]);
  return out;
}

// (residual + attention) + the experts in ascending id, rounded once.
BOREAS_DEVICE void add_layer(const FinishArgs& args, int32_t token, int32_t column, Eight& x) {
  Eight total{};
  if (args.slots == nullptr) {
    total = load_eight(args.mlp + int64_t{token} * args.hidden + column);
  } else {
    BOREAS_UNROLL
    for (int32_t choice = 0; choice < 8; ++choice) {
      if (choice >= args.choices) break;
      const int64_t slot = args.slots[token * args.choices + choice];
      const float weight = args.weights[token * args.choices + choice];
      const Eight y = load_eight(args.mlp + slot * args.hidden + column);
      BOREAS_UNROLL
      for (int32_t i = 0; i < kVector; ++i) total.value[i] = multiply_add(weight, y.value[i], total.value[i]);
    }
  }
  const Eight projected = load_eight(args.projected + int64_t{token} * args.hidden + column);
  uint32_t pair[4];
  BOREAS_UNROLL
  for (int32_t i = 0; i < 4; ++i) {
    pair[i] = pack_bf16((x.value[2 * i] + projected.value[2 * i]) + total.value[2 * i],
                        (x.value[2 * i + 1] + projected.value[2 * i + 1]) + total.value[2 * i + 1]);
    x.value[2 * i] = low_half_of(pair[i]);
    x.value[2 * i + 1] = high_half_of(pair[i]);
  }
  store_quad(args.residual + int64_t{token} * args.hidden + column, {pair[0], pair[1], pair[2], pair[3]});
}

BOREAS_DEVICE float sum_of_block(float value, int32_t threads) {
  BOREAS_UNROLL
  for (int32_t step = 16; step > 0; step /= 2) value += shuffle_xor(value, step);
  if (thread_index() % 32 == 0)
    store_shared_float(shared_base() + static_cast<uint32_t>(thread_index() / 32 * 4), value);
  block_sync();
  float sum = 0;
  for (int32_t warp = 0; warp < threads / 32; ++warp)
    sum += load_shared_float(shared_base() + static_cast<uint32_t>(warp * 4));
  return sum;
}

BOREAS_DEVICE void finish_token(const FinishArgs& args) {
  const int32_t token = block_index(), column = thread_index() * kVector;
  Eight x = load_eight(args.residual + int64_t{token} * args.hidden + column);
  const Eight weight = load_eight(args.norm + column);
  if (args.projected != nullptr) add_layer(args, token, column, x);
  float squares = 0;
  BOREAS_UNROLL
  for (int32_t i = 0; i < kVector; ++i) squares = multiply_add(x.value[i], x.value[i], squares);
  const float mean = sum_of_block(squares, args.hidden / kVector) / static_cast<float>(args.hidden);
  const float scale = reciprocal_square_root(mean + args.eps);
  uint16_t* to = args.normed + int64_t{token} * args.hidden;
  BOREAS_UNROLL
  for (int32_t i = 0; i < 4; ++i) {
    const uint32_t pair =
        pack_bf16(x.value[2 * i] * scale * weight.value[2 * i], x.value[2 * i + 1] * scale * weight.value[2 * i + 1]);
    *reinterpret_cast<uint32_t*>(to + operand_column(column + 2 * i)) = pair;
  }
}

}  // namespace boreas::cuda::prefill
