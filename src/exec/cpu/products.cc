// See products.h.
#include "exec/cpu/products.h"

namespace boreas::cpu {

void multiply_rows(OpContext& context, const TensorView& weight, Range rows, std::span<const float* const> x,
                   std::vector<float>& y) {
  y.resize(x.size() * static_cast<size_t>(rows.count));
  if (rows.count == 0 || x.empty()) return;
  GemmArgs args;
  args.w = weight.bf16_row(rows.first);
  args.w_stride = weight.cols;
  args.rows = rows.count;
  args.k = static_cast<int32_t>(weight.cols);
  args.x = x.data();
  args.tokens = static_cast<int32_t>(x.size());
  args.y = y.data();
  args.y_stride = rows.count;
  context.shared.kernels->gemm(args);
  context.worker.bytes_read += int64_t{rows.count} * weight.cols * static_cast<int64_t>(sizeof(bf16));
}

std::span<const float* const> rows_of(OpContext& context, const std::vector<float>& slot, int32_t width) {
  std::vector<const float*>& pointers = context.worker.pointers;
  pointers.clear();
  for (int32_t row = 0; row < context.rows(); ++row) pointers.push_back(slot.data() + int64_t{row} * padded(width));
  return pointers;
}

}  // namespace boreas::cpu
