#include "exec/cuda/prefill/gemm_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "exec/cuda/prefill/operand.h"

namespace boreas::cuda {
namespace {

// Which row each slot of a tile computes; null: none.
using TileRows = std::array<const RowPlace*, kGemmRows>;

Error cannot(const std::string& name, const std::string& why) {
  return Error{"prefill cannot multiply by " + name + ": " + why};
}

bool is_tall(const RowPlace& place) { return place.block_stride == kTallStep; }

// Packs the rows of one tile into a stage.
class TilePacker {
 public:
  // any_slot: the kernel loads each row of a tall tile by itself; else a warp takes the whole tile as its fragment.
  TilePacker(const TileRows& rows, bool any_slot) : rows_(rows), any_slot_(any_slot) {
    for (int32_t slot = 0; slot < kGemmRows; ++slot)
      if (rows[static_cast<size_t>(slot)] != nullptr) order_.push_back(slot);
    std::sort(order_.begin(), order_.end(), [this](int32_t a, int32_t b) { return at(a).offset < at(b).offset; });
  }

  // False: a tall tile that is no fragment of a warp, or too many copies.
  bool pack(GemmTile& tile) {
    for (size_t i = 0; i < order_.size();) {
      const size_t count = run_at(i);
      if (count == 0) return false;
      const std::span<const int32_t> run = std::span(order_).subspan(i, count);
      if (is_tall(at(run[0])) && !any_slot_ && !is_fragment(run)) return false;
      if (tile.copy_count + copies_of(run) > kGemmCopiesMax) return false;
      add_run(run, tile);
      i += count;
    }
    return true;
  }

 private:
  const RowPlace& at(int32_t slot) const { return *rows_[static_cast<size_t>(slot)]; }

  // How many of the rows from the i-th on are neighbours in one tile of the layout. Rows of different tiles are never
  // 64 bytes apart: a tile is at least 128 bytes a row.
  size_t run_at(size_t i) const {
    const RowPlace& first = at(order_[i]);
    const bool tall = is_tall(first);
    const auto offset_of = [&](size_t n) {
      return first.offset +
             static_cast<int64_t>(tall ? n / 2 * kBlockRowBytes + n % 2 * 4 : n * size_t{kBlockRowBytes});
    };
    size_t count = 1;
    while (i + count < order_.size() && at(order_[i + count]).offset == offset_of(count) &&
           at(order_[i + count]).block_stride == first.block_stride)
      ++count;
    return tall && count != kTileRowsMax ? 0 : count;
  }

  static bool is_fragment(std::span<const int32_t> run) {
    for (int32_t n = 0; n < kTileRowsMax; ++n)
      if (run[static_cast<size_t>(n)] != run[0] + n / 2 + n % 2 * 8) return false;
    return run[0] % kTileRowsMax == 0;
  }

  // All rows of a tile: two blocks at once.
  int32_t copies_of(std::span<const int32_t> run) const {
    return static_cast<int32_t>(run.size()) * kBlockRowBytes == at(run[0]).block_stride ? 1 : 2;
  }

  void add_run(std::span<const int32_t> run, GemmTile& tile) {
    const RowPlace& first = at(run[0]);
    const int32_t block = static_cast<int32_t>(run.size()) * kBlockRowBytes;
    for (size_t n = 0; n < run.size(); ++n) {
      const int64_t inside = at(run[n]).offset - first.offset;
      tile.slots[run[n]] = {static_cast<uint16_t>(tile.bytes + inside), static_cast<uint16_t>(block)};
    }
    const int32_t copies = copies_of(run), bytes = 2 * block / copies;
    for (int32_t copy = 0; copy < copies; ++copy) {
      tile.copies[tile.copy_count++] = {static_cast<uint32_t>(first.offset + copy * first.block_stride),
                                        static_cast<uint32_t>(2 * first.block_stride),
                                        static_cast<uint16_t>(tile.bytes), static_cast<uint16_t>(bytes)};
      tile.bytes += bytes;
    }
  }

