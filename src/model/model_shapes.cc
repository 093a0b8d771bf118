// Shapes known by name, for running without a checkpoint. Called through the door (model.h).
#include "model/model.h"
#include "model/quote.h"

namespace boreas {
namespace {

// What all shapes share with the published model: full attention in layers 0, 4, 8, ..., a window in the others, the
// dense MLP in layer 0 alone, which also makes layer 0 the only full layer with RoPE.
ModelConfig base_shape(int32_t layer_count) {
  ModelConfig config;
  config.family = "cohere2_moe";
  config.head_dim = 128;
  config.rms_norm_eps = 1e-6f;
  config.rope_theta = 50000;
  config.logit_scale = 1;
  for (int32_t i = 0; i < layer_count; ++i) {
    const bool sliding = i % 4 != 0;
    config.layers.push_back({.sliding = sliding, .rope = sliding || i == 0, .dense_mlp = i == 0});
  }
  return config;
}

// The published numbers of North-Mini-Code-1.0: 30,484,303,872 parameters, 60,968,607,744 bytes.
ModelConfig north_shape() {
  ModelConfig config = base_shape(49);
  config.hidden_size = 2048;
  config.query_heads = 32;
  config.kv_heads = 4;
  config.expert_width = 768;
  config.dense_width = 3072;
  config.experts = 128;
  config.experts_per_token = 8;
  config.vocab_size = 262144;
  config.window = 4096;
  config.context_max = 500000;
  config.eos_token_ids = {255001};
  config.bos_token_id = 2;
  config.pad_token_id = 0;
  return config;
}

// The bundled demo checkpoint: 11,110,912 parameters.
ModelConfig demo_shape() {
  ModelConfig config = base_shape(9);
  config.hidden_size = 256;
  config.query_heads = 4;
  config.kv_heads = 2;
  config.expert_width = 64;
  config.dense_width = 256;
  config.experts = 16;
  config.experts_per_token = 4;
  config.vocab_size = 4096;
  config.window = 128;
  config.context_max = 65536;
  return config;
}

// The smallest shape that has every feature: two full layers (one of them without RoPE), three sliding ones, and a
// window that short tests cross.
ModelConfig tiny_shape() {
  ModelConfig config = base_shape(5);
  config.hidden_size = 128;
  config.query_heads = 4;
  config.kv_heads = 2;
  config.expert_width = 32;
  config.dense_width = 64;
  config.experts = 8;
  config.experts_per_token = 2;
  config.vocab_size = 512;
  config.window = 16;
  config.context_max = 4096;
  return config;
}

// For bandwidth measurements on a CPU: 1.41 GB, 86 % of it experts of 9.4 MB each (North's size), and every token hits
// all 8 experts of a layer. So a step reads all weights whatever the routing, and a batch reads no more than one row.
ModelConfig bench_shape() {
  ModelConfig config = base_shape(17);
  config.hidden_size = 1024;
  config.query_heads = 16;
  config.kv_heads = 4;
  config.expert_width = 1536;
  config.dense_width = 1536;
  config.experts = 8;
  config.experts_per_token = 8;
  config.vocab_size = 8192;
  config.window = 1024;
  config.context_max = 65536;
  return config;
}

struct NamedShape {
  const char* name;
  ModelConfig (*make)();
};

constexpr NamedShape kShapes[] = {
    {"north", &north_shape},
    {"demo", &demo_shape},
    {"tiny", &tiny_shape},
    {"bench", &bench_shape},
};

}  // namespace

Result<ModelConfig> model_shape(std::string_view name) {
  std::string names;
  for (const NamedShape& shape : kShapes) {
    if (name == shape.name) return shape.make();
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return Error{"model shape " + quote(name) + " is unknown; expected one of " + names, "model_shape"};
}

std::vector<std::string> model_shape_names() {
  std::vector<std::string> names;
  for (const NamedShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

}  // namespace boreas
