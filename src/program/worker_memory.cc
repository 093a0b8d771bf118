#include "program/worker_memory.h"

#include <algorithm>

namespace boreas {
namespace {

constexpr int64_t kBytesBf16 = 2;
constexpr int64_t kBytesFp32 = 4;
constexpr int64_t kBytesRoute = 8;  // expert id and fp32 weight

// Pages [first, end) of a sequence that belong to pieces [piece, piece + pieces).
int64_t pages_of_pieces(int64_t first, int64_t end, Range pieces) {
  const auto below = [&](int64_t page) {
    const int64_t rest = page % kAttentionPieces - pieces.first;
    return page / kAttentionPieces * pieces.count + std::clamp<int64_t>(rest, 0, pieces.count);
  };
  return below(end) - below(first);
}

// With fewer rows the ring has as many stages as anyway, or a step loses by gathering in two parts.
constexpr int32_t kInnerFirstRows = 3;

}  // namespace

int32_t inner_first_vectors(const ModelConfig& config, int32_t rows) {
  if (rows < kInnerFirstRows || config.moe_layers() == 0) return 0;
  return static_cast<int32_t>(std::min<int64_t>(int64_t{rows} * config.hidden_size / config.expert_width,
                                                int64_t{rows} * config.experts_per_token - 1));
}

int64_t slot_bytes(const ModelConfig& config, int32_t workers, int32_t rows, Slot slot) {
  const int64_t heads = ceil_div(config.kv_heads, std::min(workers, config.kv_heads));
  const int64_t hidden_slice = ceil_div(config.hidden_size, workers);
  switch (slot) {
    case Slot::kNormed:
      return rows * config.hidden_size * kBytesBf16;
    case Slot::kQkv:
      return rows * heads * (config.queries_per_kv() + 2) * config.head_dim * kBytesBf16;
    case Slot::kAttention:
      return rows * config.query_width() * kBytesBf16;
    case Slot::kInner: {
      const int64_t vectors = int64_t{rows} * config.experts_per_token - inner_first_vectors(config, rows);
      return std::max<int64_t>(int64_t{rows} * config.dense_width, vectors * config.expert_width) * kBytesBf16;
    }
    case Slot::kInnerFirst:
      return int64_t{inner_first_vectors(config, rows)} * config.expert_width * kBytesBf16;
    case Slot::kRoute:
    case Slot::kRouteOdd:
      return rows * config.experts_per_token * kBytesRoute;
    case Slot::kResidual:
    case Slot::kProjected:
      return rows * hidden_slice * kBytesFp32;
  }
  return 0;
}

int64_t stream_unit_bytes(const ModelConfig& config, LoadOp::Stream stream, const TaskDesc& consumer) {
  const int64_t hidden_row = int64_t{config.hidden_size} * kBytesBf16;
  const int32_t* args = consumer.args;
  switch (stream) {
    case LoadOp::kRouter:
      return args[RouterLogitsOp::kCount] * hidden_row;
    case LoadOp::kQkv:
      return int64_t{args[QkvOp::kHeadCount]} * (args[QkvOp::kQCount] + args[QkvOp::kKCount] + args[QkvOp::kVCount]) *
             hidden_row;
    case LoadOp::kKvPages:
      if (args[AttentionOp::kHeadCount] == 0 || args[AttentionOp::kPieceCount] == 0) return 0;
      return int64_t{2} * kLayoutPagePositions * config.head_dim * kBytesBf16;
    case LoadOp::kExpertUpGate:
    case LoadOp::kDenseUpGate:
      return int64_t{2} * args[UpGateOp::kCount] * hidden_row;
    case LoadOp::kOutput:
      return int64_t{args[OutProjOp::kCount]} * config.query_width() * kBytesBf16;
    case LoadOp::kExpertDown:
      return int64_t{args[DownOp::kCount]} * config.expert_width * kBytesBf16;
    case LoadOp::kDenseDown:
      return int64_t{args[DownOp::kCount]} * config.dense_width * kBytesBf16;
    case LoadOp::kLmHead:
      return args[LmHeadOp::kCount] * hidden_row;
  }
  return 0;
}

int32_t stream_unit_pieces(const ModelConfig& config, LoadOp::Stream stream, const TaskDesc& consumer) {
  const int64_t bytes = stream_unit_bytes(config, stream, consumer);
  if (bytes == 0) return 0;
  const auto pieces = [&](int32_t columns) {
    return unit_pieces(static_cast<int32_t>(bytes / (int64_t{columns} * kBytesBf16)), columns);
  };
  switch (stream) {
    case LoadOp::kKvPages:
      return static_cast<int32_t>(ceil_div(bytes, kPieceBytes));
    case LoadOp::kOutput:
      return pieces(config.query_width());
    case LoadOp::kExpertDown:
      return pieces(config.expert_width);
    case LoadOp::kDenseDown:
      return pieces(config.dense_width);
    case LoadOp::kRouter:
    case LoadOp::kQkv:
    case LoadOp::kExpertUpGate:
    case LoadOp::kDenseUpGate:
    case LoadOp::kLmHead:
      return pieces(config.hidden_size);
  }
  return 0;
}

int64_t stream_units(const ModelConfig& config, const TaskDesc& consumer, int32_t rows, int32_t context) {
  const int32_t* args = consumer.args;
  switch (static_cast<StreamCount>(consumer.stream_count)) {
    case StreamCount::kOne:
      return 1;
    case StreamCount::kExperts:
      return std::min<int64_t>(config.experts, int64_t{rows} * config.experts_per_token);
    case StreamCount::kPages: {
      // The newest row's K and V come from a slot; its page is streamed for the rows before it.
      const int64_t first = first_visible(context - 1, args[AttentionOp::kSliding] != 0, config.window);
      const Range pieces{args[AttentionOp::kPieceFirst], args[AttentionOp::kPieceCount]};
      return int64_t{rows} * args[AttentionOp::kHeadCount] *
             pages_of_pieces(first / kLayoutPagePositions, ceil_div(context, kLayoutPagePositions), pieces);
    }
  }
  return 0;
}

int32_t stream_of(const ModelConfig& config, Op op, int32_t layer) {
  const bool moe = layer >= 0 && config.is_moe(layer);
  switch (op) {
    case Op::kRouterLogits:
      return LoadOp::kRouter;
    case Op::kQkv:
      return LoadOp::kQkv;
    case Op::kAttention:
      return LoadOp::kKvPages;
    case Op::kUpGate:
      return moe ? LoadOp::kExpertUpGate : LoadOp::kDenseUpGate;
    case Op::kOutProj:
      return LoadOp::kOutput;
    case Op::kDown:
      return moe ? LoadOp::kExpertDown : LoadOp::kDenseDown;
    case Op::kLmHead:
      return LoadOp::kLmHead;
    default:
      return -1;
  }
}

}  // namespace boreas
