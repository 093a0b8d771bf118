// Body of gather: hop words into a slot, packed where products follow.
#include <algorithm>

#include "exec/cpu/state.h"

namespace boreas::cpu {
namespace {

void gather_qkv(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  const int64_t width = int64_t{config.queries_per_kv() + 2} * config.head_dim;
  const int32_t heads = task.args[GatherOp::kHeadCount], first = task.args[GatherOp::kHeadFirst];
  const bf16* payload = context.wait_payload<const bf16>(task);
  for (int32_t row = 0; row < context.rows(); ++row) {
    const bf16* source = payload + (int64_t{row} * config.kv_heads + first) * width;
    std::copy_n(source, heads * width, context.worker.qkv.data() + int64_t{row} * heads * width);
  }
}

void pack_rows(OpContext& context, const TaskDesc& task, int64_t rows, int32_t width, float* slot) {
  const bf16* payload = context.wait_payload<const bf16>(task);
  for (int64_t row = 0; row < rows; ++row)
    context.shared.kernels->pack(payload + row * width, width, slot + row * padded(width));
}

// Inner vectors in two parts: here they lie together, by row and choice, whichever part they come with.
void pack_part(OpContext& context, const TaskDesc& task, bool first_part) {
  const int32_t width = context.config().expert_width;
  const Route& route = context.worker.routes[task.args[GatherOp::kRouteSlot] == static_cast<int32_t>(Slot::kRouteOdd)];
  const bf16* payload = context.wait_payload<const bf16>(task);
  const size_t cut = std::min(static_cast<size_t>(task.args[GatherOp::kFirstVectors]), route.pair.size());
  for (size_t i = first_part ? 0 : cut; i < (first_part ? cut : route.pair.size()); ++i)
    context.shared.kernels->pack(payload + int64_t{route.pair[i]} * width, width,
                                 context.worker.inner.data() + int64_t{route.pair[i]} * padded(width));
}

}  // namespace

void run_kGather(OpContext& context, const TaskDesc& task) {
  const ModelConfig& config = context.config();
  switch (static_cast<Slot>(task.args[GatherOp::kSlot])) {
    case Slot::kQkv:
      gather_qkv(context, task);
      break;
    case Slot::kAttention:
      pack_rows(context, task, context.rows(), config.query_width(), context.worker.attention.data());
      break;
    case Slot::kInnerFirst:
      pack_part(context, task, true);
      break;
    case Slot::kInner:
      if (task.args[GatherOp::kFirstVectors] > 0) pack_part(context, task, false);
      else if (config.is_moe(task.layer))
        pack_rows(context, task, int64_t{context.rows()} * config.experts_per_token, config.expert_width,
                  context.worker.inner.data());
      else pack_rows(context, task, context.rows(), config.dense_width, context.worker.inner.data());
      break;
    default:
      CHECK(!"gather into a slot that no hop feeds");
  }
}

}  // namespace boreas::cpu
