// What a prefill needs of a device, kernel by kernel. Implementations: cuda_kernels.cu (a GPU), tests/emulation (the
// same kernels' source on a CPU, products in plain arithmetic). runner.cc is the only caller.
//
// All work is in stream order with everything else of the Device; calls only enqueue. Addresses are the device's.
// Every Error names the call and the device's reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/result.h"

namespace boreas::cuda::prefill {

struct UnfoldArgs;
struct AttentionArgs;  // all of them: arguments.h
struct EmbedArgs;
struct RopeArgs;
struct AppendArgs;
struct FinishArgs;
struct RouteArgs;

enum class Product : int32_t { kQkv, kOutput, kRouter, kDenseUpGate, kDenseDown, kExpertUpGate, kExpertDown };

// Rows of x by expert: assignment a of expert e, first[e] <= a < first[e + 1], takes row rows[a]. On the device.
struct GroupedRows {
  const int32_t* first = nullptr;
  const int32_t* rows = nullptr;
};

class PrefillKernels {
 public:
  virtual ~PrefillKernels() = default;

  // A buffer that products read, [rows][columns] bf16 in operand order; once, before the first product that reads it.
  virtual Status add_operand(const bf16* buffer, int32_t rows, int32_t columns) = 0;

  // y = x weights^T for `tokens` rows of x, or of the grouped ones (`groups`, expert products only). weights: the
  // layer's region. y: bf16 for kQkv, kRouter and, in operand order, for the SwiGLU outputs of the up-gate products;
  // else fp32. Shapes as in gemm.h.
  virtual Status multiply(Product product, const std::byte* weights, const bf16* x, int32_t tokens,
                          const GroupedRows& groups, void* y) = 0;

  virtual Status embed(const EmbedArgs& args, int32_t tokens) = 0;
  virtual Status fill_turns(const RopeArgs& args) = 0;
  virtual Status append(const AppendArgs& args) = 0;
  virtual Status unfold(const UnfoldArgs& args, int32_t pages) = 0;
  virtual Status attend(const AttentionArgs& args, int32_t queries, int32_t items) = 0;
  virtual Status route(const RouteArgs& args) = 0;
  virtual Status finish(const FinishArgs& args, int32_t tokens) = 0;
};

}  // namespace boreas::cuda::prefill
