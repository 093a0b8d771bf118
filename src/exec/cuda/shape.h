// Shapes that the megakernel is compiled for. A shape is a struct of constants; everything the kernel derives from one
// (slices, words, slot strides) is constexpr math here, unit-tested on the CPU. To add a shape: a struct, a line in
// BOREAS_CUDA_SHAPES.
#pragma once

#include <cstdint>

#include "program/layout.h"
#include "program/weight_tiles.h"

namespace boreas::cuda {

struct NorthShape {
  static constexpr const char* kName = "north";
  static constexpr int32_t kHidden = 2048, kQueryHeads = 32, kKvHeads = 4, kExpertWidth = 768, kDenseWidth = 3072,
                           kExperts = 128, kExpertsPerToken = 8, kVocabulary = 262144;
};
struct DemoShape {
  static constexpr const char* kName = "demo";
  static constexpr int32_t kHidden = 256, kQueryHeads = 4, kKvHeads = 2, kExpertWidth = 64, kDenseWidth = 256,
                           kExperts = 16, kExpertsPerToken = 4, kVocabulary = 4096;
};
// The checkpoint of the goldens that GPU and CPU share (tests/golden/cohere2_moe/gpu).
struct GoldenShape {
  static constexpr const char* kName = "golden";
  static constexpr int32_t kHidden = 256, kQueryHeads = 4, kKvHeads = 2, kExpertWidth = 64, kDenseWidth = 128,
                           kExperts = 8, kExpertsPerToken = 2, kVocabulary = 512;
};

// X(shape, workers): the kernels that a build contains.
#define BOREAS_CUDA_SHAPES(X) X(NorthShape, 128) X(DemoShape, 128) X(GoldenShape, 128)

constexpr int32_t kHeadDim = kKvHeadDim;
constexpr int32_t kRowsMax = 8;  // N of the MMA
constexpr int32_t kLayersMax = 64;
constexpr int32_t kWordPayloadBytes = 12;
constexpr int32_t kWordHalves = kWordPayloadBytes / 2;  // bf16 a word

// Warps of a block, by role. 16 warps are four warpgroups, whose registers setmaxnreg shares out: more warps leave too
// few for each, and what is spilled waits behind the SM's own copies.
constexpr int32_t kConsumerWarps = 8;
constexpr int32_t kConsumerGroups = 2;  // that take chunks in turn (program/pipeline.h)
constexpr int32_t kMessengerWarps = 4;
constexpr int32_t kProducerWarpsMax = 2;
constexpr int32_t kRouterWarp = kConsumerWarps + kMessengerWarps + kProducerWarpsMax;
constexpr int32_t kArrivalWarp = kRouterWarp + 1;
constexpr int32_t kWarps = 16;
constexpr int32_t kThreads = kWarps * 32;
constexpr int32_t kConsumerThreads = kConsumerWarps * 32;
constexpr int32_t kGroupWarps = kConsumerWarps / kConsumerGroups;
constexpr int32_t kGroupThreads = kGroupWarps * 32;
constexpr int32_t kMessengerThreads = kMessengerWarps * 32;

constexpr int32_t kMassWords = 2;  // that a worker publishes for a row that filters

constexpr int32_t words_of_halves(int32_t values) { return ceil_div_32(values, kWordHalves); }

// The longest slice of `total` over `parts`.
constexpr int32_t slice_max(int32_t total, int32_t parts, int32_t granule = 1) {
  return static_cast<int32_t>(ceil_div(total / granule, parts)) * granule;
}

// What follows from a shape and a number of workers.
template <class Shape, int32_t kWorkersOf>
struct Cut : Shape {
  using S = Shape;
  static constexpr int32_t kWorkers = kWorkersOf;
  static constexpr bool kTraced = false;
  static constexpr bool kProbed = false;
  static constexpr bool kOneRow = false;
  static constexpr bool kSliced = false;
  static constexpr int32_t kQueries = S::kQueryHeads / S::kKvHeads;  // per KV head
  static constexpr int32_t kQueryWidth = S::kQueryHeads * kHeadDim;
  static constexpr int32_t kHeadQueryWidth = kQueries * kHeadDim;
  static constexpr int32_t kQkvWidth = (kQueries + 2) * kHeadDim;  // q, k and v of one KV head
  static constexpr int32_t kQkvRows = S::kKvHeads * kQkvWidth;
  static_assert(kWorkers >= S::kKvHeads, "a worker serves at most one KV head");
  static_assert(kQueries <= kRowsMax, "the queries of a KV head are the columns of one MMA");
  static_assert(S::kHidden % (2 * kBlockColumns) == 0 && S::kExpertWidth % (2 * kBlockColumns) == 0 &&
                    S::kDenseWidth % (2 * kBlockColumns) == 0,
                "two warps share a piece's blocks evenly");
  static_assert(S::kExperts <= 128 && S::kExpertsPerToken <= 8);

