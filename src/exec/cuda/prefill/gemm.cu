// See gemm.h. Four kernels, all of one body (gemm_kernel.cuh), and the tables they read.
#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "exec/cuda/prefill/gemm.h"
#include "exec/cuda/prefill/gemm_kernel.cuh"
#include "exec/cuda/prefill/gemm_plan.h"

namespace boreas::cuda {
namespace {

Error error_of(const char* call, cudaError_t error) {
  return Error{std::string(call) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")"};
}
#define RETURN_IF_CUDA_ERROR(call)                                       \
  do {                                                                   \
    const cudaError_t cuda_error_ = (call);                              \
    if (cuda_error_ != cudaSuccess) return error_of(#call, cuda_error_); \
  } while (0)

// The driver's encoder of tensor maps; the binary links the runtime only.
using TensorMapEncoder = decltype(&cuTensorMapEncodeTiled);
Result<TensorMapEncoder> tensor_map_encoder() {
  constexpr unsigned int kSince = 12000;
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  RETURN_IF_CUDA_ERROR(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, kSince, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || entry == nullptr)
    return Error{"the driver has no cuTensorMapEncodeTiled; expected one of CUDA 12 or newer"};
  return reinterpret_cast<TensorMapEncoder>(entry);
}

struct TensorBox {
  CUtensorMapDataType type;
  int32_t bytes;  // of an element
  uint32_t columns, rows;
};
// Of a row-major [rows][columns] tensor; a box's rows of 128 bytes lie in shared memory with the 128-byte swizzle.
Status encode_map(TensorMapEncoder encode, const void* device, int64_t rows, int64_t columns, const TensorBox& box,
                  std::byte* to) {
  CHECK(reinterpret_cast<uintptr_t>(device) % 16 == 0);
  CUtensorMap map;
  const std::array<cuuint64_t, 2> sizes = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const std::array<cuuint64_t, 1> row_bytes = {static_cast<cuuint64_t>(columns * box.bytes)};
  const std::array<cuuint32_t, 2> box_sizes = {box.columns, box.rows}, steps = {1, 1};
  const CUresult result =
      encode(&map, box.type, 2, const_cast<void*>(device), sizes.data(), row_bytes.data(), box_sizes.data(),
             steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    return Error{"cuTensorMapEncodeTiled of [" + std::to_string(rows) + "][" + std::to_string(columns) + "]: error " +
                 std::to_string(static_cast<int>(result))};
  static_assert(sizeof(map) == sizeof(Operand::tensor_map));
  std::memcpy(to, &map, sizeof(map));
  return Ok{};
}

template <GemmResult kResult, bool kGather, bool kRowLoads>
__global__ void __launch_bounds__(kGemmThreads, 1) gemm_kernel(const __grid_constant__ GemmParams params) {
  run_gemm<kResult, kGather, kRowLoads>(params);
}
using GemmKernel = void (*)(GemmParams);
struct GemmKind {
  const char* name;
  GemmKernel kernel;
};
const GemmKind kToFloats = {"gemm to fp32", gemm_kernel<GemmResult::kFloats, false, false>};
const GemmKind kToHalves = {"gemm to bf16", gemm_kernel<GemmResult::kHalves, false, false>};
const GemmKind kDenseSwiglu = {"gemm with SwiGLU", gemm_kernel<GemmResult::kSwiglu, false, true>};
const GemmKind kExpertSwiglu = {"grouped gemm with SwiGLU", gemm_kernel<GemmResult::kSwiglu, true, false>};

// A plan on the device.
struct Matrix {
  const GemmTile* tiles = nullptr;
  int32_t row_tiles = 0, k = 0, columns = 0;
};

}  // namespace

struct PrefillProducts::State {
  ~State() { cudaFree(tables); }

  const Matrix& at(GemmMatrix matrix) const { return matrices[static_cast<size_t>(matrix)]; }
  // What dense and grouped products share.
  Result<GemmParams> params_of(const GemmKind& kind, GemmMatrix matrix, const std::byte* weights, const Operand& x,
                               void* y) const;
  Status dense(const GemmKind& kind, GemmMatrix matrix, StreamHandle stream, const std::byte* weights, const Operand& x,
               int32_t tokens, void* y) const;
  Status grouped(const GemmKind& kind, GemmMatrix matrix, StreamHandle stream, const std::byte* weights,
                 const Operand& x, const ExpertGroups& groups, const int32_t* gather, void* y) const;

  TensorMapEncoder encode = nullptr;
  GemmTile* tables = nullptr;  // of all matrices
  std::array<Matrix, kGemmMatrices> matrices;
  int32_t processors = 0, experts = 0;
  std::array<int64_t, 2> expert_strides{};  // of up_gate, down
};

namespace {

Status launch(const GemmKind& kind, int32_t blocks, StreamHandle stream, GemmParams& params) {
  params.blocks = blocks;
  params.stages = gemm_stages(params.width);
  kind.kernel<<<static_cast<unsigned>(blocks), kGemmThreads, kGemmSharedBytes, stream>>>(params);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error_of(kind.name, error);
  return Ok{};
}

}  // namespace

Result<GemmParams> PrefillProducts::State::params_of(const GemmKind& kind, GemmMatrix matrix, const std::byte* weights,
                                                     const Operand& x, void* y) const {
  const Matrix& m = at(matrix);
  CHECK(x.columns == m.k);
  GemmParams params{};
  std::memcpy(params.tensor_map, x.tensor_map.data(), sizeof(params.tensor_map));
  params.weights = weights;
  params.tiles = m.tiles;
  params.row_tiles = m.row_tiles;
  params.k_steps = m.k / kGemmStepColumns;
  params.y = y;
  params.columns = m.columns;
  if (kind.kernel == kToFloats.kernel) {  // only whole boxes of rows that exist are stored through it
    const TensorBox box = {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, kGemmStoreColumns, kGemmStoreTokens};
    RETURN_IF_ERROR(encode_map(encode, y, kPrefillTokensMax * int64_t{kGemmGroupsMax}, m.columns, box, params.y_map));
  }
  return params;
}

Status PrefillProducts::State::dense(const GemmKind& kind, GemmMatrix matrix, StreamHandle stream,
                                     const std::byte* weights, const Operand& x, int32_t tokens, void* y) const {
  CHECK(tokens >= 0 && tokens <= kPrefillTokensMax && tokens <= x.rows);
  if (tokens == 0) return Ok{};
  ASSIGN_OR_RETURN(GemmParams params, params_of(kind, matrix, weights, x, y));
  params.groups = 1;
  params.tokens = tokens;
  params.width = gemm_width(tokens, params.row_tiles, processors);
  const int32_t works = ceil_div_32(tokens, kGemmWidthStep) * params.row_tiles;  // at most
  return launch(kind, least(works, processors), stream, params);
}

Status PrefillProducts::State::grouped(const GemmKind& kind, GemmMatrix matrix, StreamHandle stream,
                                       const std::byte* weights, const Operand& x, const ExpertGroups& groups,
                                       const int32_t* gather, void* y) const {
  ASSIGN_OR_RETURN(GemmParams params, params_of(kind, matrix, weights, x, y));
  params.group_stride = expert_strides[matrix == GemmMatrix::kExpertUpGate ? 0 : 1];
  params.groups = experts;
  params.first = groups.first;
  params.width = gemm_group_width(groups.assignments, experts);
  params.x = x.device;
  params.gather = gather;
  params.x_row_bytes = x.columns * 2;
  return launch(kind, processors, stream, params);
}

Result<Operand> make_operand(const bf16* device, int32_t rows, int32_t columns) {
  CHECK(rows > 0 && columns > 0 && columns % kGemmStepColumns == 0);
  ASSIGN_OR_RETURN(const TensorMapEncoder encode, tensor_map_encoder());
  Operand operand{device, rows, columns};
  const TensorBox box = {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, kGemmStepColumns, kGemmWidthStep};
  RETURN_IF_ERROR(encode_map(encode, device, rows, columns, box, operand.tensor_map.data()));
  return operand;
}

PrefillProducts::PrefillProducts(std::unique_ptr<State> state) : state_(std::move(state)) {}
PrefillProducts::~PrefillProducts() = default;

Result<std::unique_ptr<PrefillProducts>> PrefillProducts::make(const ModelConfig& config, int32_t workers) {
  if (config.experts > kGemmGroupsMax)
    return Error{"prefill has lists for " + std::to_string(kGemmGroupsMax) + " experts, the model has " +
                 std::to_string(config.experts)};
  auto state = std::make_unique<State>();
  ASSIGN_OR_RETURN(state->encode, tensor_map_encoder());
  int device = 0;
  RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&state->processors, cudaDevAttrMultiProcessorCount, device));
  for (const GemmKind* kind : {&kToFloats, &kToHalves, &kDenseSwiglu, &kExpertSwiglu})
    RETURN_IF_CUDA_ERROR(
        cudaFuncSetAttribute(kind->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kGemmSharedBytes));
  state->experts = config.experts;
  const int64_t down_bytes = int64_t{config.hidden_size} * config.expert_width * int64_t{sizeof(bf16)};
  state->expert_strides = {2 * down_bytes, down_bytes};

