#include "exec/cuda/weight_layout.h"

#include "base/check.h"
#include "program/layout.h"
#include "program/op_list.h"
#include "program/weight_tiles.h"

namespace boreas::cuda {
namespace {

constexpr int64_t kBytesBf16 = 2;

// `count` rows of a unit, every `step`-th from its row `first` on, become rows of a tensor. base: the unit's offset in
// its region.
void place_rows(int64_t base, int32_t unit_rows, int32_t columns, int32_t first, int32_t step, int32_t count,
                RowPlace* out) {
  for (int32_t row = first; row < first + step * count; row += step, ++out) {
    const int64_t offset = unit_element_offset(unit_rows, columns, row, 0);
    out->offset = base + offset;
    out->block_stride = static_cast<int32_t>(unit_element_offset(unit_rows, columns, row, kBlockColumns) - offset);
  }
}

// Tensors that a unit holds row by row in turn (gate 0, up 0, gate 1, ...), each with a slice of equal length: what is
// combined lies in one tile.
void place_slices(int32_t rows, int32_t columns, int32_t workers, int32_t part, int32_t parts,
                  std::vector<RowPlace>& out) {
  for (int32_t worker = 0; worker < workers; ++worker) {
    const Range own = slice(rows, workers, worker);
    place_rows(int64_t{parts} * own.first * columns * kBytesBf16, parts * own.count, columns, part, parts, own.count,
               out.data() + own.first);
  }
}

// The same cuts as set_qkv_args in program/place.cc.
void place_qkv(const ModelConfig& config, int32_t workers, WeightRole role, std::vector<RowPlace>& out) {
  const int32_t head_queries = config.queries_per_kv() * config.head_dim;
  int64_t base = 0;
  for (int32_t head = 0; head < config.kv_heads; ++head) {
    const Range group = head_group(workers, config.kv_heads, head);
    for (int32_t index = 0; index < group.count; ++index) {
      const Range q = slice(head_queries, group.count, index, 2);
      const Range kv = slice(config.head_dim, group.count, index, 2);
      const int32_t unit_rows = q.count + 2 * kv.count;
      const auto place = [&](int32_t first, Range own, int32_t head_rows) {
        place_rows(base, unit_rows, config.hidden_size, first, 1, own.count, out.data() + head * head_rows + own.first);
      };
      if (role == WeightRole::kQuery) place(0, q, head_queries);
      if (role == WeightRole::kKey) place(q.count, kv, config.head_dim);
      if (role == WeightRole::kValue) place(q.count + kv.count, kv, config.head_dim);
      base += int64_t{unit_rows} * config.hidden_size * kBytesBf16;
    }
  }
}

uint64_t take(uint64_t& end, int64_t rows, int64_t columns) {
  const uint64_t first = end;
  const uint64_t bytes = static_cast<uint64_t>(rows * columns * kBytesBf16);
  end = (first + bytes + kRegionAlign - 1) / kRegionAlign * kRegionAlign;
  return first;
}

}  // namespace

std::vector<RowPlace> row_places(const ModelConfig& config, int32_t workers, WeightRole role) {
  CHECK(workers >= config.kv_heads);
  const WeightShape shape = weight_shape(config, role);
  const int32_t rows = static_cast<int32_t>(shape.rows), columns = static_cast<int32_t>(shape.cols);
  CHECK(columns % kBlockColumns == 0);
  std::vector<RowPlace> places(static_cast<size_t>(rows));
  switch (role) {
    case WeightRole::kFinalNorm:
    case WeightRole::kInputNorm:
      places[0] = {0, 0};
      break;
    case WeightRole::kQuery:
    case WeightRole::kKey:
    case WeightRole::kValue:
      place_qkv(config, workers, role, places);
      break;
    case WeightRole::kExpertGate:
    case WeightRole::kDenseGate:
      place_slices(rows, columns, workers, 0, 2, places);
      break;
    case WeightRole::kExpertUp:
    case WeightRole::kDenseUp:
      place_slices(rows, columns, workers, 1, 2, places);
      break;
    case WeightRole::kEmbedding:
    case WeightRole::kOutput:
    case WeightRole::kRouter:
    case WeightRole::kExpertDown:
    case WeightRole::kDenseDown:
      place_slices(rows, columns, workers, 0, 1, places);
      break;
  }
  return places;
}

WeightLayout lay_out_weights(const ModelConfig& config) {
  WeightLayout layout;
  layout.expert_up_gate_stride =
      uint64_t{2} * static_cast<uint64_t>(config.expert_width) * static_cast<uint64_t>(config.hidden_size) * kBytesBf16;
  layout.expert_down_stride = layout.expert_up_gate_stride / 2;
  const int64_t hidden = config.hidden_size;
  int32_t next_in_pool[2] = {};
  for (int32_t i = 0; i < config.layer_count(); ++i) {
    const bool moe = config.is_moe(i);
    const int64_t inner = moe ? int64_t{config.experts} * config.expert_width : config.dense_width;
    LayerWeights layer{};
    layer.qkv = take(layout.bytes, config.query_width() + 2 * config.kv_width(), hidden);
    layer.output = take(layout.bytes, hidden, config.query_width());
    layer.router = moe ? take(layout.bytes, config.experts, hidden) : kNoRouter;
    layer.up_gate = take(layout.bytes, 2 * inner, hidden);
    layer.down = take(layout.bytes, hidden, inner);
    layer.sliding = config.layers[static_cast<size_t>(i)].sliding;
    layer.pool_layer = next_in_pool[layer.sliding]++;
    layout.layers.push_back(layer);
  }
  layout.lm_head = take(layout.bytes, config.vocab_size, hidden);
  return layout;
}

namespace {

// Bytes from a worker's unit of the fused q, k and v to the region's begin.
int64_t qkv_unit(const ModelConfig& config, int32_t workers, int32_t worker) {
  int32_t head = 0;
  while (head_group(workers, config.kv_heads, head).end() <= worker) ++head;
  const Range group = head_group(workers, config.kv_heads, head);
  const int32_t index = worker - group.first;
  const int32_t rows = slice(config.queries_per_kv() * config.head_dim, group.count, index, 2).first +
                       2 * slice(config.head_dim, group.count, index, 2).first +
                       head * (config.queries_per_kv() + 2) * config.head_dim;
  return int64_t{rows} * config.hidden_size * kBytesBf16;
}

// Of weights.
void set_from(TaskDesc& task, uint64_t from, uint64_t stride, int32_t columns) {
  const int32_t rows = static_cast<int32_t>(task.args[LoadOp::kUnitBytes] / (columns * kBytesBf16));
  bool equal = rows > 0;
  for (int32_t i = 0; i < task.stream_unit_pieces; ++i)
    equal = equal && piece_place(rows, columns, i).bytes == piece_place(rows, columns, 0).bytes;
  task.args[kLoadPieceBytes] = equal ? piece_place(rows, columns, 0).bytes : 0;
  task.args[kLoadFromLow] = static_cast<int32_t>(from & 0xffffffffu);
  task.args[kLoadFromHigh] = static_cast<int32_t>(from >> 32);
  task.args[kLoadStride] = static_cast<int32_t>(stride);
}

void address_load(const ModelConfig& config, const WeightLayout& layout, int32_t workers, int32_t worker,
                  TaskDesc& task) {
  const LayerWeights none{};
  const LayerWeights& layer = task.layer < 0 ? none : layout.layers[static_cast<size_t>(task.layer)];
  const auto unit = [&](uint64_t region, int32_t rows, int32_t parts, int32_t columns) {
    return region + static_cast<uint64_t>(int64_t{parts} * slice(rows, workers, worker).first * columns * kBytesBf16);
  };
  const int32_t hidden = config.hidden_size;
  switch (static_cast<LoadOp::Stream>(task.args[LoadOp::kStream])) {
    case LoadOp::kRouter:
      return set_from(task, unit(layer.router, config.experts, 1, hidden), 0, hidden);
    case LoadOp::kQkv:
      return set_from(task, layer.qkv + static_cast<uint64_t>(qkv_unit(config, workers, worker)), 0, hidden);
    case LoadOp::kKvPages: {
      const int64_t part = int64_t{layer.pool_layer} * config.kv_heads + task.args[LoadOp::kHeadFirst];
      task.args[kLoadFromLow] = static_cast<int32_t>(part * kKvPageHeadBytes);
      task.args[kLoadSliding] = layer.sliding;
      return;
    }
    case LoadOp::kExpertUpGate:
      return set_from(task, unit(layer.up_gate, config.expert_width, 2, hidden), layout.expert_up_gate_stride, hidden);
    case LoadOp::kDenseUpGate:
      return set_from(task, unit(layer.up_gate, config.dense_width, 2, hidden), 0, hidden);
    case LoadOp::kOutput:
      return set_from(task, unit(layer.output, hidden, 1, config.query_width()), 0, config.query_width());
    case LoadOp::kExpertDown:
      return set_from(task, unit(layer.down, hidden, 1, config.expert_width), layout.expert_down_stride,
                      config.expert_width);
    case LoadOp::kDenseDown:
      return set_from(task, unit(layer.down, hidden, 1, config.dense_width), 0, config.dense_width);
    case LoadOp::kLmHead:
      return set_from(task, unit(layout.lm_head, config.vocab_size, 1, hidden), 0, hidden);
  }
}

}  // namespace

void address_loads(const ModelConfig& config, const WeightLayout& layout, std::span<const int32_t> list_first,
                   std::span<TaskDesc> tasks) {
  const int32_t lists = static_cast<int32_t>(list_first.size()) - 1, workers = lists / kRoles;
  CHECK(layout.expert_up_gate_stride <= INT32_MAX);
  for (int32_t list = 0; list < lists; ++list)
    for (int32_t i = list_first[static_cast<size_t>(list)]; i < list_first[static_cast<size_t>(list) + 1]; ++i)
      if (TaskDesc& task = tasks[static_cast<size_t>(i)]; static_cast<Op>(task.op) == Op::kLoad)
        address_load(config, layout, workers, list / kRoles, task);
}

uint64_t region_offset(const WeightLayout& layout, WeightRole role, int32_t layer, int32_t expert) {
  if (role == WeightRole::kEmbedding) return layout.lm_head;
  const LayerWeights& region = layout.layers[static_cast<size_t>(layer)];
  const uint64_t index = static_cast<uint64_t>(expert);
  switch (role) {
    case WeightRole::kQuery:
    case WeightRole::kKey:
    case WeightRole::kValue:
      return region.qkv;
    case WeightRole::kOutput:
      return region.output;
    case WeightRole::kRouter:
      return region.router;
    case WeightRole::kExpertGate:
    case WeightRole::kExpertUp:
      return region.up_gate + index * layout.expert_up_gate_stride;
    case WeightRole::kExpertDown:
      return region.down + index * layout.expert_down_stride;
    case WeightRole::kDenseGate:
    case WeightRole::kDenseUp:
      return region.up_gate;
    case WeightRole::kDenseDown:
      return region.down;
    case WeightRole::kEmbedding:
    case WeightRole::kFinalNorm:
    case WeightRole::kInputNorm:
      break;
  }
  CHECK(false);
  return 0;
}

}  // namespace boreas::cuda