  const TileRows& rows_;
  bool any_slot_;
  std::vector<int32_t> order_;
};

// A router's rows lie one by one, and a copy each takes longer than their MMAs: few of them a tile, more tiles at once.
constexpr int32_t kRouterHalfColumns = 16;

// A run of Y's columns that one half computes.
struct Half {
  int32_t column = 0, columns = 0;
  std::array<const RowPlace*, kGemmHalfRows> rows{};
};

Half plain_half(const std::vector<RowPlace>& places, int32_t first, int32_t column_base,
                int32_t columns_max = kGemmHalfRows) {
  Half half{column_base + first, std::min(columns_max, static_cast<int32_t>(places.size()) - first)};
  for (int32_t i = 0; i < half.columns; ++i)
    half.rows[static_cast<size_t>(i)] = &places[static_cast<size_t>(first + i)];
  return half;
}

Half swiglu_half(const std::vector<RowPlace>& gate, const std::vector<RowPlace>& up, int32_t first) {
  Half half{first, kSwigluHalfColumns};
  for (int32_t slot = 0; slot < kGemmHalfRows; ++slot) {
    const size_t column = static_cast<size_t>(first + column_of_operand(slot_operand_place(slot)));
    half.rows[static_cast<size_t>(slot)] = slot_is_gate(slot) ? &gate[column] : &up[column];
  }
  return half;
}

Status add_tiles(const std::vector<Half>& halves, bool any_slot, GemmPlan& plan) {
  for (size_t i = 0; i < halves.size(); i += 2) {
    TileRows rows{};
    GemmTile tile{};
    for (size_t half = 0; half < 2 && i + half < halves.size(); ++half) {
      const Half& from = halves[i + half];
      std::copy(from.rows.begin(), from.rows.end(), rows.begin() + static_cast<ptrdiff_t>(half * kGemmHalfRows));
      tile.column[half] = from.column;
      tile.columns[half] = from.columns;
    }
    if (!TilePacker(rows, any_slot).pack(tile))
      return cannot(plan.name, "a slice of its rows is cut across tiles, or they lie in too many places");
    plan.tiles.push_back(tile);
  }
  return Ok{};
}

// Keys and values of the same dims lie in the same tiles of the layout, so they share a tile here.
std::vector<Half> qkv_halves(const std::array<std::vector<RowPlace>, 3>& places) {
  const int32_t queries = static_cast<int32_t>(places[0].size()), keys = static_cast<int32_t>(places[1].size());
  std::vector<Half> halves;
  for (int32_t first = 0; first < queries; first += kGemmHalfRows) halves.push_back(plain_half(places[0], first, 0));
  for (int32_t first = 0; first < keys; first += kGemmHalfRows) {
    halves.push_back(plain_half(places[1], first, queries));
    halves.push_back(plain_half(places[2], first, queries + keys));
  }
  return halves;
}

std::vector<Half> halves_of(GemmMatrix matrix, const std::array<std::vector<RowPlace>, 3>& places) {
  if (matrix == GemmMatrix::kQkv) return qkv_halves(places);
  const bool swiglu = matrix == GemmMatrix::kDenseUpGate || matrix == GemmMatrix::kExpertUpGate;
  const int32_t step = swiglu ? kSwigluHalfColumns : matrix == GemmMatrix::kRouter ? kRouterHalfColumns : kGemmHalfRows;
  const int32_t rows = static_cast<int32_t>(places[0].size());
  std::vector<Half> halves;
  for (int32_t first = 0; first < rows; first += step)
    halves.push_back(swiglu ? swiglu_half(places[0], places[1], first) : plain_half(places[0], first, 0, step));
  return halves;
}

struct MatrixRoles {
  const char* name;
  std::vector<WeightRole> roles;
};
MatrixRoles roles_of(GemmMatrix matrix) {
  using enum WeightRole;
  switch (matrix) {
    case GemmMatrix::kQkv:
      return {"query, key and value", {kQuery, kKey, kValue}};
    case GemmMatrix::kOutput:
      return {"attention output", {kOutput}};
    case GemmMatrix::kRouter:
      return {"router", {kRouter}};
    case GemmMatrix::kDenseUpGate:
      return {"dense gate and up", {kDenseGate, kDenseUp}};
    case GemmMatrix::kDenseDown:
      return {"dense down", {kDenseDown}};
    case GemmMatrix::kExpertUpGate:
      return {"expert gate and up", {kExpertGate, kExpertUp}};
    case GemmMatrix::kExpertDown:
      return {"expert down", {kExpertDown}};
  }
  CHECK(false);
  return {};
}

}  // namespace

Result<GemmPlan> plan_gemm(const ModelConfig& config, int32_t workers, GemmMatrix matrix) {
  const MatrixRoles wanted = roles_of(matrix);
  GemmPlan plan;
  plan.name = wanted.name;
  std::array<std::vector<RowPlace>, 3> places;
  for (size_t i = 0; i < wanted.roles.size(); ++i) {
    const WeightShape shape = weight_shape(config, wanted.roles[i]);
    plan.k = static_cast<int32_t>(shape.cols);
    if (shape.cols % kGemmStepColumns != 0)
      return cannot(plan.name, std::to_string(shape.cols) + " columns, expected a multiple of 64");
    if (shape.rows * shape.cols * 2 * static_cast<int64_t>(wanted.roles.size()) > int64_t{UINT32_MAX})
      return cannot(plan.name, "more than 4 GB");
    places[i] = row_places(config, workers, wanted.roles[i]);
  }
  const std::vector<Half> halves = halves_of(matrix, places);
  for (const Half& half : halves) {
    plan.columns += half.columns;
    const bool ragged = half.columns % 8 != 0 || (places[1].size() == places[0].size() && places[0].size() % 64 != 0);
    if (ragged)
      return cannot(plan.name, std::to_string(places[0].size()) + " rows, expected a multiple of 8, or of 64");
  }
  RETURN_IF_ERROR(add_tiles(halves, matrix == GemmMatrix::kDenseUpGate, plan));
  return plan;
}

}  // namespace boreas::cuda