  std::vector<GemmTile> tiles;
  std::array<size_t, kGemmMatrices> first{};
  for (int32_t i = 0; i < kGemmMatrices; ++i) {
    const GemmMatrix matrix = static_cast<GemmMatrix>(i);
    const bool dense = matrix == GemmMatrix::kDenseUpGate || matrix == GemmMatrix::kDenseDown;
    if (dense && config.dense_width == 0) continue;
    ASSIGN_OR_RETURN(const GemmPlan plan, plan_gemm(config, workers, matrix));
    const size_t at = static_cast<size_t>(i);
    first[at] = tiles.size();
    state->matrices[at] = {nullptr, static_cast<int32_t>(plan.tiles.size()), plan.k, plan.columns};
    tiles.insert(tiles.end(), plan.tiles.begin(), plan.tiles.end());
  }
  const size_t bytes = tiles.size() * sizeof(GemmTile);
  RETURN_IF_CUDA_ERROR(cudaMalloc(&state->tables, bytes));
  // The copy may come back before it has arrived, and a non-blocking stream does not wait for it.
  RETURN_IF_CUDA_ERROR(cudaMemcpy(state->tables, tiles.data(), bytes, cudaMemcpyHostToDevice));
  RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(cudaStreamLegacy));
  for (size_t i = 0; i < first.size(); ++i) state->matrices[i].tiles = state->tables + first[i];
  return std::unique_ptr<PrefillProducts>(new PrefillProducts(std::move(state)));
}