  // The smallest head group decides how much a worker of it owns.
  static constexpr int32_t kGroupMin = kWorkers / S::kKvHeads;
  static constexpr int32_t kHiddenSliceMax = slice_max(S::kHidden, kWorkers);
  static constexpr int32_t kQSliceMax = slice_max(kHeadQueryWidth, kGroupMin, 2);
  static constexpr int32_t kKvSliceMax = slice_max(kHeadDim, kGroupMin, 2);
  static constexpr int32_t kOutputSliceMax = slice_max(kHeadQueryWidth, kGroupMin);
  static constexpr int32_t kExpertSliceMax = slice_max(S::kExpertWidth, kWorkers);
  static constexpr int32_t kDenseSliceMax = slice_max(S::kDenseWidth, kWorkers);

  // Words of 12 bytes that one worker publishes for one row.
  static constexpr int32_t kResidualWords = words_of_halves(kHiddenSliceMax);
  static constexpr int32_t kQkvWords = words_of_halves(kQSliceMax + 2 * kKvSliceMax);
  static constexpr int32_t kAttentionWords = words_of_halves(kOutputSliceMax);
  static constexpr int32_t kExpertWords = words_of_halves(kExpertSliceMax);
  static constexpr int32_t kDenseWords = words_of_halves(kDenseSliceMax);
  // Attention of a pair of queries over one piece, fp32. For every 32 dims and g < 8 three words, what a lane of the
  // kernel has: outputs of the first query's dims g, g + 8, g + 16, g + 24, of the second query's, and a ninth float,
  // by g % 4: m and l of the first query's softmax, m and l of the second's.
  static constexpr int32_t kQueryPairs = ceil_div_32(kQueries, 2);
  static constexpr int32_t kPartialLaneWords = 3;
  static constexpr int32_t kPartialWords = kHeadDim / 32 * 8 * kPartialLaneWords;  // of a pair

  // Values that a consumer task collects before it publishes them, per row.
  static constexpr int32_t output_row_values() {
    int32_t most = kQSliceMax + 2 * kKvSliceMax;
    for (int32_t values : {kHiddenSliceMax, S::kExpertsPerToken * kExpertSliceMax, kDenseSliceMax})
      most = values > most ? values : most;
    return most;
  }
  static constexpr int32_t kOutputRowBytes = output_row_values() * 2;

  // Words of one half of a hop's buffer, per row.
  static constexpr int32_t kInnerRowWords =
      kWorkers * (S::kExpertsPerToken * kExpertWords > kDenseWords ? S::kExpertsPerToken * kExpertWords : kDenseWords);
  static constexpr int32_t kPartialRowWords = S::kKvHeads * kAttentionPieces * kQueryPairs * kPartialWords;

