// EMBED on the device: the own hidden slice of each row's token, read from the LM head's layout. A row whose token the
// host does not know takes what the last launch drew for its slot.
#pragma once

#include "exec/cuda/ops/op.cuh"
#include "exec/cuda/ops/probe.cuh"

namespace boreas::cuda {

template <class C>
struct Body<C, Op::kEmbed> {
  static BOREAS_DEVICE void run(Worker<C>& w, StreamTaker&, const Task& task) {
    const int32_t first = task.arg(EmbedOp::kFirst), count = task.arg(EmbedOp::kCount);
    const uint32_t residual = w.slot(Slot::kResidual);
    for (int32_t i = w.consumer_thread(); i < w.rows() * count; i += kConsumerThreads) {
      const int32_t row = i / count, column = i % count;
      uint32_t value = embedding(w, token_of(w, row), first + column);
      if constexpr (C::kProbed) value = probed_input(w, 0, row, first + column, value);
      store_shared_float(residual + i * 4, low_half(value));
      store_shared_16(w.scratch(&ScratchMap::outputs) + i * 2, value);
    }
    publish_outputs<C::even_slice(C::kHidden)>(w, task, w.rows(), count, C::kResidualWords);
  }

  static BOREAS_DEVICE int32_t token_of(const Worker<C>& w, int32_t row) {
    const RowPlan& plan = w.params.row[row];
    return plan.token >= 0 ? plan.token : w.params.slot_tokens[plan.slot];
  }
  // One bf16 of the embedding: row `token` of the LM head, which the slices' owners stream.
  static BOREAS_DEVICE uint32_t embedding(const Worker<C>& w, int32_t token, int32_t column) {
    int32_t owner = static_cast<int32_t>(int64_t{token} * C::kWorkers / C::kVocabulary);
    while (C::slice_of(C::kVocabulary, owner).end() <= token) ++owner;
    while (C::slice_of(C::kVocabulary, owner).first > token) --owner;
    const Range slice = C::slice_of(C::kVocabulary, owner);
    const int64_t offset = int64_t{slice.first} * C::kHidden * 2 +
                           unit_element_offset(slice.count, C::kHidden, token - slice.first, column);
    const uint8_t* at = w.params.weights + w.params.lm_head + (offset & ~int64_t{3});
    return half_of(load_constant_32(at), static_cast<int32_t>(offset >> 1 & 1));
  }
};

}  // namespace boreas::cuda
