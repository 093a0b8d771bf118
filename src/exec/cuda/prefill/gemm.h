// The matrix products of prefill: Y = X W^T over many tokens with wgmma, reading the very weights that decode streams
// (program/weight_tiles.h). The prefill runner calls them, layer by layer, in one stream.
//
//   X   [tokens][K] bf16, row-major, each row in operand order (operand.h): an Operand
//   W   a region of the re-laid weights (weight_layout.h), by its device address
//   Y   row-major, columns in the tensor's own order (logical: head after head, hidden 0, 1, ...), except that what is
//       again the X of a product (the SwiGLU outputs) is in operand order
//
// Equal bits: an element of Y is one chain of MMAs over K in ascending order. It depends on its own row of X and on W,
// not on the number of tokens, nor on what else is in the batch, nor where in it the row lies.
//
// Calls only enqueue and never wait; buffers must live until the work is done. Every multiple of 1 token from 1 to
// kPrefillTokensMax is allowed; 0 enqueues nothing. Error: of the CUDA call, with its name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "base/result.h"
#include "model/model.h"

struct CUstream_st;  // cudaStream_t points to one

namespace boreas::cuda {

using StreamHandle = CUstream_st*;

constexpr int32_t kPrefillTokensMax = 1 << 16;

// A right factor. Made once for a buffer, used by value in any number of products.
struct Operand {
  const bf16* device = nullptr;  // [rows][columns], operand order, 16-byte aligned
  int32_t rows = 0;              // of the buffer: products read rows below it only, stale ones beyond `tokens` included
  int32_t columns = 0;           // a multiple of 64
  alignas(64) std::array<std::byte, 128> tensor_map{};  // how the copy engine sees it
};
// `device` [rows][columns] must be allocated on the current GPU.
Result<Operand> make_operand(const bf16* device, int32_t rows, int32_t columns);

// Which tokens each expert computes: expert e has assignments first[e] .. first[e + 1] - 1, assignment a is row
// tokens[a] of X. All on the device, written by earlier work of the stream.
struct ExpertGroups {
  const int32_t* first = nullptr;   // [experts + 1], ascending from 0
  const int32_t* tokens = nullptr;  // [first[experts]], each below the X's rows
  int32_t assignments = 0;          // on the host: first[experts], or more; for speed only, 0 if not known
};

class PrefillProducts {
 public:
  // Plans every product of a model whose weights lie as row_places(config, workers, ..) says, and puts the plans (under
  // 2 MB) on the current GPU. Error: a matrix whose cut these kernels cannot take, with its name; no memory.
  static Result<std::unique_ptr<PrefillProducts>> make(const ModelConfig& config, int32_t workers);
  ~PrefillProducts();
  PrefillProducts(const PrefillProducts&) = delete;
  PrefillProducts& operator=(const PrefillProducts&) = delete;

  // weights: region `qkv` of the layer. x [tokens][hidden], y [tokens][query_width + 2 kv_width] bf16: all query heads,
  // all key heads, all value heads, 128 columns each.
  Status qkv(StreamHandle stream, const std::byte* weights, const Operand& x, int32_t tokens, bf16* y) const;
  // Region `output`. x: attention outputs [tokens][query_width], heads in order; y [tokens][hidden] fp32.
  Status output(StreamHandle stream, const std::byte* weights, const Operand& x, int32_t tokens, float* y) const;
  // Region `router`. x [tokens][hidden], y [tokens][experts]: fp32 sums rounded to bf16.
  Status router(StreamHandle stream, const std::byte* weights, const Operand& x, int32_t tokens, bf16* y) const;
  // Region `up_gate` of a dense layer. inner [tokens][dense_width] bf16, operand order: silu(gate) * up, rounded once.
  Status dense_up_gate(StreamHandle stream, const std::byte* weights, const Operand& x, int32_t tokens,
                       bf16* inner) const;
  // Region `down` of a dense layer. y [tokens][hidden] fp32.
  Status dense_down(StreamHandle stream, const std::byte* weights, const Operand& inner, int32_t tokens,
                    float* y) const;

  // Region `up_gate` of a routed layer. x [tokens][hidden]; inner [assignments][expert_width] bf16, operand order.
  Status expert_up_gate(StreamHandle stream, const std::byte* weights, const Operand& x, const ExpertGroups& groups,
                        bf16* inner) const;
  // Region `down` of a routed layer. inner [assignments][expert_width]; y [assignments][hidden] fp32, without the
  // routing weight.
  Status expert_down(StreamHandle stream, const std::byte* weights, const Operand& inner, const ExpertGroups& groups,
                     float* y) const;

 private:
  struct State;
  explicit PrefillProducts(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace boreas::cuda
