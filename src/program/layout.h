// How work and memory are cut: slices, KV-head groups, attention pieces. Constexpr integer math that the compiler, both
// executors and tests share; nothing here depends on a machine beyond its number of workers.
#pragma once

#include <cstdint>

namespace boreas {

struct Range {
  int32_t first = 0;
  int32_t count = 0;
  constexpr int32_t end() const { return first + count; }
  constexpr bool operator==(const Range&) const = default;
};

// Part `index` of `parts` near-equal parts of [0, total), each a multiple of `granule` (which divides total). Parts may
// be empty.
constexpr Range slice(int32_t total, int32_t parts, int32_t index, int32_t granule = 1) {
  const int64_t units = total / granule;
  const int32_t first = static_cast<int32_t>(units * index / parts) * granule;
  const int32_t end = static_cast<int32_t>(units * (index + 1) / parts) * granule;
  return {first, end - first};
}

// The workers that serve KV head `head`: a contiguous group of workers / kv_heads, or, with fewer workers than heads,
// one worker that serves several.
constexpr Range head_group(int32_t workers, int32_t kv_heads, int32_t head) {
  if (workers >= kv_heads) return slice(workers, kv_heads, head);
  const int32_t owner = static_cast<int32_t>(int64_t{head} * workers / kv_heads);
  return {owner, 1};
}

// The KV heads that worker serves.
constexpr Range heads_of_worker(int32_t workers, int32_t kv_heads, int32_t worker) {
  int32_t first = 0;
  while (first < kv_heads && head_group(workers, kv_heads, first).end() <= worker) ++first;
  int32_t end = first;
  while (end < kv_heads && head_group(workers, kv_heads, end).first <= worker) ++end;
  return {first, end - first};
}

// Attention pieces. Page j of a sequence belongs to piece j mod kAttentionPieces, whatever the length, the batch or the
// machine: a row's attention is computed piece by piece (pages of a piece in ascending order), and the pieces are
// merged in ascending order. So its bits depend on that row alone. 32 pieces: with 128 workers and 4 KV heads every
// worker of a group owns one; fewer workers own several each.
constexpr int32_t kAttentionPieces = 32;
constexpr int32_t kLayoutPagePositions = 64;  // equal to kPagePositions of exec/executor.h (asserted there)

// The pieces of worker `index` of a group of `group` workers.
constexpr Range pieces_of_worker(int32_t group, int32_t index) { return slice(kAttentionPieces, group, index); }

// Whether any of the pages [page_first, page_last] belongs to `piece`.
constexpr bool piece_has_pages(int32_t piece, int32_t page_first, int32_t page_last) {
  const int32_t distance = (piece - page_first % kAttentionPieces + kAttentionPieces) % kAttentionPieces;
  return page_first + distance <= page_last;
}

// First visible position of a query at `position`: 0, or the window's start (window counts the query itself).
constexpr int32_t first_visible(int32_t position, bool sliding, int32_t window) {
  return sliding && position >= window ? position - window + 1 : 0;
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
// In 32 bits, where the megakernel divides.
constexpr int32_t ceil_div_32(int32_t a, int32_t b) { return (a + b - 1) / b; }

}  // namespace boreas
