// Brings a model's weights to a device, each row to its place in the order in which workers stream it. Files are read
// in their own order by several threads into pinned memory, while what was read before is copied and spread. Called
// once, when the executor is made.
#pragma once

#include <cstddef>

#include "exec/cuda/device.h"
#include "exec/cuda/weight_layout.h"
#include "model/model.h"

namespace boreas::cuda {

// weights: layout.bytes; norms: [layers + 1, hidden] bf16, the final norm last. Names, shapes and dtypes were checked
// when the model was loaded. Dummy weights are generated on the device; the model's own memory is not read then.
// Error: of the device; of a file (Model::read_weight).
Status upload_weights(Device& device, const Model& model, int32_t workers, const WeightLayout& layout,
                      std::byte* weights, std::byte* norms, const LoadProgress& progress);

}  // namespace boreas::cuda
