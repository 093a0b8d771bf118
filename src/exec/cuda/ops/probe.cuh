// What the bodies of probed kernels (Probed in shape.h) do besides: take a layer's input from StepParams::probe, write
// down what it put out. Bodies call it under `if constexpr (C::kProbed)`; other kernels contain none of it.
#pragma once

#include "exec/cuda/worker.cuh"

namespace boreas::cuda {

// The bf16 on which `layer` computes in place of `own`, which is what came out before it.
template <class C>
BOREAS_DEVICE uint32_t probed_input(const Worker<C>& w, int32_t layer, int32_t row, int32_t column, uint32_t own) {
  const uint16_t* inputs = w.params.probe.inputs;
  if (inputs == nullptr || layer >= w.params.layer_count) return own;
  return inputs[(static_cast<int64_t>(layer) * kRowsMax + row) * C::kHidden + column];
}

// One value of what attention and MLP put out, before the residual add.
template <class C>
BOREAS_DEVICE void record_outputs(const Worker<C>& w, int32_t layer, int32_t row, int32_t column, float attention,
                                  float mlp) {
  if (w.params.probe.outputs == nullptr) return;
  float* to = w.params.probe.outputs + (static_cast<int64_t>(layer) * 2 * kRowsMax + row) * C::kHidden + column;
  to[0] = attention;
  to[kRowsMax * C::kHidden] = mlp;
}

// All workers choose the same, one writes.
template <class C>
BOREAS_DEVICE void record_choice(const Worker<C>& w, int32_t layer, int32_t row, int32_t choice, int32_t expert) {
  if (w.params.probe.routes == nullptr || w.worker() != 0 || expert < 0) return;
  w.params.probe.routes[(layer * kRowsMax + row) * C::kExpertsPerToken + choice] = expert;
}

}  // namespace boreas::cuda
