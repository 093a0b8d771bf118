// See prefill_gemm_case.h.
#include "tests/gpu/prefill_gemm_case.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "base/check.h"
#include "base/dtype.h"
#include "exec/cuda/prefill/operand.h"
#include "exec/cuda/weight_layout.h"

namespace boreas::cuda {
namespace {

constexpr int32_t kWorkers = 128;
constexpr int kBlockThreads = 256;
constexpr uint32_t kXSeed = 1000;

void must(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  std::abort();
}
#define MUST(call) must((call), #call)

// An odd multiple of 2^-7 between -1 and 1.
__host__ __device__ float made_up(uint32_t what, uint32_t row, uint32_t column) {
  uint32_t h = what * 0x9e3779b9u ^ row * 0x85ebca6bu ^ column * 0xc2b2ae35u;
  h = (h ^ h >> 16) * 0x7feb352du;
  h = (h ^ h >> 15) * 0x846ca68bu;
  return static_cast<float>(static_cast<int8_t>(h >> 24 | 1u)) / 128.0f;
}
__device__ bf16 made_up_half(uint32_t what, uint32_t row, uint32_t column) {
  return static_cast<bf16>(__float_as_uint(made_up(what, row, column)) >> 16);  // exact
}
uint32_t seed_of(WeightRole role, int32_t expert) {
  return static_cast<uint32_t>(role) * 256u + static_cast<uint32_t>(expert);
}

__global__ void scatter(std::byte* base, const RowPlace* places, int32_t rows, int32_t columns, uint32_t seed) {
  const int64_t pairs = columns / 2, count = rows * pairs;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const uint32_t row = static_cast<uint32_t>(i / pairs), pair = static_cast<uint32_t>(i % pairs);
    const uint32_t low = made_up_half(seed, row, 2 * pair), high = made_up_half(seed, row, 2 * pair + 1);
    *reinterpret_cast<uint32_t*>(base + pair_offset(places[row], static_cast<int32_t>(pair))) = low | high << 16;
  }
}

__global__ void make_rows(bf16* x, int32_t rows, int32_t columns, int32_t first, uint32_t seed) {
  const int64_t count = int64_t{rows} * columns;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const int32_t row = static_cast<int32_t>(i / columns), column = static_cast<int32_t>(i % columns);
    x[int64_t{row} * columns + operand_column(column)] =
        made_up_half(seed, static_cast<uint32_t>(first + row), static_cast<uint32_t>(column));
  }
}

// One block a wanted row of X, a thread a column of Y.
__global__ void sum_exactly(const int32_t* rows, const int32_t* experts, int32_t k, int32_t columns, uint32_t x_seed,
                            uint32_t weight_seed, ExactSum* out) {
  const uint32_t row = static_cast<uint32_t>(rows[blockIdx.y]);
  const int32_t column = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns) return;
  const uint32_t seed = weight_seed + static_cast<uint32_t>(experts[blockIdx.y]);
  double value = 0, magnitude = 0;
  for (uint32_t i = 0; i < static_cast<uint32_t>(k); ++i) {
    const double term = double{made_up(x_seed, row, i)} * double{made_up(seed, static_cast<uint32_t>(column), i)};
    value += term;
    magnitude += fabs(term);
  }
  out[int64_t{blockIdx.y} * columns + column] = {value, magnitude};
}

}  // namespace

GpuBuffer::GpuBuffer(size_t bytes) : bytes_(bytes) { MUST(cudaMalloc(&device_, bytes)); }
GpuBuffer::~GpuBuffer() { cudaFree(device_); }
void GpuBuffer::fill(int value) { MUST(cudaMemset(device_, value, bytes_)); }
void GpuBuffer::set(const void* from, size_t bytes) {
  CHECK(bytes <= bytes_);
  MUST(cudaMemcpy(device_, from, bytes, cudaMemcpyHostToDevice));
}
void GpuBuffer::copy_out(void* to, size_t first, size_t bytes) const {
  CHECK(first + bytes <= bytes_);
  MUST(cudaMemcpy(to, static_cast<const std::byte*>(device_) + first, bytes, cudaMemcpyDeviceToHost));
}
void finish_gpu_work() { MUST(cudaDeviceSynchronize()); }

