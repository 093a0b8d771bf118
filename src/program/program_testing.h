// Shapes and machines that the tests of this folder share.
#pragma once

#include <string>

#include "program/compile.h"

namespace boreas {

inline ModelConfig shape_named(const char* name) { return model_shape(name).value(); }

// The tiny shape cut to a dense layer, a sliding routed one and a full routed one without RoPE.
inline ModelConfig three_layer_shape() {
  ModelConfig config = shape_named("tiny");
  config.layers = {{.sliding = false, .rope = true, .dense_mlp = true},
                   {.sliding = true, .rope = true, .dense_mlp = false},
                   {.sliding = false, .rope = false, .dense_mlp = false}};
  return config;
}

inline Program placed(const ModelConfig& config, const DeviceSpec& device, int32_t rows) {
  return place(lower(config, rows), device, rows).value();
}

}  // namespace boreas