  // ---- who owns what; the same cuts as program/place.cc
  // Where a cut is even, which the compiler knows, the general formulas (64-bit divisions) are not needed.
  static constexpr bool kEvenGroups =
      kWorkers % S::kKvHeads == 0 && kHeadQueryWidth % (2 * kGroupMin) == 0 && kHeadDim % (2 * kGroupMin) == 0;
  static constexpr bool kEvenOutputs = kWorkers % S::kKvHeads == 0 && kHeadQueryWidth % kGroupMin == 0;
  // Of every worker, if all have as much; else 0.
  static constexpr int32_t even_slice(int32_t total) { return total % kWorkers == 0 ? total / kWorkers : 0; }
  static constexpr Range slice_of(int32_t total, int32_t worker) {
    if (total % kWorkers == 0) return {worker * (total / kWorkers), total / kWorkers};
    return slice(total, kWorkers, worker);
  }
  struct Group {
    int32_t head;
    Range workers;
  };
  // The KV head a worker serves, and who serves it too. Heads are contiguous ranges of workers.
  static constexpr Group group_of(int32_t worker) {
    if (kWorkers % S::kKvHeads == 0) return {worker / kGroupMin, {worker / kGroupMin * kGroupMin, kGroupMin}};
    int32_t head = static_cast<int32_t>(int64_t{worker} * S::kKvHeads / kWorkers);
    while (head_group(kWorkers, S::kKvHeads, head).end() <= worker) ++head;
    return {head, head_group(kWorkers, S::kKvHeads, head)};
  }
  static constexpr Range q_slice(int32_t group, int32_t index) {
    if (kEvenGroups) return {index * kQSliceMax, kQSliceMax};
    return slice(kHeadQueryWidth, group, index, 2);
  }
  static constexpr Range kv_slice(int32_t group, int32_t index) {
    if (kEvenGroups) return {index * kKvSliceMax, kKvSliceMax};
    return slice(kHeadDim, group, index, 2);
  }
  static constexpr Range output_slice(int32_t group, int32_t index) {
    if (kEvenGroups) return {index * kOutputSliceMax, kOutputSliceMax};
    return slice(kHeadQueryWidth, group, index);
  }
  static constexpr Range pieces_of(int32_t group, int32_t index) {
    if (kEvenGroups && kAttentionPieces % kGroupMin == 0)
      return {index * (kAttentionPieces / kGroupMin), kAttentionPieces / kGroupMin};
    return pieces_of_worker(group, index);
  }

  // Whether every unit of weights is made of pieces of one length.
  static constexpr bool has_equal_pieces(int32_t rows, int32_t columns) {
    for (int32_t height = kTileRowsMax; height > 0; height /= 2) {
      if (height < kTileRowsMax ? (rows & height) == 0 : rows < height) continue;
      if (blocks_of_columns(columns) % blocks_per_piece(height) != 0) return false;
      if (piece_bytes(height) * unit_pieces(rows, columns) != rows * columns * 2) return false;
    }
    return rows > 0;
  }
  static constexpr bool kEqualPieces = kEvenGroups && has_equal_pieces(kQSliceMax + 2 * kKvSliceMax, S::kHidden) &&
                                       has_equal_pieces(even_slice(S::kExperts), S::kHidden) &&
                                       has_equal_pieces(2 * even_slice(S::kExpertWidth), S::kHidden) &&
                                       has_equal_pieces(2 * even_slice(S::kDenseWidth), S::kHidden) &&
                                       has_equal_pieces(even_slice(S::kHidden), kQueryWidth) &&
                                       has_equal_pieces(even_slice(S::kHidden), S::kExpertWidth) &&
                                       has_equal_pieces(even_slice(S::kHidden), S::kDenseWidth) &&
                                       has_equal_pieces(even_slice(S::kVocabulary), S::kHidden);
};

// The same, for kernels that write down when their tasks ran (trace.h).
template <class Cut>
struct Traced : Cut {
  static constexpr bool kTraced = true;
};
// The same, for steps of one row: the constant takes a good part of the code away, which otherwise does not stay in an
// SM's instruction cache (decision 0007).
template <class Cut>
struct OneRow : Cut {
  static constexpr bool kOneRow = true;
};
// The same, for the kernels of the comparison arms, each of which runs a part of the step's tasks (sliced.cuh).
template <class Cut>
struct Sliced : Cut {
  static constexpr bool kSliced = true;
};
// The same, for kernels whose layers compute on inputs that they are given (Probe in step_params.h). Tests alone have
// them.
template <class Cut>
struct Probed : Cut {
  static constexpr bool kProbed = true;
};

}  // namespace boreas::cuda