MadeGroups make_groups(int32_t tokens, int32_t experts, int32_t choices, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<int32_t>> of_expert(static_cast<size_t>(experts));
  for (int32_t token = 0; token < tokens; ++token) {
    std::vector<bool> taken(static_cast<size_t>(experts));
    for (int32_t choice = 0; choice < choices;) {
      const uint32_t any = random() % static_cast<uint32_t>(experts), low = any * (random() % 4 + 1) / 4;
      const size_t expert = random() % 3 == 0 ? low : any;
      if (taken[expert]) continue;
      taken[expert] = true;
      of_expert[expert].push_back(token);
      ++choice;
    }
  }
  MadeGroups groups;
  groups.first.push_back(0);
  for (const std::vector<int32_t>& list : of_expert) {
    groups.tokens.insert(groups.tokens.end(), list.begin(), list.end());
    groups.first.push_back(static_cast<int32_t>(groups.tokens.size()));
  }
  return groups;
}

PrefillGemmCase::PrefillGemmCase(const ModelConfig& config, int32_t tokens_max, int32_t copies)
    : config_(config), tokens_max_(tokens_max), copies_(copies) {
  auto products = PrefillProducts::make(config, kWorkers);
  CHECK(products.ok());
  products_ = std::move(products).value();
  for (int32_t i = 0; i < kGemmMatrices; ++i) {
    const GemmMatrix matrix = static_cast<GemmMatrix>(i);
    make_weights(matrix);
    const int32_t rows = tokens_max_ * (matrix == GemmMatrix::kExpertDown ? config.experts_per_token : 1);
    x_.push_back(std::make_unique<GpuBuffer>(static_cast<size_t>(rows) * static_cast<size_t>(k(matrix)) * 2));
    operands_.push_back(make_operand(x_.back()->as<bf16>(), rows, k(matrix)).value());
    make_x(matrix, 0);
  }
}

std::vector<WeightRole> PrefillGemmCase::roles(GemmMatrix matrix) const {
  using enum WeightRole;
  static const std::vector<WeightRole> kRoles[kGemmMatrices] = {
      {kQuery, kKey, kValue},   {kOutput},    {kRouter}, {kDenseGate, kDenseUp}, {kDenseDown},
      {kExpertGate, kExpertUp}, {kExpertDown}};
  return kRoles[static_cast<size_t>(matrix)];
}
int32_t PrefillGemmCase::k(GemmMatrix matrix) const {
  return static_cast<int32_t>(weight_shape(config_, roles(matrix)[0]).cols);
}
int32_t PrefillGemmCase::columns(GemmMatrix matrix) const {
  int64_t rows = 0;
  for (WeightRole role : roles(matrix)) rows += weight_shape(config_, role).rows;
  return static_cast<int32_t>(is_swiglu(matrix) ? rows / 2 : rows);
}
int64_t PrefillGemmCase::weight_bytes(GemmMatrix matrix) const {
  return int64_t{columns(matrix)} * (is_swiglu(matrix) ? 2 : 1) * k(matrix) * 2 *
         (is_expert(matrix) ? config_.experts : 1);
}

void PrefillGemmCase::make_weights(GemmMatrix matrix) {
  const int32_t experts = is_expert(matrix) ? config_.experts : 1, copies = is_expert(matrix) ? 1 : copies_;
  const size_t bytes = static_cast<size_t>(weight_bytes(matrix));
  weights_.push_back(std::make_unique<GpuBuffer>(bytes * static_cast<size_t>(copies)));
  weights_.back()->fill(0xff);
  for (WeightRole role : roles(matrix)) {
    const std::vector<RowPlace> places = row_places(config_, kWorkers, role);
    GpuBuffer device(places.size() * sizeof(RowPlace));
    device.set(places.data(), device.bytes());
    for (int32_t copy = 0; copy < copies; ++copy)
      for (int32_t expert = 0; expert < experts; ++expert)
        scatter<<<512, kBlockThreads>>>(weights_.back()->as<std::byte>() + bytes * static_cast<size_t>(copy) +
                                            bytes / static_cast<size_t>(experts) * static_cast<size_t>(expert),
                                        device.as<RowPlace>(), static_cast<int32_t>(places.size()), k(matrix),
                                        seed_of(role, expert));
    finish_gpu_work();
  }
}

