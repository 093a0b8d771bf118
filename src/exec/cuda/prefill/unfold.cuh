// KV pages of one layer as wgmma takes them from shared memory: a page of a KV head becomes rows of 128 bytes with the
// 128-byte swizzle, in an order of keys in which scores leave one MMA as the left factor of the next.
//
//   K, two slabs of 64 dims   row r of a half: the key at which v_column() is r; 64 dims in their own order
//   V                         row: a dim; 64 keys, each half in the order of v_column()
//
// Then a lane's 16 bytes of a page (two accesses) are 16 bytes of one row. What lies beyond the sequence is zero.
#pragma once

#include "exec/cuda/prefill/arguments.h"
#include "exec/cuda/prefill/numbers.cuh"
#include "program/weight_tiles.h"

namespace boreas::cuda::prefill {

constexpr int32_t kUnfoldThreads = 256;

// 16 keys (of a page, from `tile` * 16 on), 32 dims: lane 4 g + c has keys g and g + 8, dims 8 c .. 8 c + 7.
BOREAS_DEVICE void unfold_keys(const uint8_t* from, uint8_t* to, int32_t tile, int32_t block, int32_t lane,
                               int32_t positions) {
  const uint8_t* at = from + tile / 2 * kKvHalfBytes + tile % 2 * 4096 + block * 1024 + lane * 16;
  const Quad a = load_quad(at), b = load_quad(at + 512);
  const int32_t sixteen = block % 2 * 4 + lane % 4;
  BOREAS_UNROLL
  for (int32_t i = 0; i < 2; ++i) {
    const int32_t in_half = tile % 2 * 16 + i * 8 + lane / 4, key = tile / 2 * kKvHalfPositions + in_half;
    Quad row = i == 0 ? Quad{a.x, a.z, b.x, b.z} : Quad{a.y, a.w, b.y, b.w};
    if (key >= positions) row = {0, 0, 0, 0};
    const int32_t place = tile / 2 * kKvHalfPositions + v_column(in_half);
    store_quad(to + block / 2 * kUnfoldedSlabBytes + swizzled(place, sixteen), row);
  }
}
// 16 dims, 32 keys of a half: lane 4 g + c has dims g and g + 8, keys 8 q + 2 c and the next one for q < 4.
BOREAS_DEVICE void unfold_values(const uint8_t* from, uint8_t* to, int32_t half, int32_t dims, int32_t lane,
                                 int32_t positions) {
  const uint8_t* at = from + half * kKvHalfBytes + kPieceBytes + dims * 1024 + lane * 16;
  const Quad a = load_quad(at), b = load_quad(at + 512);
  const auto kept = [&](int32_t q) {
    const int32_t key = half * kKvHalfPositions + 8 * q + lane % 4 * 2;
    return (key < positions ? 0xffffu : 0u) | (key + 1 < positions ? 0xffff0000u : 0u);
  };
  BOREAS_UNROLL
  for (int32_t i = 0; i < 2; ++i) {
    Quad row = i == 0 ? Quad{a.x, a.z, b.x, b.z} : Quad{a.y, a.w, b.y, b.w};
    row = {row.x & kept(0), row.y & kept(1), row.z & kept(2), row.w & kept(3)};
    const int32_t dim = dims * 16 + i * 8 + lane / 4;
    store_quad(to + kUnfoldedValues + swizzled(dim, half * 4 + lane % 4), row);
  }
}

// A block takes a page of a KV head.
BOREAS_DEVICE void unfold_page(const UnfoldArgs& args) {
  const UnfoldedPage page = args.list[block_index() / args.kv_heads];
  const int32_t head = block_index() % args.kv_heads, lane = thread_index() % 32;
  const uint8_t* from = args.pages + static_cast<uint64_t>(args.page_tables[page.page_table]) * args.page_bytes +
                        args.layer_offset + static_cast<uint64_t>(head) * kKvPageHeadBytes;
  uint8_t* to = args.unfolded + (int64_t{page.place} * args.kv_heads + head) * kUnfoldedBytes;
  BOREAS_UNROLL
  for (int32_t i = 0; i < 2; ++i) {
    const int32_t unit = thread_index() / 32 + i * (kUnfoldThreads / 32);  // of 16
    unfold_keys(from, to, unit / 4, unit % 4, lane, page.positions);
    unfold_values(from, to, unit / 8, unit % 8, lane, page.positions);
  }
}

}  // namespace boreas::cuda::prefill