Status PrefillProducts::qkv(StreamHandle stream, const std::byte* weights, const Operand& x, int32_t tokens,
                            bf16* y) const {
  return state_->dense(kToHalves, GemmMatrix::kQkv, stream, weights, x, tokens, y);
}
Status PrefillProducts::output(StreamHandle stream, const std::byte* weights, const Operand& x, int32_t tokens,
                               float* y) const {
  return state_->dense(kToFloats, GemmMatrix::kOutput, stream, weights, x, tokens, y);
}
Status PrefillProducts::router(StreamHandle stream, const std::byte* weights, const Operand& x, int32_t tokens,
                               bf16* y) const {
  return state_->dense(kToHalves, GemmMatrix::kRouter, stream, weights, x, tokens, y);
}
Status PrefillProducts::dense_up_gate(StreamHandle stream, const std::byte* weights, const Operand& x, int32_t tokens,
                                      bf16* inner) const {
  return state_->dense(kDenseSwiglu, GemmMatrix::kDenseUpGate, stream, weights, x, tokens, inner);
}
Status PrefillProducts::dense_down(StreamHandle stream, const std::byte* weights, const Operand& inner, int32_t tokens,
                                   float* y) const {
  return state_->dense(kToFloats, GemmMatrix::kDenseDown, stream, weights, inner, tokens, y);
}
Status PrefillProducts::expert_up_gate(StreamHandle stream, const std::byte* weights, const Operand& x,
                                       const ExpertGroups& groups, bf16* inner) const {
  return state_->grouped(kExpertSwiglu, GemmMatrix::kExpertUpGate, stream, weights, x, groups, groups.tokens, inner);
}
Status PrefillProducts::expert_down(StreamHandle stream, const std::byte* weights, const Operand& inner,
                                    const ExpertGroups& groups, float* y) const {
  return state_->grouped(kToFloats, GemmMatrix::kExpertDown, stream, weights, inner, groups, nullptr, y);
}

}  // namespace boreas::cuda