void PrefillGemmCase::make_x(GemmMatrix matrix, int32_t first) {
  const Operand& operand = operands_[static_cast<size_t>(matrix)];
  make_rows<<<2048, kBlockThreads>>>(x_[static_cast<size_t>(matrix)]->as<bf16>(), operand.rows, operand.columns, first,
                                     kXSeed + static_cast<uint32_t>(matrix));
  MUST(cudaGetLastError());
}

Status PrefillGemmCase::run(GemmMatrix matrix, int32_t tokens, int32_t copy, void* y) const {
  const Operand& x = operands_[static_cast<size_t>(matrix)];
  const std::byte* weights = weights_[static_cast<size_t>(matrix)]->as<std::byte>() + weight_bytes(matrix) * copy;
  switch (matrix) {
    case GemmMatrix::kQkv:
      return products_->qkv(nullptr, weights, x, tokens, static_cast<bf16*>(y));
    case GemmMatrix::kOutput:
      return products_->output(nullptr, weights, x, tokens, static_cast<float*>(y));
    case GemmMatrix::kRouter:
      return products_->router(nullptr, weights, x, tokens, static_cast<bf16*>(y));
    case GemmMatrix::kDenseUpGate:
      return products_->dense_up_gate(nullptr, weights, x, tokens, static_cast<bf16*>(y));
    case GemmMatrix::kDenseDown:
      return products_->dense_down(nullptr, weights, x, tokens, static_cast<float*>(y));
    case GemmMatrix::kExpertUpGate:
    case GemmMatrix::kExpertDown:
      break;
  }
  return Error{"a grouped product"};
}
Status PrefillGemmCase::run_grouped(GemmMatrix matrix, const ExpertGroups& groups, void* y) const {
  const Operand& x = operands_[static_cast<size_t>(matrix)];
  const std::byte* weights = weights_[static_cast<size_t>(matrix)]->as<std::byte>();
  if (matrix == GemmMatrix::kExpertUpGate)
    return products_->expert_up_gate(nullptr, weights, x, groups, static_cast<bf16*>(y));
  return products_->expert_down(nullptr, weights, x, groups, static_cast<float*>(y));
}

std::vector<ExactSum> PrefillGemmCase::exact(GemmMatrix matrix, const std::vector<int32_t>& rows,
                                             const std::vector<int32_t>& experts) const {
  GpuBuffer rows_there(rows.size() * 4), experts_there(rows.size() * 4);
  rows_there.set(rows.data(), rows.size() * 4);
  experts_there.set(experts.data(), rows.size() * 4);
  const bool swiglu = is_swiglu(matrix);
  std::vector<ExactSum> all, part;
  std::vector<std::vector<ExactSum>> parts;
  for (WeightRole role : roles(matrix)) {
    const int32_t width = static_cast<int32_t>(weight_shape(config_, role).rows);
    GpuBuffer out(rows.size() * static_cast<size_t>(width) * sizeof(ExactSum));
    const dim3 blocks(static_cast<unsigned>((width + kBlockThreads - 1) / kBlockThreads),
                      static_cast<unsigned>(rows.size()));
    sum_exactly<<<blocks, kBlockThreads>>>(rows_there.as<int32_t>(), experts_there.as<int32_t>(), k(matrix), width,
                                           kXSeed + static_cast<uint32_t>(matrix), seed_of(role, 0),
                                           out.as<ExactSum>());
    MUST(cudaGetLastError());
    parts.push_back(out.get<ExactSum>(0, rows.size() * static_cast<size_t>(width)));
  }
  if (swiglu) {
    all = parts[0];
    all.insert(all.end(), parts[1].begin(), parts[1].end());
    return all;
  }
  for (size_t row = 0; row < rows.size(); ++row)  // tensors side by side
    for (const std::vector<ExactSum>& sums : parts) {
      const size_t width = sums.size() / rows.size();
      all.insert(all.end(), sums.begin() + static_cast<ptrdiff_t>(row * width),
                 sums.begin() + static_cast<ptrdiff_t>((row + 1) * width));
    }
  return all;
}

}  // namespace boreas::cuda
